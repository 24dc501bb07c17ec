// SPDX-License-Identifier: MIT OR Apache-2.0

//! Mapping BARs, from VFIO or from sysfs.

use super::TransportError;
use std::fs::File;
use vm_memory::{FileOffset, MmapRegion};

/// Maps a part of a file.
pub(super) fn map_file(file: File, offset: u64, length: u64) -> Result<MmapRegion, TransportError> {
    MmapRegion::from_file(FileOffset::new(file, offset), length as usize)
        .map_err(|error| TransportError::Io("cannot map a BAR", std::io::Error::other(error)))
}
