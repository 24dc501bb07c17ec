// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guest memory with a known guest-physical address.

use super::TransportError;
use std::sync::Arc;
use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

/// A contiguous piece of guest memory that the device can access while it runs.
#[derive(Clone)]
pub struct DmaMemory {
    region: Arc<MmapRegion>,
    offset: usize,
    length: usize,
    address: u64,
}

impl DmaMemory {
    /// `length` bytes from byte `offset` of a mapping on, which the device sees from guest-physical `address` on.
    ///
    /// # Errors
    /// If they do not lie in the mapping.
    pub fn new(
        region: Arc<MmapRegion>,
        offset: usize,
        length: usize,
        address: u64,
    ) -> Result<Self, TransportError> {
        let memory = Self { region, offset, length, address };
        memory.bytes()?;
        Ok(memory)
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Guest-physical address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its bytes.
    ///
    /// # Errors
    /// Never fails for existing memory.
    pub fn bytes(&self) -> Result<VolatileSlice<'_>, TransportError> {
        self.region
            .get_slice(self.offset, self.length)
            .map_err(|error| TransportError::Protocol(format!("guest memory: {error}")))
    }

    /// A part of it.
    ///
    /// # Errors
    /// If the part exceeds the memory.
    pub fn part(&self, offset: usize, length: usize) -> Result<Self, TransportError> {
        if offset.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(TransportError::OutOfMemory(length as u64));
        }
        let address = self.address + offset as u64;
        Self::new(Arc::clone(&self.region), self.offset + offset, length, address)
    }
}
