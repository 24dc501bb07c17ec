// SPDX-License-Identifier: MIT OR Apache-2.0

//! A front end that punches a hole into memory that it has announced.
//!
//! The host's kernel removes each page of the hole from every mapping of the file, and whoever touches such a page
//! waits until it has done so, uninterruptibly. So a front end makes that take long: it maps the file many times.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use vm_memory::{FileOffset, MmapRegion};

/// A file that is mapped many times, with all its pages.
#[derive(Debug)]
pub struct Punch {
    file: File,
    size: u64,
    _mappings: Vec<MmapRegion>,
}

impl Punch {
    /// Maps a file of tmpfs this many times. The device has mapped it before: the kernel goes through mappings of
    /// the same pages in the order in which they were made, so that the device's is the first to lose them.
    ///
    /// # Errors
    /// When the file cannot be mapped as often.
    pub fn prepare(file: &File, times: usize) -> io::Result<Self> {
        let (file, size) = (file.try_clone()?, file.metadata()?.len());
        let length = usize::try_from(size).map_err(io::Error::other)?;
        let map = |_| {
            let all = Some(FileOffset::new(file.try_clone()?, 0));
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_POPULATE;
            MmapRegion::build(all, length, libc::PROT_READ, flags).map_err(io::Error::other)
        };
        let mappings = (0..times).map(map).collect::<io::Result<_>>()?;
        Ok(Self { file, size, _mappings: mappings })
    }

    /// Punches the whole file, and returns when it is empty.
    ///
    /// # Errors
    /// When the file is sealed against that.
    pub fn punch(&self) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, hole, 0, self.size)?)
    }
}
