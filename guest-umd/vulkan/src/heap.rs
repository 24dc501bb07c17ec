// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that the driver itself writes and the GPU reads: descriptions, descriptor sets, commands, events, queries.
//!
//! It comes in blocks, which are allocations that never move; a block is given back with its last piece as soon as a request
//! finds no room.

use crate::pages::{Counter, Pages, out_of};
use ash::vk;
use bellhop_guest_umd::protocol::PAGE_SIZE;
use bellhop_guest_umd::{Allocation, Device, Error, Words};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use vm_allocator::{AddressAllocator, AllocPolicy, RangeInclusive};
use vm_memory::VolatileSlice;

/// What every piece is aligned to.
const ALIGNMENT: u64 = 64;
/// Bytes of a block, unless a piece is larger.
const BLOCK: u64 = 1 << 20;

/// Bytes of a word.
const WORD: usize = size_of::<AtomicU64>();
/// Most bytes that are written word by word: finding the words once costs less than a copy of few bytes.
const FEW: usize = 512;

/// A block of memory.
struct Block {
    pages: Pages,
    /// All of its memory.
    words: Words,
    free: Mutex<AddressAllocator>,
}

impl Block {
    fn new(counter: &Arc<Counter>, device: &Device, bytes: u64) -> Result<Self, Error> {
        let pages = Pages::new(counter, device, bytes)?;
        let free = AddressAllocator::new(0, bytes);
        let free = free.map_err(|_| Error::NotAvailable("memory of this size"))?;
        let words = pages.mapping.allocation().words()?;
        Ok(Self { pages, words, free: Mutex::new(free) })
    }

    fn memory(&self) -> &Allocation {
        self.pages.mapping.allocation()
    }

    /// Takes bytes at multiples of [`ALIGNMENT`].
    fn take(&self, bytes: u64) -> Option<RangeInclusive> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.allocate(bytes, ALIGNMENT, AllocPolicy::FirstMatch).ok()
    }

    fn give_back(&self, range: &RangeInclusive) {
        // It was taken, so it can be freed.
        let _ = self.free.lock().unwrap_or_else(PoisonError::into_inner).free(range);
    }
}

/// Memory that grows as it is used.
pub struct Heap {
    counter: Arc<Counter>,
    device: Device,
    blocks: Mutex<Vec<Arc<Block>>>,
}

impl Heap {
    /// A heap without memory.
    #[must_use]
    pub fn new(device: Device) -> Self {
        Self { counter: Arc::default(), device, blocks: Mutex::default() }
    }

    /// Counts what it takes.
    pub(crate) fn counted(self, counter: Arc<Counter>) -> Self {
        Self { counter, ..self }
    }

    /// Takes memory, at a multiple of 64 bytes. Its content is whatever was there.
    ///
    /// # Errors
    /// If there is no more memory.
    pub fn take(&self, bytes: usize) -> Result<Piece, vk::Result> {
        let rounded = (bytes.max(1) as u64).checked_next_multiple_of(ALIGNMENT);
        let size = rounded.ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
        let piece = |block: &Arc<Block>, range| Piece { block: Arc::clone(block), range };
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest has the most room.
        for block in blocks.iter().rev() {
            if let Some(range) = block.take(size) {
                return Ok(piece(block, range));
            }
        }
        // Each piece keeps its block. Those without one are too small.
        blocks.retain(|block| Arc::strong_count(block) > 1);
        let whole = size.checked_next_multiple_of(PAGE_SIZE);
        let whole = whole.ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
        let block = match Block::new(&self.counter, &self.device, whole.max(BLOCK)) {
            // Perhaps there is as much as is needed now.
            Err(_) if whole < BLOCK => Block::new(&self.counter, &self.device, whole),
            made => made,
        };
        let block = Arc::new(block.map_err(|error| out_of(&error))?);
        let range = block.take(size).ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
        let piece = piece(&block, range);
        blocks.push(block);
        Ok(piece)
    }
}

