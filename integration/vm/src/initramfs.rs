// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's whole file system: a shell, the modules, the program, and its task.

use crate::kernel::Kernel;
use anyhow::Context;
use bellhop_guest::cli::{CarriedFile, FOLDER};
use cpio::newc::{Builder, ModeFileType, trailer};
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The guest's first process.
const INIT: &[u8] = include_bytes!("init.sh");
/// The first process of a VM that runs a VM.
const HOST_INIT: &[u8] = include_bytes!("host.sh");
/// Folders that programs expect.
const FOLDERS: [&str; 6] = ["bin", "dev", "modules", "proc", "sys", "tmp"];

/// The folder with files of the host's, as an archive names it.
const FILES: &str = {
    let (root, folder) = FOLDER.split_at(1);
    assert!(root.as_bytes()[0] == b'/');
    folder
};

/// The guest's task.
#[derive(Debug)]
pub enum Task<'a> {
    /// Run the guest program with these arguments.
    Run(&'a [OsString]),
    /// Start a shell.
    Shell,
}

/// Writes an archive that a kernel can boot.
///
/// # Errors
/// When a part cannot be read, or the archive not written.
pub fn write(
    busybox: &Path,
    guest_program: &Path,
    kernel: &Kernel,
    task: &Task<'_>,
    files: &[CarriedFile],
    archive: impl Write,
) -> anyhow::Result<()> {
    let mut archive = Archive { writer: archive, entries: 0 };
    for folder in FOLDERS {
        archive.add(folder, ModeFileType::Directory, 0o755, b"")?;
    }
    archive.program("init", INIT)?;
    archive.program("bin/busybox", &read(busybox)?)?;
    archive.program("bin/bellhop-guest", &read(guest_program)?)?;
    for path in &kernel.modules {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        archive.file(&format!("modules/{name}"), &read(path)?)?;
    }
    if !files.is_empty() {
        archive.add(FILES, ModeFileType::Directory, 0o755, b"")?;
    }
    for file in files {
        let name = file.name.to_str();
        let name = name.with_context(|| format!("a name in a VM is UTF-8, not {:?}", file.name))?;
        archive.file(&format!("{FILES}/{name}"), &read(&file.path)?)?;
    }
    if let Task::Run(arguments) = task {
        archive.file("task", &command_line("bellhop-guest", arguments)?)?;
    }
    trailer(archive.writer).context("cannot write the guest's file system")?;
    Ok(())
}

/// The files of a VM that runs a VM, by path there and here.
pub struct HostFiles<'a> {
    /// Programs.
    pub programs: &'a [(String, PathBuf)],
    /// Other files.
    pub files: &'a [(String, PathBuf)],
    /// Arguments for `bellhop` there.
    pub arguments: &'a [OsString],
}

/// Writes the archive of a VM that runs a VM.
///
/// # Errors
/// When a part cannot be read, or the archive not written.
pub fn write_host(host: &HostFiles<'_>, archive: impl Write) -> anyhow::Result<()> {
    let mut archive = Archive { writer: archive, entries: 0 };
    let mut folders = BTreeSet::from(FOLDERS.map(Path::new));
    for (path, _) in host.programs.iter().chain(host.files) {
        folders.extend(Path::new(path).ancestors().skip(1).filter(|path| *path != Path::new("")));
    }
    // A folder sorts before its contents.
    for folder in folders {
        archive.add(&folder.to_string_lossy(), ModeFileType::Directory, 0o755, b"")?;
    }
    archive.program("init", HOST_INIT)?;
    for (path, from) in host.programs {
        archive.program(path, loadable(&read(from)?))?;
    }
    for (path, from) in host.files {
        archive.file(path, &read(from)?)?;
    }
    archive.file("task", &command_line("bellhop", host.arguments)?)?;
    trailer(archive.writer).context("cannot write the VM's file system")?;
    Ok(())
}

/// The loaded part of a program, without the debugging sections behind it, which are most of the file.
fn loadable(program: &[u8]) -> &[u8] {
    let end = || {
        let header = FileHeader64::<Endianness>::parse(program).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, program).ok()?;
        let ends = segments
            .iter()
            .map(|segment| segment.p_offset(endian).saturating_add(segment.p_filesz(endian)));
        usize::try_from(ends.max()?).ok()
    };
    end().and_then(|end| program.get(..end)).unwrap_or(program)
}

/// A line of shell that runs a program. The kernel's own command line is too short.
fn command_line(program: &str, arguments: &[OsString]) -> anyhow::Result<Vec<u8>> {
    let program = OsStr::new(program);
    let words = std::iter::once(program).chain(arguments.iter().map(AsRef::as_ref));
    let mut line = shlex::bytes::try_join(words.map(OsStrExt::as_bytes))
        .context("an argument for the guest has a zero byte in it")?;
    line.push(b'\n');
    Ok(line)
}

struct Archive<W> {
    writer: W,
    entries: u32,
}

impl<W: Write> Archive<W> {
    fn program(&mut self, path: &str, content: &[u8]) -> anyhow::Result<()> {
        self.add(path, ModeFileType::Regular, 0o755, content)
    }

    fn file(&mut self, path: &str, content: &[u8]) -> anyhow::Result<()> {
        self.add(path, ModeFileType::Regular, 0o644, content)
    }

    fn add(
        &mut self,
        path: &str,
        kind: ModeFileType,
        permissions: u32,
        content: &[u8],
    ) -> anyhow::Result<()> {
        // Entries with the same number would be hard links.
        self.entries += 1;
        let entry = Builder::new(path).ino(self.entries).mode(permissions).set_mode_file_type(kind);
        let size = u32::try_from(content.len())
            .with_context(|| format!("{path} is too large for the guest's file system"))?;
        let cannot = || format!("cannot write {path} into the guest's file system");
        let mut entry = entry.write(&mut self.writer, size);
        entry.write_all(content).with_context(cannot)?;
        entry.finish().with_context(cannot)?;
        Ok(())
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::newc::Reader;
    use std::collections::BTreeMap;
    use std::io::Read;

    fn files(mut archive: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut files = BTreeMap::new();
        loop {
            let mut reader = Reader::new(archive).unwrap();
            if reader.entry().is_trailer() {
                return files;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut content = Vec::new();
            reader.read_to_end(&mut content).unwrap();
            files.insert(name, (mode, content));
            archive = reader.finish().unwrap();
        }
    }

    #[test]
    fn the_guest_finds_its_programs_modules_and_task() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| {
            fs::write(folder.path().join(name), name).unwrap();
            folder.path().join(name)
        };
        let kernel = Kernel { image: path("vmlinuz"), modules: vec![path("00-uio.ko")] };
        let mut archive = Vec::new();
        let task = ["run".into(), "--input".into(), "it's a file".into()];
        let carried = CarriedFile { path: path("numbers"), name: "other-numbers".into() };
        let [shell, program] = ["shell", "program"].map(path);
        let run = Task::Run(&task);
        write(&shell, &program, &kernel, &run, &[carried], &mut archive).unwrap();
        let files = files(&archive);
        assert_eq!(files["files/other-numbers"], (0o100_644, b"numbers".to_vec()));
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
        write(file.path(), file.path(), &kernel, &Task::Shell, &[], &mut archive).unwrap();
        assert!(!files(&archive).contains_key("task"));
    }
}
