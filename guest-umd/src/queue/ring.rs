// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver's side of a ring buffer: the only writer.

use crate::device::Device;
use crate::error::Error;
use crate::memory::allocation::{Allocation, pages};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::handoff::doorbell::RingPointers;
use bellhop_protocol::ring::{
    READ_POINTER_OFFSET, RING_CONTROL_SIZE, WRITE_POINTER_OFFSET, is_valid_ring_size,
};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// A ring buffer with its control, which holds the read and write pointers.
pub(crate) struct Ring {
    buffer: Arc<Allocation>,
    control: Arc<Allocation>,
    store_fence: bool,
    write: u64,
    /// The read pointer when the driver last loaded it.
    read: u64,
}

impl Ring {
    pub(crate) fn create(device: &Device, kind: AllocationKind, size: u64) -> Result<Self, Error> {
        if !is_valid_ring_size(size) {
            return Err(Error::BadPacket("a ring is a power of two from 4 KiB to 16 MiB"));
        }
        let buffer = device.create_allocation(kind, size)?;
        let control = device.create_allocation(kind, pages(RING_CONTROL_SIZE))?;
        let store_fence = device.session().areas()?.needs_store_fence();
        Ok(Self { buffer, control, store_fence, write: 0, read: 0 })
    }

    pub(crate) fn buffer(&self) -> &Arc<Allocation> {
        &self.buffer
    }

    pub(crate) fn control(&self) -> &Arc<Allocation> {
        &self.control
    }

    /// The write pointer, in bytes since the ring's creation: the next ring of the doorbell carries it.
    pub(crate) fn write_pointer(&self) -> u64 {
        self.write
    }

    pub(crate) fn pointers(&self) -> Result<RingPointers<'_>, Error> {
        Ok(RingPointers::new(
            self.control.word(WRITE_POINTER_OFFSET as usize)?,
            self.control.word(READ_POINTER_OFFSET as usize)?,
        ))
    }

    /// Whether `bytes` fit. Loads the read pointer only if they do not fit by the last known one.
    #[inline]
    pub(crate) fn has_room(&mut self, bytes: usize) -> Result<bool, Error> {
        let size = self.buffer.size();
        let fits = |read: u64, write: u64| write.wrapping_sub(read) + bytes as u64 <= size;
        if !fits(self.read, self.write) {
            let read = self.pointers()?.consumed();
            // A device cannot have read more than was written: ignore such a pointer.
            if self.write.wrapping_sub(read) <= size {
                self.read = read;
            }
        }
        Ok(fits(self.read, self.write))
    }

    /// Appends a packet and makes it visible. The caller has checked that there is room.
    #[inline]
    pub(crate) fn push(&mut self, packet: &[u8]) -> Result<(), Error> {
        let place = (self.write & (self.buffer.size() - 1)) as usize;
        let before_end = packet.len().min(self.buffer.size() as usize - place);
        let (first, wrapped) = packet.split_at(before_end);
        self.buffer.write(place, first)?;
        if !wrapped.is_empty() {
            self.buffer.write(0, wrapped)?;
        }
        self.write += packet.len() as u64;
        // Packet and command buffer must be visible before the pointer that announces them.
        if self.store_fence {
            fence(Ordering::SeqCst);
        }
        self.pointers()?.publish(self.write);
        Ok(())
    }
}
