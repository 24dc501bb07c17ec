// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that all GPUs of a host share: the CurrentValues of fences that several guests have, one page each.
//!
//! "All GPUs share the same copy of CurrentValue storage, which is always allocated in system memory." No guest
//! maps it. A page takes memory from its first write until it is zeroed.
//!
//! Source: native GPU fence object, "Cross-adapter native fences".

use super::address_map::Mapping;
use super::host_memory::zero;
use super::region::Region;
use bellhop_protocol::PAGE_SIZE;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io;
use std::sync::Arc;
use vm_memory::{FileOffset, MmapRegion};

/// The pages that all GPUs share.
#[derive(Debug)]
pub struct CrossAdapterMemory {
    file: Arc<File>,
    region: Region,
    size: u64,
}

impl CrossAdapterMemory {
    /// Zeroed memory.
    ///
    /// # Errors
    /// If the operating system has no memory.
    pub fn new(pages: u32) -> io::Result<Self> {
        let size = u64::from(pages) * PAGE_SIZE;
        let file = File::from(rustix::fs::memfd_create("bellhop-shared", MemfdFlags::CLOEXEC)?);
        // A mapping has at least a page.
        let mapped = size.max(PAGE_SIZE);
        file.set_len(mapped)?;
        let file = Arc::new(file);
        let mapped = usize::try_from(mapped).map_err(io::Error::other)?;
        let region = MmapRegion::from_file(FileOffset::from_arc(Arc::clone(&file), 0), mapped);
        Ok(Self { file, region: region.map_err(io::Error::other)?.into(), size })
    }

    /// The mapping of all of it.
    pub(in crate::gpu) fn region(&self) -> Region {
        self.region.clone()
    }

    /// All of it.
    pub(in crate::gpu) fn mapping(&self) -> Mapping {
        Mapping { region: self.region(), base: 0, start: 0, length: self.size }
    }

    /// Zeroes a range and frees its pages.
    ///
    /// # Errors
    /// If the range does not exist, or the operating system refuses.
    pub(in crate::gpu) fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        zero(&self.file, &self.mapping(), offset, length)
    }
}
