// SPDX-License-Identifier: MIT OR Apache-2.0

//! A cache of the parts of VMs, kept between runs.
//!
//! A piece is a folder that is complete or absent: it is made in a folder for incomplete pieces, then renamed.

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The version of the pieces' contents, so that bellhop does not use pieces from an older version.
pub const LAYOUT: &str = "vm-1";
/// The folder of incomplete pieces. Only the holder of the lock uses it.
const UNFINISHED: &str = "unfinished";

/// The cache. This process has it alone until this is dropped.
pub struct Cache {
    folder: PathBuf,
    /// The kernel releases the lock with the file, even when the process is killed.
    _lock: File,
}

impl Cache {
    /// Opens the user's cache: `BELLHOP_CACHE`, else `bellhop` in `XDG_CACHE_HOME` or `~/.cache`.
    /// Waits while another process prepares something in it.
    ///
    /// # Errors
    /// When there is no place for it, or it cannot be written.
    pub fn open() -> anyhow::Result<Self> {
        let folder = folder(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
            .context("there is no place for downloads; set BELLHOP_CACHE to a folder")?;
        Self::open_at(&folder.join(LAYOUT))
    }

    fn open_at(folder: &Path) -> anyhow::Result<Self> {
        let cannot = || {
            format!(
                "cannot use the cache {}; set BELLHOP_CACHE to another folder",
                folder.display()
            )
        };
        fs::create_dir_all(folder).with_context(cannot)?;
        let lock = File::create(folder.join("lock")).with_context(cannot)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                bellhop_guest::output::note(
                    "bellhop: waiting for another bellhop that prepares a VM",
                );
                flock(&lock, FlockOperation::LockExclusive).with_context(cannot)?;
            }
            result => result.with_context(cannot)?,
        }
        let cache = Self { folder: folder.to_owned(), _lock: lock };
        // An interrupted run may have left incomplete pieces.
        remove(&cache.folder.join(UNFINISHED))?;
        Ok(cache)
    }

    /// Returns a folder that is updated in place, not replaced as a whole.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// Returns the folder of a piece. Calls `make` to fill it if it is absent or `refresh` is set.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn piece(
        &self,
        name: &str,
        refresh: bool,
        make: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<PathBuf> {
        let piece = self.folder.join(name);
        if piece.is_dir() && !refresh {
            return Ok(piece);
        }
        let unfinished = self.folder.join(UNFINISHED);
        let new = unfinished.join(name);
        fs::create_dir_all(&new)
            .with_context(|| format!("cannot write to {}", unfinished.display()))?;
        make(&new)?;
        // A folder cannot be renamed over one that is not empty.
        if piece.is_dir() {
            fs::rename(&piece, unfinished.join(format!("{name}.old")))
                .with_context(|| format!("cannot replace {}", piece.display()))?;
        }
        fs::rename(&new, &piece).with_context(|| format!("cannot create {}", piece.display()))?;
        remove(&unfinished)?;
        Ok(piece)
    }
}

/// The variable that names another place for the cache.
pub const VARIABLE: &str = "BELLHOP_CACHE";

fn folder(environment: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let named = |name, below: &str| environment(name).map(|value| Path::new(&value).join(below));
    named(VARIABLE, "")
        .or_else(|| named("XDG_CACHE_HOME", "bellhop"))
        .or_else(|| named("HOME", ".cache/bellhop"))
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    fn write(text: &'static str) -> impl FnOnce(&Path) -> anyhow::Result<()> {
        move |folder| Ok(fs::write(folder.join("file"), text)?)
    }

    fn read(piece: &Path) -> String {
        fs::read_to_string(piece.join("file")).unwrap()
    }

    #[test]
    fn a_piece_is_made_once_and_again_when_refreshed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path()).unwrap();
        assert_eq!(read(&cache.piece("a", false, write("first")).unwrap()), "first");
        assert_eq!(read(&cache.piece("a", false, write("second")).unwrap()), "first");
        assert_eq!(read(&cache.piece("a", true, write("third")).unwrap()), "third");
    }

    #[test]
    fn a_piece_that_could_not_be_made_is_absent_and_the_old_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let fails = |new: &Path| {
            fs::write(new.join("file"), "half")?;
            bail!("no network")
        };
        let cache = Cache::open_at(folder.path()).unwrap();
        assert!(cache.piece("a", false, fails).is_err());
        assert!(!folder.path().join("a").exists());
        cache.piece("a", false, write("whole")).unwrap();
        assert!(cache.piece("a", true, fails).is_err());
        assert_eq!(read(&folder.path().join("a")), "whole");
        drop(cache);
        Cache::open_at(folder.path()).unwrap();
        assert!(!folder.path().join(UNFINISHED).exists());
    }

    #[test]
    fn two_processes_prepare_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let first = Cache::open_at(folder.path()).unwrap();
        let path = folder.path().to_owned();
        let (sender, receiver) = std::sync::mpsc::channel();
        let second = std::thread::spawn(move || {
            let cache = Cache::open_at(&path).unwrap();
            receiver.try_recv().expect("the first still held the cache");
            drop(cache);
        });
        first.piece("a", false, write("whole")).unwrap();
        sender.send(()).unwrap();
        drop(first);
        second.join().unwrap();
    }

    #[test]
    fn the_place_is_the_one_that_people_set() {
        let place = |variables: &[(&str, &str)]| {
            folder(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            })
        };
        let all = [("BELLHOP_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")];
        assert_eq!(place(&all), Some("/a".into()));
        assert_eq!(place(&all[1..]), Some("/b/bellhop".into()));
        assert_eq!(place(&all[2..]), Some("/c/.cache/bellhop".into()));
        assert_eq!(place(&[]), None);
    }
}