/// Stores bytes in words, the last word padded with zeros. Returns the words behind them.
#[inline]
pub(crate) fn put<'w>(words: &'w [AtomicU64], bytes: &[u8]) -> &'w [AtomicU64] {
    let (whole, part) = bytes.as_chunks::<WORD>();
    let (of_whole, mut rest) = words.split_at_checked(whole.len()).unwrap_or((words, &[]));
    for (word, bytes) in of_whole.iter().zip(whole) {
        // A submission publishes them.
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
    if let (false, Some((word, behind))) = (part.is_empty(), rest.split_first()) {
        let mut last = [0; WORD];
        for (place, byte) in last.iter_mut().zip(part) {
            *place = *byte;
        }
        word.store(u64::from_ne_bytes(last), Ordering::Relaxed);
        rest = behind;
    }
    rest
}

/// Memory of a heap, given back on drop. Program and GPU may access it at the same time: there are no references into it but
/// to atomic words.
pub struct Piece {
    block: Arc<Block>,
    range: RangeInclusive,
}

impl Piece {
    /// The GPU virtual address of its first byte.
    #[must_use]
    pub fn gpu_va(&self) -> u64 {
        self.block.pages.mapping.gpu_va() + self.range.start()
    }

    /// Its size in bytes: what was asked for, rounded up to a multiple of 64.
    #[must_use]
    pub fn size(&self) -> usize {
        self.range.len() as usize
    }

    /// Where bytes are in the block, unless some of them are outside of the piece.
    fn place(&self, offset: usize, bytes: usize) -> Option<usize> {
        let end = offset.checked_add(bytes)?;
        (end <= self.size()).then_some(self.range.start() as usize + offset)
    }

    /// Words of 8 bytes, unless some of them are outside, or they are no such words.
    #[inline]
    fn words(&self, offset: usize, bytes: usize) -> Option<&[AtomicU64]> {
        let place = self.place(offset, bytes)?;
        let are_words = (place | bytes).is_multiple_of(WORD);
        self.block.words.get().get(place / WORD..(place + bytes) / WORD).filter(|_| are_words)
    }

    /// Copies bytes in. Those that do not fit are left out, all of them.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        match self.few_words(offset, bytes.len()) {
            Some(words) => {
                put(words, bytes);
            }
            None => self.write_many(offset, bytes),
        }
    }

    /// Words of 8 bytes for [`put`], if they are few and none is outside.
    #[inline]
    pub(crate) fn few_words(&self, offset: usize, bytes: usize) -> Option<&[AtomicU64]> {
        if bytes <= FEW { self.words(offset, bytes) } else { None }
    }

    /// As [`Self::write`], for any bytes.
    fn write_many(&self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.place(offset, bytes.len()) {
            // The block is as large as it says.
            let _ = self.block.memory().write(place, bytes);
        }
    }

    /// Copies bytes out. Those that are outside stay what they were, all of them.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        if let Some(place) = self.place(offset, bytes.len()) {
            // The block is as large as it says.
            let _ = self.block.memory().read(place, bytes);
        }
    }

    /// Copies as many bytes out as there is room for. Nothing if some of them are outside.
    pub(crate) fn copy_to(&self, offset: usize, room: VolatileSlice<'_>) {
        let Some(place) = self.place(offset, room.len()) else { return };
        if let Ok(bytes) = self.block.memory().lock().map(|all| all.subslice(place, room.len())) {
            // The block is as large as it says.
            let _ = bytes.map(|bytes| bytes.copy_to_volatile_slice(room));
        }
    }

    /// The 64-bit word at a multiple of 8. One outside is a word that nobody else looks at.
    #[must_use]
    pub fn long(&self, offset: usize) -> &AtomicU64 {
        static NOWHERE: AtomicU64 = AtomicU64::new(0);
        self.words(offset, WORD).and_then(<[_]>::first).unwrap_or(&NOWHERE)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.block.give_back(&self.range);
    }
}
