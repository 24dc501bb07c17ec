// SPDX-License-Identifier: MIT OR Apache-2.0

//! Registers in a BAR.

use super::TransportError;
use super::access::Access;
use super::capability::Window;
use std::sync::atomic::Ordering;
use vm_memory::{AtomicAccess, Bytes, MmapRegion, VolatileMemory};

const PAGE: u64 = 4096;

/// A mapped part of a BAR.
pub(super) struct Registers {
    region: MmapRegion,
    offset: usize,
    length: usize,
}

impl Registers {
    /// Maps the part that a capability names.
    pub(super) fn map(access: &Access, window: Window) -> Result<Self, TransportError> {
        let start = window.offset / PAGE * PAGE;
        let end = window
            .offset
            .checked_add(window.length)
            .and_then(|end| end.checked_next_multiple_of(PAGE));
        let end = end.ok_or_else(|| {
            TransportError::Protocol("a structure extends beyond the address space".into())
        })?;
        let region = access.map(Window { offset: start, length: end - start, ..window })?;
        let offset = (window.offset - start) as usize;
        Ok(Self { region, offset, length: window.length as usize })
    }

    /// Reads a register: one access of the register's width, as VIRTIO requires.
    pub(super) fn read<T: AtomicAccess>(&self, offset: usize) -> Result<T, TransportError> {
        let registers = self.region.get_slice(self.offset, self.length).map_err(outside)?;
        registers.load(offset, Ordering::Acquire).map_err(outside)
    }

    /// Writes a register: one access of the register's width.
    pub(super) fn write<T: AtomicAccess>(
        &self,
        offset: usize,
        value: T,
    ) -> Result<(), TransportError> {
        let registers = self.region.get_slice(self.offset, self.length).map_err(outside)?;
        registers.store(value, offset, Ordering::Release).map_err(outside)
    }
}

fn outside(error: vm_memory::VolatileMemoryError) -> TransportError {
    TransportError::Protocol(format!("a register lies outside its structure: {error}"))
}
