// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver's side of a ring buffer: the only writer.

use crate::device::Device;
use crate::error::Error;
use crate::link::areas::OUTSIDE;
use crate::link::words::{Free, Word, Words};
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
    /// The words of the buffer.
    words: Words,
    /// Words from the write pointer on that are free as far as the driver knows, at most to the buffer's end.
    free: Free,
    write_pointer: Word,
    read_pointer: Word,
    store_fence: bool,
    /// Size of the buffer in bytes.
    size: u64,
    /// The write pointer, which only the driver moves.
    write: u64,
    /// The read pointer as of the driver's last load.
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
        let pointer = |offset| control_words.word(offset).ok_or(OUTSIDE);
        Ok(Self {
            write_pointer: pointer(WRITE_POINTER_OFFSET)?,
            read_pointer: pointer(READ_POINTER_OFFSET)?,
            size: buffer.size(),
            buffer,
            control,
            free: words.free(0, words.get().len()),
            words,
            store_fence,
            write: 0,
            read: 0,
        })
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
    pub(crate) fn pointers(&self) -> RingPointers<'_> {
        RingPointers::new(self.write_pointer.get(), self.read_pointer.get())
    }

    /// Returns whether `bytes` fit. Loads the read pointer only if they do not fit by the last known one.
    #[inline]
    pub(crate) fn has_room(&mut self, bytes: usize) -> bool {
        self.fits(bytes) || self.fits_by_now(bytes)
    }

    #[inline]
    fn fits(&self, bytes: usize) -> bool {
        self.write.wrapping_sub(self.read) + bytes as u64 <= self.size
    }

    #[cold]
    fn fits_by_now(&mut self, bytes: usize) -> bool {
        let read = self.pointers().consumed();
        // A device cannot have read more than was written: ignore such a pointer.
        if self.write.wrapping_sub(read) <= self.size {
            self.read = read;
        }
        self.fits(bytes)
    }

    /// Appends packets if they fit in one piece by the last known read pointer, and returns whether they did. If
    /// not, [`Self::has_room`] loads the read pointer, and [`Self::push_bytes`] appends. Packets are invisible
    /// before [`Self::publish`].
    #[inline(always)]
    pub(crate) fn push<const N: usize>(&mut self, packets: [u64; N]) -> bool {
        let is_pushed = self.free.push(packets);
        if is_pushed {
            self.write += size_of_val(&packets) as u64;
        }
        is_pushed
    }

    /// As [`Self::push`], at any position: also across the buffer's end, or from the middle of a word on, where a
    /// tester's bytes may end. The caller has checked that there is room.
    #[cold]
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let place = (self.write & (self.size - 1)) as usize;
        let before_end = bytes.len().min(self.size as usize - place);
        let (first, wrapped) = bytes.split_at(before_end);
        self.buffer.write(place, first)?;
        self.buffer.write(0, wrapped)?;
        self.write += bytes.len() as u64;
        self.free = self.free_words();
        Ok(())
    }

    /// The free words by the last known read pointer; none if the write pointer is in the middle of a word.
    fn free_words(&self) -> Free {
        let place = (self.write & (self.size - 1)) as usize;
        let used = self.write.wrapping_sub(self.read);
        let bytes = self.size.saturating_sub(used).min(self.size - place as u64) as usize;
        let is_whole = place.is_multiple_of(WORD);
        self.words.free(place / WORD, if is_whole { bytes / WORD } else { 0 })
    }

    /// Makes all packets visible.
    #[inline]
    pub(crate) fn publish(&self) {
        // Packets and command buffers must be visible before the pointer that announces them.
        if self.store_fence {
            fence(Ordering::SeqCst);
        }
        self.pointers().publish(self.write);
    }
}
