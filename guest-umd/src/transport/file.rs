// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory in files that other processes can map.

use super::TransportError;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use vm_memory::{FileOffset, MmapRegion};

/// A mapped file of `size` bytes, zeroes, whose size never changes.
pub(super) fn memory_file(size: usize) -> Result<MmapRegion, TransportError> {
    let io = |error: std::io::Error| TransportError::Io("guest memory in a file", error);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("bellhop-shared", flags)
        .and_then(|memfd| ftruncate(&memfd, size as u64).map(|()| memfd))
        .and_then(|memfd| {
            let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
            fcntl_add_seals(&memfd, seals).map(|()| memfd)
        })
        .map_err(|error| io(error.into()))?;
    MmapRegion::from_file(FileOffset::new(File::from(file), 0), size)
        .map_err(|error| io(std::io::Error::other(error)))
}
