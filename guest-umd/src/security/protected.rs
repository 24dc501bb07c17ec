// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that no CPU reads.

use super::error::SecurityError;
use crate::device::Device;
use crate::error::Error;
use crate::memory::allocation::{Allocation, pages};
use crate::memory::mapping::GpuMapping;
use bellhop_protocol::control::allocation::SegmentSet;
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::Arc;

/// Protected memory, resident and mapped. It holds zeroes at first. No CPU reads it, and engines copy it to protected memory
/// only.
pub struct Protected {
    mapping: GpuMapping,
    size: u64,
}

impl Protected {
    /// Protected memory of at least `size` bytes.
    pub(super) fn new(device: &Device, size: u64) -> Result<Self, SecurityError> {
        let segments = SegmentSet::PRIVATE | SegmentSet::SYSTEM;
        let whole = pages(size.max(1));
        let allocation = device.allocation(whole).segments(segments).protected().create()?;
        allocation.make_resident()?;
        let mapping = allocation.map(Protection::WRITE)?;
        Ok(Self { mapping, size })
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its GPU virtual address, for packets of the program's own.
    #[must_use]
    pub fn gpu_va(&self) -> u64 {
        self.mapping.gpu_va()
    }

    /// The allocation.
    #[must_use]
    pub fn allocation(&self) -> &Arc<Allocation> {
        self.mapping.allocation()
    }

    /// The GPU virtual address of a range.
    pub(super) fn at(&self, offset: u64, length: u64) -> Result<u64, SecurityError> {
        let size = self.size;
        match offset.checked_add(length) {
            Some(end) if end <= size => Ok(self.gpu_va() + offset),
            _ => Err(SecurityError::OutOfRange { offset, length, size }),
        }
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        // If it fails, the device is gone, or a queue still uses the memory, which then stays until that ends.
        let _: Result<(), Error> = self.allocation().evict();
    }
}
