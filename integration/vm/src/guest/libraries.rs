// SPDX-License-Identifier: MIT OR Apache-2.0

//! The libraries that programs need, as a dynamic loader finds them.

use super::archive::{Entries, Entry};
use crate::packages::unpacked::Unpacked;
use anyhow::Context;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of the dynamic loader, which programs have inside.
const LOADER: &str = "lib64/ld-linux-x86-64.so.2";

/// A dynamic loader, with the folders where it looks for libraries.
#[derive(Debug)]
pub struct Loader {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Loader {
    /// This machine's.
    #[must_use]
    pub fn of_machine() -> Self {
        Self { program: Path::new("/").join(LOADER), arguments: Vec::new() }
    }

    /// That of unpacked packages, some of whose programs have libraries of their own in `folder`.
    #[must_use]
    pub fn of_packages(packages: &Unpacked, folder: &str) -> Self {
        let (program, [option, mut folders]) = packages.loader();
        folders.push(":");
        folders.push(packages.path(folder));
        Self { program, arguments: vec![option, folders] }
    }

    /// The libraries of a program and the loader itself, by their paths in a guest. None for a static program.
    ///
    /// # Errors
    /// When the loader cannot be started.
    pub fn libraries(&self, program: &Path) -> anyhow::Result<Entries> {
        let mut command = Command::new(&self.program);
        let listed = command.args(&self.arguments).arg("--list").arg(program).output();
        let listed = listed.with_context(|| format!("cannot start {}", self.program.display()))?;
        if !listed.status.success() {
            return Ok(Entries::new());
        }
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let mut libraries = Entries::from([(LOADER.into(), Entry::Program(self.program.clone()))]);
        libraries.extend(listed.lines().filter_map(library));
        Ok(libraries)
    }
}

/// The library in a line of the loader: `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f57e881e000)`.
fn library(line: &str) -> Option<(String, Entry)> {
    let (name, rest) = line.trim().split_once(" => ")?;
    let (path, _) = rest.rsplit_once(" (")?;
    Some((format!("lib/{name}"), Entry::Program(path.into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::unpacked::LIBRARIES;
    use std::fs;

    #[test]
    fn a_program_s_libraries_are_read_from_what_the_loader_prints() {
        let line = "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f57e881e000)";
        let path = Entry::Program("/lib/x86_64-linux-gnu/libc.so.6".into());
        assert_eq!(library(line), Some(("lib/libc.so.6".into(), path)));
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007f57e9139000)"), None);
        assert_eq!(library("\t/lib64/ld-linux-x86-64.so.2 (0x00007f57e913b000)"), None);
        // This test is a program that needs the C library.
        let this = Loader::of_machine().libraries(&std::env::current_exe().unwrap()).unwrap();
        assert!(this.contains_key("lib/libc.so.6") && this.contains_key(LOADER), "{this:?}");
    }

    #[test]
    fn packages_are_searched_with_the_folder_of_a_program_s_own_libraries() {
        let root = tempfile::tempdir().unwrap();
        let libraries = root.path().join(LIBRARIES[0]);
        fs::create_dir_all(&libraries).unwrap();
        let loader = Loader::of_packages(&Unpacked::new(root.path()), "usr/lib/own");
        let folders =
            format!("{}:{}", libraries.display(), root.path().join("usr/lib/own").display());
        assert_eq!(loader.arguments, ["--library-path".into(), OsString::from(folders)]);
    }
}
