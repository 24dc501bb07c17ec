// SPDX-License-Identifier: MIT OR Apache-2.0

//! The archive from which a kernel unpacks its first file system.

use anyhow::Context;
use cpio::newc::{Builder, ModeFileType, trailer};
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Folders that programs expect.
const FOLDERS: [&str; 6] = ["bin", "dev", "modules", "proc", "sys", "tmp"];

/// What a path of a file system leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A copy of this program or library, without what is not loaded.
    Program(PathBuf),
    /// A copy of this file, which may be executed where it may be here.
    File(PathBuf),
    /// A file with this text.
    Text(Vec<u8>),
    /// A symbolic link to this path.
    Link(String),
}

/// Files by their path, which is relative to the root.
pub type Entries = BTreeMap<String, Entry>;

/// Writes an archive with these files and this first program.
///
/// # Errors
/// When a file cannot be read, or the archive not written.
pub fn write(init: &[u8], entries: &Entries, archive: impl Write) -> anyhow::Result<()> {
    let mut archive = Archive { writer: archive, entries: 0 };
    let mut folders = BTreeSet::from(FOLDERS.map(Path::new));
    for path in entries.keys() {
        folders.extend(Path::new(path).ancestors().skip(1).filter(|path| *path != Path::new("")));
    }
    // A folder sorts before its contents.
    for folder in folders {
        archive.add(&folder.to_string_lossy(), ModeFileType::Directory, 0o755, b"")?;
    }
    archive.add("init", ModeFileType::Regular, 0o755, init)?;
    for (path, entry) in entries {
        match entry {
            Entry::Program(from) => {
                archive.add(path, ModeFileType::Regular, 0o755, loadable(&read(from)?))
            }
            Entry::File(from) => {
                archive.add(path, ModeFileType::Regular, permissions(from)?, &read(from)?)
            }
            Entry::Text(text) => archive.add(path, ModeFileType::Regular, 0o644, text),
            Entry::Link(to) => archive.add(path, ModeFileType::Symlink, 0o777, to.as_bytes()),
        }?;
    }
    trailer(archive.writer).context("cannot write the guest's file system")?;
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

struct Archive<W> {
    writer: W,
    entries: u32,
}

impl<W: Write> Archive<W> {
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

fn permissions(path: &Path) -> anyhow::Result<u32> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(if metadata.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 })
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use cpio::newc::Reader;
    use std::io::Read;

    /// The files of an archive, with their modes and contents.
    pub fn files(mut archive: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
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
    fn a_link_has_its_folders_and_leads_to_its_path() {
        let entries = Entries::from([("etc/own/link".into(), Entry::Link("/bin/busybox".into()))]);
        let mut archive = Vec::new();
        write(b"", &entries, &mut archive).unwrap();
        let files = files(&archive);
        assert_eq!(files["etc/own/link"], (0o120_777, b"/bin/busybox".to_vec()));
        assert_eq!((files["etc"].0, files["etc/own"].0), (0o040_755, 0o040_755));
    }
}
