// SPDX-License-Identifier: MIT OR Apache-2.0

//! The Vulkan driver for guests, and the Vulkan loader that finds it.

use crate::hosted::this_executable;
use anyhow::{Context, ensure};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The driver's library.
const LIBRARY: &str = "libvulkan_bellhop.so";
/// The file that names the driver to the loader.
const MANIFEST: &str = "vulkan_bellhop.json";
/// The version of Vulkan that the driver has.
const VERSION: &str = "1.3.0";
/// The Vulkan loader's library.
pub const LOADER: &str = "libvulkan.so.1";
/// Folders of libraries on Linux distributions for this processor.
const FOLDERS: [&str; 7] = [
    "/usr/local/lib/x86_64-linux-gnu",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
];

/// Finds the driver: `explicit` if given, else the one that was built or installed with this executable.
///
/// # Errors
/// When there is none.
pub fn find(explicit: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = explicit {
        let found = path.canonicalize().ok().filter(|path| path.is_file());
        return found.with_context(|| format!("there is no Vulkan driver at {}", path.display()));
    }
    let this = this_executable()?;
    // What cargo builds for this executable is among the dependencies. What it was asked for alone, beside them, may be older.
    let places = ["deps", ".", "../lib/bellhop"];
    let places = places.map(|folder| this.with_file_name(folder).join(LIBRARY));
    let found = places.iter().find_map(|path| path.canonicalize().ok());
    found.with_context(|| {
        format!(
            "cannot find the Vulkan driver, {LIBRARY}; build it with cargo build --release --package bellhop-vulkan, or \
             name it with --driver"
        )
    })
}

/// Writes the file that names the driver to the loader, in a folder. Returns its path.
///
/// # Errors
/// When it cannot be written.
pub fn write_manifest(driver: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    // The loader takes a name without a folder for a library of the system's.
    ensure!(driver.is_absolute(), "{} is no absolute path", driver.display());
    let manifest = json!({
        "file_format_version": "1.0.1",
        "ICD": { "library_path": driver, "api_version": VERSION },
    });
    let path = folder.join(MANIFEST);
    fs::write(&path, manifest.to_string())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Whether this machine has a Vulkan loader of its own, or the user names a folder with one.
#[must_use]
pub fn has_loader() -> bool {
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = FOLDERS.iter().map(PathBuf::from).chain(std::env::split_paths(&named));
    folders.map(|folder| folder.join(LOADER)).any(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_names_the_driver_by_its_whole_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = write_manifest(Path::new("/somewhere/driver.so"), folder.path()).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(manifest["ICD"]["library_path"], "/somewhere/driver.so");
        assert!(write_manifest(Path::new("driver.so"), folder.path()).is_err());
    }

    #[test]
    fn a_driver_that_is_named_and_missing_is_an_error() {
        let error = find(Some(Path::new("/nowhere/driver.so"))).unwrap_err();
        assert_eq!(error.to_string(), "there is no Vulkan driver at /nowhere/driver.so");
    }
}
