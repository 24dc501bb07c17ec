// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs of others that compute with Vulkan through packages of PyPI.

use super::{is_here, python, text};
use bellhop_vm::{Sources, fetch_library};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program in `vulkan/programs` that uses Vulkan through a package.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Its file.
    pub file: &'static str,
    /// The package, as `name==version`, and others after spaces.
    pub packages: &'static str,
    /// What it imports.
    pub imports: &'static str,
    /// What the names of the errors begin with that the validation layer finds in it. It finds the same where the program runs with
    /// lavapipe itself: these errors are the program's.
    pub errors: &'static [&'static str],
}

const fn program(file: &'static str, packages: &'static str, imports: &'static str) -> Program {
    Program { file, packages, imports, errors: &[] }
}

pub const COMPUTEML: Program = program("computeml_program.py", "computeml==0.4.4", "computeml");
/// Gives an instance settings for a validation layer, in a structure that is newer than the layer. Its package can be imported only
/// where there is a Vulkan loader.
pub const GGML: Program = Program {
    errors: &["VUID-VkInstanceCreateInfo-pNext-pNext"],
    ..program("ggml_program.py", "cyllama-vulkan==0.2.18 gguf==0.19.0 numpy==2.2.6", "gguf, numpy")
};
pub const HEPHAISTOS: Program =
    program("hephaistos_program.py", "hephaistos==0.10.1 numpy==2.2.6", "hephaistos, numpy");
/// Does not reset queries, lacks a barrier between a copy and a dispatch, and records again what its pool does not let it. Asks for
/// Vulkan 1.1, and is given a kernel in the SPIR-V of 1.2.
pub const KOMPUTE: Program = Program {
    errors: &[
        "SYNC-HAZARD-WRITE-AFTER-WRITE",
        "UNASSIGNED-CoreValidation-Shader-InconsistentSpirv",
        "UNASSIGNED-CoreValidation-DrawState-QueryNotReset",
        "VUID-vkBeginCommandBuffer-commandBuffer-00050",
    ],
    ..program("kompute_program.py", "kp==0.9.0", "kp, numpy")
};
pub const NCNN: Program = program("ncnn_program.py", "ncnn==1.0.20261020", "ncnn");
/// Every kind of layer of ncnn's that has a Vulkan form.
pub const NCNN_LAYERS: Program = Program { file: "ncnn_layers_program.py", ..NCNN };
/// Ends before it knows that its last work is done, and while its threads still have objects: which ones differs from run to run.
pub const VKDISPATCH: Program = Program {
    errors: &["VUID-vkDestroy", "VUID-vkFree", "UNASSIGNED-ObjectTracker-ObjectLeak"],
    ..program("vkdispatch_program.py", "vkdispatch==0.1.0 numpy==2.2.6", "vkdispatch, numpy")
};

/// The daemon's configuration for them. Compilers may take as long as they want: one of a shader of computeml's takes eight seconds
/// on a machine with nothing else to do.
pub const PATIENT: &str =
    "[adapter]\nkernel_compile_timeout = \"10m\"\n[guest]\nkernel_compile_burst = \"1h\"\n";

/// What a program prints if all was as the processor computes it. Libraries may flush what they print after it.
const RIGHT: &str = "every number is right";

/// The folder of programs.
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vulkan/programs")
}

impl Program {
    /// Where it is.
    pub fn path(&self) -> PathBuf {
        programs().join(self.file)
    }

    /// A Python that has its packages; the first call makes it. `None` if it cannot be made, and then this program is not tried.
    pub fn python(&self) -> Option<Python> {
        let Self { packages, imports, .. } = self;
        let name = packages.split("==").next().unwrap_or(packages);
        let loss = format!("no program with {name} uses Vulkan");
        let imports = format!("import {imports}");
        let folder = if packages.starts_with("kp==") {
            is_here("c++", &loss)
                .then(|| {
                    python::made(name, &imports, &loss, |python| build_kompute(python, packages))
                })
                .flatten()
        } else {
            python::python_with(packages, &imports, &loss)
        }?;
        Some(Python { folder })
    }

    /// Looks at what a command printed that ran it, and had the validation layer look on: all was right, and the errors that the layer
    /// found are the program's own.
    #[track_caller]
    pub fn assert_right(&self, output: &Output) {
        let (said, found) = (text(&output.stdout), text(&output.stderr));
        assert!(said.lines().any(|line| line == RIGHT), "{self:?}: {said}{found}");
        let errors = validation_errors(&found);
        let is_own = |error: &&str| self.errors.iter().any(|own| error.starts_with(own));
        assert!(errors.iter().all(is_own), "{self:?}: {found}");
        let status = output.status.code();
        assert_eq!(status, Some(i32::from(!errors.is_empty())), "{self:?}: {found}");
    }
}

/// The names of the errors that the validation layer found.
pub fn validation_errors(found: &str) -> BTreeSet<&str> {
    let (_, report) = found.split_once("the validation layer found ").expect(found);
    let errors = report.split("Validation Error: [ ").skip(1);
    errors.filter_map(|error| error.split(' ').next()).collect()
}

/// A Python with packages.
#[derive(Debug)]
pub struct Python {
    /// Its folder.
    folder: PathBuf,
}

impl Python {
    /// The interpreter.
    pub fn path(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// All folders that it needs beside the system's.
    pub fn folders(&self) -> Vec<PathBuf> {
        let base = python::run(
            Command::new(self.path()).args(["-c", "import sys; print(sys.base_prefix)"]),
        );
        let mut folders = vec![self.folder.clone(), programs().parent().unwrap().to_owned()];
        folders.push(base.unwrap().trim().into());
        folders.retain(|folder| !folder.starts_with("/usr"));
        folders
    }
}

/// The libraries that Kompute is built with: a package of Debian's each, and what the names of its others begin with.
const LIBRARIES_OF_KOMPUTE: [(&str, &str); 2] =
    [("libfmt-dev", "libfmt"), ("libvulkan-dev", "libvulkan")];

/// The folders of libraries that Kompute is built with.
pub fn libraries_of_kompute() -> Result<[PathBuf; 2], String> {
    let library = |(package, prefix)| {
        fetch_library(package, prefix, &Sources::default()).map_err(|error| format!("{error:#}"))
    };
    let [fmt, vulkan] = LIBRARIES_OF_KOMPUTE.map(library);
    Ok([fmt?, vulkan?])
}

/// Builds Kompute, which PyPI has as its source. Its build fetches four libraries from their repositories, unless it is told where
/// they are.
fn build_kompute(python: &Path, package: &str) -> Result<(), String> {
    python::install(python, "cmake==3.31.6 ninja==1.13.0 pybind11==2.13.6 numpy==1.26.4")?;
    python::install(python, "setuptools==75.8.0 wheel==0.45.1")?;
    let [fmt, vulkan] = libraries_of_kompute()?;
    let pybind11 = python::run(Command::new(python).args(["-m", "pybind11", "--cmakedir"]))?;
    let bin = python.parent().ok_or("python is in no folder")?;
    let mut path = bin.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-cache-dir",
        "--no-build-isolation",
        package,
    ]);
    pip.env("PATH", path).env("VIRTUAL_ENV", bin.parent().unwrap_or(bin));
    pip.env("FMT", fmt).env("VULKAN", vulkan).env("PYBIND11", pybind11.trim());
    pip.env("CMAKE_TOOLCHAIN_FILE", programs().join("kompute.cmake"));
    pip.env("CMAKE_GENERATOR", "Ninja").env("KOMPUTE_PYTHON_NUM_PARALLEL_THREADS", "2");
    python::run(&mut pip).map(drop)
}
