// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's whole file system: a shell, the modules, the program, and its task.

use super::archive::{Entries, Entry, write};
use super::command_line::command_line;
use super::kernel::Kernel;
use super::program;
use super::systemd::{self, Systemd};
use crate::task::{Service, Task, User};
use anyhow::Context;
use bellhop_guest::cli::{CarriedFile, FOLDER};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;

/// The guest's first process.
const INIT: &[u8] = include_bytes!("init.sh");
/// The first process of a VM that runs a VM.
const HOST_INIT: &[u8] = include_bytes!("host.sh");
/// What a VM that stands for a machine does last.
const DO_TASK: &[u8] = include_bytes!("do_task.sh");
/// The folder with files of the host's, as an archive names it.
const FILES: &str = {
    let (root, folder) = FOLDER.split_at(1);
    assert!(root.as_bytes()[0] == b'/');
    folder
};

/// What a guest is made of.
#[derive(Debug)]
pub struct Guest<'a> {
    /// The shell.
    pub busybox: &'a Path,
    /// `bellhop-guest`.
    pub program: &'a Path,
    /// The kernel, with its modules.
    pub kernel: &'a Kernel,
    /// Files of the host's.
    pub carried: &'a [CarriedFile],
    /// The service manager, where the guest has one, and the services that it starts.
    pub systemd: Option<(&'a Systemd, &'a [Service])>,
    /// What it does.
    pub task: &'a Task,
    /// Whose that is, where it has a broker.
    pub user: User,
}

impl Guest<'_> {
    /// Writes an archive that a kernel can boot.
    ///
    /// # Errors
    /// When a part cannot be read, or the archive not written.
    pub fn write(&self, archive: impl Write) -> anyhow::Result<()> {
        let mut entries = Entries::from([
            ("bin/busybox".into(), Entry::Program(self.busybox.into())),
            ("bin/bellhop-guest".into(), Entry::Program(self.program.into())),
        ]);
        entries.extend(modules(self.kernel, "modules"));
        for file in self.carried {
            let name = file.name.to_str();
            let name =
                name.with_context(|| format!("a name in a VM is UTF-8, not {:?}", file.name))?;
            entries.insert(format!("{FILES}/{name}"), Entry::File(file.path.clone()));
        }
        match self.task {
            Task::Run(arguments) => {
                entries.insert("task".into(), task("bellhop-guest", arguments)?);
            }
            Task::Program(program) => entries.extend(program::files(program, self.busybox)?),
            Task::Shell | Task::Serve => {}
        }
        if let Some((systemd, services)) = self.systemd {
            entries.extend(systemd.files(services, self.task, self.user)?);
        }
        write(INIT, &entries, archive)
    }
}

/// Writes the archive of a VM that runs a VM, by `bellhop` with these arguments.
///
/// # Errors
/// When a part cannot be read, or the archive not written.
pub fn write_host(
    mut entries: Entries,
    arguments: &[OsString],
    archive: impl Write,
) -> anyhow::Result<()> {
    insert_task(&mut entries, "bellhop", arguments)?;
    write(HOST_INIT, &entries, archive)
}

/// Writes the archive of a VM whose systemd starts this task.
///
/// # Errors
/// When a part cannot be read, or the archive not written.
pub fn write_services(
    mut entries: Entries,
    task: &[OsString],
    archive: impl Write,
) -> anyhow::Result<()> {
    let (program, arguments) = task.split_first().context("a task is a program")?;
    insert_task(&mut entries, program, arguments)?;
    write(INIT, &entries, archive)
}

/// The task of a VM that stands for a machine, and what does it.
fn insert_task(
    entries: &mut Entries,
    program: impl AsRef<OsStr>,
    arguments: &[OsString],
) -> anyhow::Result<()> {
    entries.insert("task".into(), task(program, arguments)?);
    entries.insert(systemd::TASK.into(), Entry::Text(DO_TASK.into()));
    Ok(())
}

/// A kernel's modules, in a folder.
#[must_use]
pub fn modules(kernel: &Kernel, folder: &str) -> Entries {
    let modules = kernel.modules.iter().map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (format!("{folder}/{name}"), Entry::File(path.clone()))
    });
    modules.collect()
}

/// A line of shell that runs a program with arguments.
fn task(program: impl AsRef<OsStr>, arguments: &[OsString]) -> anyhow::Result<Entry> {
    command_line(std::iter::once(program.as_ref()).chain(arguments.iter().map(AsRef::as_ref)))
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::files;
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_guest_finds_its_programs_modules_and_task() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| {
            fs::write(folder.path().join(name), name).unwrap();
            folder.path().join(name)
        };
        let kernel = Kernel { image: path("vmlinuz"), modules: vec![path("00-uio.ko")] };
        let mut archive = Vec::new();
        let task = Task::Run(vec!["run".into(), "--input".into(), "it's a file".into()]);
        let carried = CarriedFile { path: path("numbers"), name: "other-numbers".into() };
        let [shell, program] = ["shell", "program"].map(path);
        let executable = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&carried.path, executable).unwrap();
        let guest = Guest {
            busybox: &shell,
            program: &program,
            kernel: &kernel,
            carried: &[carried],
            systemd: None,
            task: &task,
            user: User::default(),
        };
        guest.write(&mut archive).unwrap();
        let files = files(&archive);
        assert_eq!(files["files/other-numbers"], (0o100_755, b"numbers".to_vec()));
        assert_eq!(files["init"], (0o100_755, INIT.to_vec()));
        assert_eq!(files["bin/bellhop-guest"], (0o100_755, b"program".to_vec()));
        assert_eq!(files["modules/00-uio.ko"], (0o100_644, b"00-uio.ko".to_vec()));
        assert_eq!(files["proc"].0, 0o040_755);
        let words = shlex::bytes::split(&files["task"].1).unwrap();
        assert_eq!(words, [b"bellhop-guest".as_slice(), b"run", b"--input", b"it's a file"]);
    }

    #[test]
    fn a_shell_has_no_task() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let kernel = Kernel { image: file.path().into(), modules: Vec::new() };
        let mut archive = Vec::new();
        let guest = Guest {
            busybox: file.path(),
            program: file.path(),
            kernel: &kernel,
            carried: &[],
            systemd: None,
            task: &Task::Shell,
            user: User::default(),
        };
        guest.write(&mut archive).unwrap();
        assert!(!files(&archive).contains_key("task"));
    }
}
