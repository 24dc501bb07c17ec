// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver's side of a ring buffer: the only writer.

use crate::device::Device;
use crate::error::Error;
use crate::link::areas::OUTSIDE;
use crate::link::words::Words;
use crate::memory::allocation::{Allocation, pages};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::handoff::doorbell::RingPointers;
use bellhop_protocol::handoff::words::WORD;
use bellhop_protocol::ring::{
    READ_POINTER_OFFSET, RING_CONTROL_SIZE, WRITE_POINTER_OFFSET, is_valid_ring_size,
};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// A ring buffer with its control, which holds the read and write pointers.
pub(crate) struct Ring {
    buffer: Arc<Allocation>,
    control: Arc<Allocation>,
    /// Those of the buffer, of which there is a power of two.
    words: Words,
    /// Those of the control.
    control_words: Words,
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
        let (words, control_words) = (buffer.words()?, control.words()?);
        Ok(Self { buffer, control, words, control_words, store_fence, write: 0, read: 0 })
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

    #[inline]
    pub(crate) fn pointers(&self) -> Result<RingPointers<'_>, Error> {
        let word =
            |offset: u64| self.control_words.get().get(offset as usize / WORD).ok_or(OUTSIDE);
        Ok(RingPointers::new(word(WRITE_POINTER_OFFSET)?, word(READ_POINTER_OFFSET)?))
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

    /// Appends packets, which are not visible before [`Self::publish`]. The caller has checked that there is
    /// room.
    #[inline]
    pub(crate) fn push(&mut self, packets: &[u8]) -> Result<(), Error> {
        let (units, rest) = packets.as_chunks::<WORD>();
        if !rest.is_empty() || !self.write.is_multiple_of(WORD as u64) {
            return self.push_bytes(packets);
        }
        let words = self.words.get();
        let first = self.write as usize / WORD;
        for (index, unit) in units.iter().enumerate() {
            let word = words.get((first + index) & (words.len() - 1)).ok_or(OUTSIDE)?;
            // Ordered by the write pointer.
            word.store(u64::from_ne_bytes(*unit), Ordering::Relaxed);
        }
        self.write += packets.len() as u64;
        Ok(())
    }

    /// Appends bytes that are not whole words: a tester's, for packets are.
    #[cold]
    fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let place = (self.write & (self.buffer.size() - 1)) as usize;
        let before_end = bytes.len().min(self.buffer.size() as usize - place);
        let (first, wrapped) = bytes.split_at(before_end);
        self.buffer.write(place, first)?;
        self.buffer.write(0, wrapped)?;
        self.write += bytes.len() as u64;
        Ok(())
    }

    /// Makes all packets visible.
    #[inline]
    pub(crate) fn publish(&self) -> Result<(), Error> {
        // Packets and command buffers must be visible before the pointer that announces them.
        if self.store_fence {
            fence(Ordering::SeqCst);
        }
        self.pointers()?.publish(self.write);
        Ok(())
    }
}
