// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a worker says on its standard error, which is a file of fixed length in memory: it reaches no log by itself.

use crate::messages::{MAX_SAID, MAX_TEXT};
use rustix::fs::{MemfdFlags, SealFlags, SeekFrom, fcntl_add_seals, ftruncate, memfd_create, seek};
use rustix::io;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

/// A worker's standard error.
#[derive(Debug)]
pub struct Said(File);

impl Said {
    /// Nothing was said yet.
    ///
    /// # Errors
    /// If Linux has no memory or no descriptors.
    pub fn new() -> io::Result<Self> {
        sealed("said", MAX_SAID).map(Self)
    }

    /// The file for the worker.
    ///
    /// # Errors
    /// If Linux has no descriptors.
    pub fn stdio(&self) -> std::io::Result<Stdio> {
        self.0.try_clone().map(Stdio::from)
    }

    /// From here on, what is said counts.
    ///
    /// # Errors
    /// None for a file in memory.
    pub fn begin(&self) -> io::Result<()> {
        seek(&self.0, SeekFrom::Start(0)).map(drop)
    }

    /// The first `MAX_TEXT` bytes of what was said.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "a manager: 1 KiB of a file in memory, in which no worker can make a hole"
    )]
    pub fn text(&self) -> String {
        let length = seek(&self.0, SeekFrom::Current(0)).unwrap_or(0).min(MAX_TEXT as u64);
        let mut said = vec![0; length as usize];
        let read = self.0.read_at(&mut said, 0).unwrap_or(0);
        String::from_utf8_lossy(&said[..read]).into_owned()
    }
}

/// A file in memory with a fixed length.
///
/// # Errors
/// If Linux has no memory or no descriptors.
#[expect(clippy::disallowed_methods, reason = "before a worker has the file")]
pub fn sealed(name: &str, length: u64) -> io::Result<File> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, length)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}
