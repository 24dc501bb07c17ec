// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files that appear complete or not at all.

use anyhow::Context;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file that is being written. It appears at its path when it is finished; an unfinished file leaves no trace.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    place: Place,
}

/// Who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Every user (mode 0644).
    All,
    /// Only who writes it (mode 0600), from its first byte on.
    Owner,
}

#[derive(Debug)]
enum Place {
    /// A file beside the path, until it is finished.
    Aside(NamedTempFile),
    /// A pipe, a terminal or a device at the path, which is written to directly.
    There(File),
}

impl NewFile {
    /// Begins a file that all may read, so that an unwritable path fails before there is content.
    ///
    /// # Errors
    /// When its folder is not there, or may not be written.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        Self::create_for(Readers::All, path)
    }

    /// As [`Self::create`], for these readers. A file that is replaced hands on nothing of its own mode.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_for(readers: Readers, path: &Path) -> anyhow::Result<Self> {
        let place = Self::place(readers, path).with_context(|| {
            format!("cannot write {}; name a file in a folder that you may write", path.display())
        })?;
        Ok(Self { path: path.to_owned(), place })
    }

    fn place(readers: Readers, path: &Path) -> io::Result<Place> {
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return OpenOptions::new().write(true).open(path).map(Place::There);
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut options = tempfile::Builder::new();
        let mode = match readers {
            Readers::All => 0o644,
            Readers::Owner => 0o600,
        };
        options.prefix(".bellhop-").permissions(Permissions::from_mode(mode));
        options.tempfile_in(folder).map(Place::Aside)
    }

    /// Another handle of it, for a process or a thread that writes it.
    ///
    /// # Errors
    /// When there are no file descriptors.
    pub fn handle(&self) -> anyhow::Result<File> {
        let file = match &self.place {
            Place::Aside(file) => file.as_file(),
            Place::There(file) => file,
        };
        file.try_clone().with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Finishes the file.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let cannot = || format!("cannot write {}", self.path.display());
        self.place.writer().flush().with_context(cannot)?;
        match self.place {
            Place::Aside(file) => file.persist(&self.path).with_context(cannot).map(drop),
            Place::There(_) => Ok(()),
        }
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn finish_with(mut self, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let written = self.write_all(contents.as_ref());
        written.with_context(|| format!("cannot write {}", self.path.display()))?;
        self.finish()
    }
}

impl Place {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Aside(file) => file,
            Self::There(file) => file,
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.place.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.place.writer().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_and_every_user_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new.json");
        fs::write(&path, "old").unwrap();
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_for_its_owner_is_never_another_users_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plain");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let mut file = NewFile::create_for(Readers::Owner, &path).unwrap();
        file.write_all(b"new").unwrap();
        let Place::Aside(aside) = &file.place else { panic!("{file:?}") };
        assert_eq!(mode(aside.path()), 0o600);
        file.finish().unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"new".to_vec()));
    }

    #[test]
    fn nothing_is_left_of_a_file_that_is_not_finished() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = NewFile::create(&folder.path().join("new.json")).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_before_anything_is_written() {
        let error = NewFile::create(Path::new("/nonexistent/run.json")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/run.json; name a file in a folder"));
    }

    #[test]
    fn a_device_that_is_full_is_an_error_and_stays() {
        let full = NewFile::create(Path::new("/dev/full")).unwrap();
        let error = format!("{:#}", full.finish_with("text").unwrap_err());
        assert!(error.contains("/dev/full") && error.contains("space"), "{error}");
        assert!(!fs::metadata("/dev/full").unwrap().is_file());
    }
}
