// SPDX-License-Identifier: MIT OR Apache-2.0

//! Helpers for the tests of several files.

use super::DmaMemory;
use std::sync::Arc;
use vm_memory::MmapRegion;

/// Memory that a device would see from `address` on.
pub fn memory(address: u64, length: usize) -> DmaMemory {
    DmaMemory::new(Arc::new(MmapRegion::new(length).unwrap()), 0, length, address).unwrap()
}
