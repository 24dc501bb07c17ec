// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs of a package of Debian's, for this machine.

use crate::packages::unpacked::Unpacked;
use anyhow::{Context, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of programs in packages.
const PROGRAMS: &str = "usr/bin";

/// Packages with all that their programs need.
#[derive(Debug)]
pub struct Packaged {
    name: String,
    packages: Unpacked,
}

/// Checks that this is a package's name, as Debian's policy has it.
///
/// # Errors
/// When it is not.
pub fn check(name: &str) -> anyhow::Result<()> {
    let is_fit = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || "+-.".contains(letter)
    };
    let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    ensure!(
        begins && name.chars().all(is_fit),
        "{name:?} is no name of a package of Debian's; vulkan-tools is one"
    );
    Ok(())
}

impl Packaged {
    /// Takes the packages in a folder.
    #[must_use]
    pub fn unpacked(name: &str, root: &Path) -> Self {
        Self { name: name.to_owned(), packages: Unpacked::new(root) }
    }

    /// Returns the folder that is `/` to the packages.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.packages.path("")
    }

    /// Returns the command that starts a program of the packages with their libraries.
    ///
    /// # Errors
    /// When the packages have no such program; says which they have.
    pub fn command(&self, program: &OsStr) -> anyhow::Result<Command> {
        Ok(self.packages.command(&self.program(program)?))
    }

    /// Returns the path of a program of the packages: of one that has only a name, or that is named as where it would be installed.
    ///
    /// # Errors
    /// When the packages have no such program; says which they have.
    pub fn program(&self, program: &OsStr) -> anyhow::Result<PathBuf> {
        if let Ok(installed) = Path::new(program).strip_prefix("/")
            && let path = self.root().join(installed)
            && path.is_file()
        {
            return Ok(path);
        }
        let folder = self.packages.path(PROGRAMS);
        let is_name = Path::new(program).file_name() == Some(program);
        let path = folder.join(program);
        if is_name && path.is_file() {
            return Ok(path);
        }
        let entries = fs::read_dir(&folder)
            .with_context(|| format!("Debian's {} has no programs", self.name))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<_> = names.collect();
        names.sort();
        anyhow::bail!(
            "Debian's {} and what it depends on have no program {}, but {}",
            self.name,
            Path::new(program).display(),
            names.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_s_name_is_one_of_debian_s() {
        for name in ["vulkan-tools", "g++", "libc6", "7zip"] {
            check(name).unwrap();
        }
        for name in ["", "../vulkan", "Vulkan", "a b", "-x", "a/b"] {
            let error = check(name).unwrap_err().to_string();
            assert!(error.contains("is no name"), "{error}");
        }
    }

    #[test]
    fn a_program_that_the_package_does_not_have_is_named_with_those_that_it_has() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(PROGRAMS)).unwrap();
        for name in ["vulkaninfo", "vkcube"] {
            fs::write(root.path().join(PROGRAMS).join(name), "").unwrap();
        }
        let package = Packaged::unpacked("vulkan-tools", root.path());
        let arguments = |name: &str| package.command(OsStr::new(name));
        let command = arguments("vulkaninfo").unwrap();
        let program = root.path().join(PROGRAMS).join("vulkaninfo");
        assert_eq!(command.get_args().last(), Some(program.as_os_str()));
        let command = arguments("/usr/bin/vkcube").unwrap();
        let program = root.path().join("usr/bin/vkcube");
        assert_eq!(command.get_args().last(), Some(program.as_os_str()));
        for name in ["nothing", "../bin/vkcube", "", "/usr/bin/nothing"] {
            let error = arguments(name).unwrap_err().to_string();
            assert!(error.ends_with("but vkcube, vulkaninfo"), "{error}");
        }
    }
}
