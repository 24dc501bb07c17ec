//! The driver's side of a ring buffer. One writer.

use crate::allocation::{Allocation, pages};
use crate::device::Device;
use crate::error::Error;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::handoff::doorbell::RingPointers;
use bellhop_protocol::ring::{
    READ_POINTER_OFFSET, RING_CONTROL_SIZE, WRITE_POINTER_OFFSET, is_valid_ring_size,
};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// A ring buffer with its control.
pub(crate) struct Ring {
    buffer: Arc<Allocation>,
    control: Arc<Allocation>,
    store_fence: bool,
    write: u64,
    /// Where the device was when last looked at.
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

    /// The write pointer that the next ring of the doorbell carries.
    pub(crate) fn write_pointer(&self) -> u64 {
        self.write
    }

    /// Says that the ring was written up to here, whether it was or not.
    pub(crate) fn claim_written(&self, position: u64) -> Result<(), Error> {
        self.pointers()?.publish(position);
        Ok(())
    }

    fn pointers(&self) -> Result<RingPointers<'_>, Error> {
        Ok(RingPointers::new(
            self.control.word(WRITE_POINTER_OFFSET as usize)?,
            self.control.word(READ_POINTER_OFFSET as usize)?,
        ))
    }

    /// Whether `bytes` fit. Looks at the read pointer only when they did not when it was last
    /// looked at.
    #[inline]
    pub(crate) fn has_room(&mut self, bytes: usize) -> Result<bool, Error> {
        let size = self.buffer.size();
        let fits = |read: u64, write: u64| write.wrapping_sub(read) + bytes as u64 <= size;
        if !fits(self.read, self.write) {
            let read = self.pointers()?.consumed();
            // A device that claims to have read what was not written is not believed.
            if self.write.wrapping_sub(read) <= size {
                self.read = read;
            }
        }
        Ok(fits(self.read, self.write))
    }

    /// Appends a packet, for which there is room, and makes it visible.
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
        // Packet and command buffer before the pointer that announces them.
        if self.store_fence {
            fence(Ordering::SeqCst);
        }
        self.pointers()?.publish(self.write);
        Ok(())
    }
}
