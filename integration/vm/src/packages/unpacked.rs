// SPDX-License-Identifier: MIT OR Apache-2.0

//! Debian's packages, unpacked, and programs that run with their libraries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of libraries in Debian's packages for this processor. Before Debian 13, the C library is in the second.
pub const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
/// Folders of libraries that other libraries name by their whole path, where they are when they are installed.
const NAMED: [&str; 1] = ["usr/lib/x86_64-linux-gnu/pulseaudio"];
/// The dynamic loader. It must come from the C library's release.
const LOADER: &str = "ld-linux-x86-64.so.2";

/// A folder of unpacked packages with all their dependencies.
#[derive(Debug)]
pub struct Unpacked {
    root: PathBuf,
}

impl Unpacked {
    /// Takes the packages in this folder.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the path of a package's file or folder.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Returns the command that starts a program with these libraries, including their C library.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let (loader, arguments) = self.loader();
        let mut command = Command::new(loader);
        command.args(arguments).arg(program);
        command
    }

    /// Returns the dynamic loader, and its arguments before the program's path.
    #[must_use]
    pub fn loader(&self) -> (PathBuf, [OsString; 2]) {
        let all = LIBRARIES.iter().chain(&NAMED);
        let mut folders: Vec<_> = all.map(|folder| self.root.join(folder)).collect();
        folders.retain(|folder| folder.is_dir());
        let has_loader = |folder: &&PathBuf| folder.join(LOADER).is_file();
        let loader = folders.iter().find(has_loader).unwrap_or(&self.root).join(LOADER);
        let names: Vec<_> = folders.iter().map(|folder| folder.as_os_str()).collect();
        (loader, ["--library-path".into(), names.join(":".as_ref())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn programs_are_loaded_by_the_packages_own_c_library() {
        let root = tempfile::tempdir().unwrap();
        for folder in LIBRARIES {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let [usr, lib] = LIBRARIES.map(|folder| root.path().join(folder));
        fs::write(lib.join(LOADER), "").unwrap();
        let path = format!("{}:{}", usr.display(), lib.display());
        let expected = (lib.join(LOADER), ["--library-path".into(), path.into()]);
        assert_eq!(Unpacked::new(root.path()).loader(), expected);

        fs::remove_dir_all(&lib).unwrap();
        fs::write(usr.join(LOADER), "").unwrap();
        let expected = (usr.join(LOADER), ["--library-path".into(), usr.clone().into()]);
        assert_eq!(Unpacked::new(root.path()).loader(), expected);

        let named = usr.join("pulseaudio");
        fs::create_dir(&named).unwrap();
        let path = format!("{}:{}", usr.display(), named.display());
        let expected = (usr.join(LOADER), ["--library-path".into(), path.into()]);
        assert_eq!(Unpacked::new(root.path()).loader(), expected);
    }
}
