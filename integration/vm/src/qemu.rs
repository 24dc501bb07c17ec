// SPDX-License-Identifier: MIT OR Apache-2.0

//! A QEMU that has the device's front end.

use crate::packages::unpacked::{LIBRARIES, Unpacked};
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program's name.
pub const PROGRAM: &str = "qemu-system-x86_64";
/// The first major version with `vhost-user-test-device-pci` and with memory that a back end maps
/// into a BAR.
pub(super) const FIRST: u32 = 11;

/// A QEMU program and how to start it.
#[derive(Debug)]
pub struct Qemu {
    program: PathBuf,
    arguments: Vec<OsString>,
    modules: Option<PathBuf>,
}

impl Qemu {
    /// The QEMU that the command line names.
    ///
    /// # Errors
    /// When the program is not QEMU, or too old.
    pub fn at(program: &Path) -> anyhow::Result<Self> {
        let qemu = Self { program: program.to_owned(), arguments: Vec::new(), modules: None };
        let version = qemu.version()?;
        if version < FIRST {
            bail!("{} is version {version}; the device needs {FIRST} or newer", program.display());
        }
        Ok(qemu)
    }

    /// This machine's own QEMU, if it is new enough.
    #[must_use]
    pub fn installed() -> Option<Self> {
        Self::at(Path::new(PROGRAM)).ok()
    }

    /// The QEMU in a folder of unpacked packages, with their C library.
    #[must_use]
    pub fn unpacked(root: &Path) -> Self {
        let (program, library_path) = Unpacked::new(root).loader();
        let mut arguments = library_path.to_vec();
        arguments.push(root.join("usr/bin").join(PROGRAM).into());
        for data in ["qemu", "seabios"] {
            arguments.extend(["-L".into(), root.join("usr/share").join(data).into()]);
        }
        Self { program, arguments, modules: Some(root.join(LIBRARIES[0]).join("qemu")) }
    }

    /// The command that starts it; the caller adds a machine's arguments.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        if let Some(modules) = &self.modules {
            command.env("QEMU_MODULE_DIR", modules);
        }
        command
    }

    fn version(&self) -> anyhow::Result<u32> {
        let name = || format!("cannot start {}", self.program.display());
        let output =
            self.command().arg("-version").stdin(Stdio::null()).output().with_context(name)?;
        major_version(&String::from_utf8_lossy(&output.stdout))
            .with_context(|| format!("{} is no QEMU", self.program.display()))
    }
}

/// The major version in `QEMU emulator version 11.1.3 (Debian ...)`.
fn major_version(printed: &str) -> Option<u32> {
    let (_, version) = printed.split_once("version ")?;
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_qemu_prints() {
        let printed = "QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1~bpo13+1)\nCopyright";
        assert_eq!(major_version(printed), Some(11));
        assert_eq!(major_version("QEMU emulator version 7.2.22"), Some(7));
        assert_eq!(major_version("GNU bash, something else"), None);
    }

    #[test]
    fn a_program_that_is_not_qemu_is_refused() {
        let error = Qemu::at(Path::new("/bin/true")).unwrap_err();
        assert!(error.to_string().contains("no QEMU"), "{error}");
        let error = Qemu::at(Path::new("/no/such/program")).unwrap_err();
        assert!(error.to_string().contains("cannot start"), "{error}");
    }
}
