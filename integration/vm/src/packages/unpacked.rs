// SPDX-License-Identifier: MIT OR Apache-2.0

//! Unpacked packages of Debian, and programs that run with their libraries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian's packages for this processor have their libraries: before Debian 13, the C library's is the second.
pub const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
/// What loads programs and libraries; it is of one release with the C library.
const LOADER: &str = "ld-linux-x86-64.so.2";

/// A folder with packages and everything that these need.
#[derive(Debug)]
pub struct Unpacked {
    root: PathBuf,
}

impl Unpacked {
    /// This folder.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// A file or folder of a package.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The command that starts a program with these libraries and their C library.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let (loader, arguments) = self.loader();
        let mut command = Command::new(loader);
        command.args(arguments).arg(program);
        command
    }

    /// The program that loads others, and its arguments before the program's name.
    #[must_use]
    pub fn loader(&self) -> (PathBuf, [OsString; 2]) {
        let mut folders = LIBRARIES.map(|folder| self.root.join(folder)).to_vec();
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
        let expected = (usr.join(LOADER), ["--library-path".into(), usr.into()]);
        assert_eq!(Unpacked::new(root.path()).loader(), expected);
    }
}
