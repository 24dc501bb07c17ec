// SPDX-License-Identifier: MIT OR Apache-2.0

//! Python with packages of PyPI, in the target folder.

use super::{is_here, skip, text};
use bellhop_vm::{Sources, fetch_library};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of a Python that has a package, given as `name==version`, and others after spaces; the first call makes it.
/// `None` if it cannot be made, and `loss` is not tested then.
pub fn python_with(package: &str, import: &str, loss: &str) -> Option<PathBuf> {
    let name = package.split("==").next().unwrap_or(package);
    made(name, import, loss, |python| install(python, package))
}

/// The folder of a Python with Kompute, which PyPI has as its source. Its build fetches four libraries from their repositories,
/// unless it is told where they are.
pub fn python_with_kompute(loss: &str) -> Option<PathBuf> {
    if !is_here("c++", loss) {
        return None;
    }
    made("kompute", "import kp, numpy", loss, |python| {
        install(python, "cmake==3.31.6 ninja==1.13.0 pybind11==2.13.6 numpy==1.26.4")?;
        install(python, "setuptools==75.8.0 wheel==0.45.1")?;
        let library = |package, prefix| {
            let fetched = fetch_library(package, prefix, &Sources::default());
            fetched.map_err(|error| format!("{error:#}"))
        };
        let mut pybind11 = Command::new(python);
        let pybind11 = run(pybind11.args(["-m", "pybind11", "--cmakedir"]))?;
        let programs = python.parent().ok_or("python is in no folder")?;
        let mut path = programs.as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("vulkan/programs/kompute.cmake");
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--quiet", "--no-build-isolation", "kp==0.9.0"]);
        pip.env("PATH", path).env("VIRTUAL_ENV", programs.parent().unwrap_or(programs));
        pip.env("FMT", library("libfmt-dev", "libfmt")?);
        pip.env("VULKAN", library("libvulkan-dev", "libvulkan")?);
        pip.env("PYBIND11", pybind11.trim()).env("CMAKE_TOOLCHAIN_FILE", settings);
        pip.env("CMAKE_GENERATOR", "Ninja").env("KOMPUTE_PYTHON_NUM_PARALLEL_THREADS", "2");
        run(&mut pip).map(drop)
    })
}

/// The folder of this name with a Python that can import something; the first call makes it, and has `add` add to the program.
fn made(
    name: &str,
    import: &str,
    loss: &str,
    add: impl FnOnce(&Path) -> Result<(), String>,
) -> Option<PathBuf> {
    if !is_here("python3", loss) {
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python = folder.join("bin/python");
    let has_it = || run(Command::new(&python).args(["-c", import]));
    let make = || {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        add(&python)
    };
    if let Err(error) = has_it().map(drop).or_else(|_| make()) {
        let why = format!("python3 cannot be given the package {name}: {}", error.trim());
        skip(&why, loss, "let pip fetch it once, which needs a network and python3-venv");
        return None;
    }
    Some(folder)
}

/// Installs packages, given as `name==version` between spaces.
fn install(python: &Path, packages: &str) -> Result<(), String> {
    let mut pip = Command::new(python);
    run(pip.args(["-m", "pip", "install", "--quiet"]).args(packages.split(' '))).map(drop)
}

fn run(command: &mut Command) -> Result<String, String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(text(&output.stdout)),
        Ok(output) => Err(text(&output.stderr)),
        Err(error) => Err(error.to_string()),
    }
}
