// SPDX-License-Identifier: MIT OR Apache-2.0

//! Vulkan from a Debian release, for a program on this machine.

use crate::packages::unpacked::{LIBRARIES, Unpacked};
use anyhow::{Context, ensure};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Debian's package of Mesa's Vulkan drivers, which depends on the loader.
pub const PACKAGE: &str = "mesa-vulkan-drivers";
/// Debian's package of the Vulkan loader.
pub const LOADER: &str = "libvulkan1";
/// Packages that a program of a guest's needs: the loader, and what Bellhop's driver needs.
pub const OF_PROGRAMS: [&str; 2] = [LOADER, "libgcc-s1"];
/// Lavapipe, the driver that runs on the processor.
const DRIVER: &str = "libvulkan_lvp.so";
/// The file in the packages' folder that names the driver to the loader.
const MANIFEST: &str = "driver.json";

/// A Vulkan loader and lavapipe.
#[derive(Debug)]
pub struct Vulkan {
    packages: Unpacked,
}

impl Vulkan {
    /// Writes the manifest that names the driver to the loader. The folder of unpacked packages may be moved later.
    ///
    /// # Errors
    /// When the packages have no such driver, or the folder cannot be written.
    pub fn lay_out(root: &Path) -> anyhow::Result<()> {
        let driver = Path::new(LIBRARIES[0]).join(DRIVER);
        ensure!(root.join(&driver).is_file(), "Debian's {PACKAGE} has no {}", driver.display());
        // The loader resolves a path with a slash relative to the manifest. The driver reports its own version.
        let library = Path::new(".").join(driver);
        let manifest = json!({
            "file_format_version": "1.0.0",
            "ICD": { "library_path": library, "api_version": "1.1.0" },
        });
        let path = root.join(MANIFEST);
        fs::write(&path, manifest.to_string())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Takes the Vulkan in a folder that [`Vulkan::lay_out`] prepared.
    #[must_use]
    pub fn unpacked(root: &Path) -> Self {
        Self { packages: Unpacked::new(root) }
    }

    /// Returns the command that starts a program with this Vulkan and no other.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = self.packages.command(program);
        command.env("VK_DRIVER_FILES", self.packages.path(MANIFEST));
        command
    }

    /// Returns that command line with these arguments, as `bellhopd --worker` takes it: variables as `NAME=VALUE`, the
    /// program, and its arguments.
    #[must_use]
    pub fn words(&self, program: &Path, arguments: &[&str]) -> Vec<OsString> {
        let command = self.command(program);
        let variables = command.get_envs().filter_map(|(name, value)| {
            let mut variable = name.to_owned();
            variable.push("=");
            variable.push(value?);
            Some(variable)
        });
        let program = [command.get_program()].into_iter().chain(command.get_args());
        let arguments = arguments.iter().map(OsString::from);
        variables.chain(program.map(OsStr::to_owned)).chain(arguments).collect()
    }
}
