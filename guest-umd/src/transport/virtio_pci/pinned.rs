// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory of this process that stays in place in the guest's physical memory.
//!
//! The device accesses guest memory by guest-physical addresses, past any IOMMU of the VM. The kernel may still
//! move locked memory, but not a buffer that is registered with an io_uring. `/proc/self/pagemap` reveals its place
//! to a program with `CAP_SYS_ADMIN`.

use super::TransportError;
use super::huge::{HUGE_PAGE, make_huge};
use crate::transport::file::memory_file;
use crate::transport::{DmaMemory, SystemMemory};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::Extent;
use io_uring::IoUring;
use rustix::mm::{Advice, madvise};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vm_memory::MmapRegion;

/// Maximum number of blocks at once.
const SLOTS: u32 = 4096;
/// Maximum size of a block in bytes: the limit of a registered buffer.
const MAX_SIZE: u64 = 1 << 30;
/// Maximum number of bytes to search for adjacent pages.
const SEARCH: usize = 64 << 20;
/// Bit of a page-map entry: the page is in memory.
const PRESENT: u64 = 1 << 63;
/// Bits of a page-map entry: the number of the physical page.
const PAGE_FRAME: u64 = (1 << 55) - 1;

/// An allocator of pinned memory.
pub(super) struct PinnedMemory {
    pins: Arc<Pins>,
    /// Memory that is freed with the device.
    kept: Mutex<Vec<Kept>>,
}

/// Contiguous pinned memory, and how much of it is in use.
struct Kept {
    block: Block,
    extent: Extent,
    used: usize,
}

struct Pins {
    page_map: File,
    registered: Mutex<Registered>,
}

struct Registered {
    ring: IoUring,
    free: Vec<u32>,
}

impl PinnedMemory {
    pub(super) fn new() -> Result<Self, TransportError> {
        let page_map = File::open("/proc/self/pagemap")
            .map_err(|error| TransportError::Io("cannot open /proc/self/pagemap", error))?;
        let ring = IoUring::new(1)
            .and_then(|ring| ring.submitter().register_buffers_sparse(SLOTS).map(|()| ring))
            .map_err(|error| {
                TransportError::Io("cannot create the io_uring that pins guest memory", error)
            })?;
        let registered = Registered { ring, free: (0..SLOTS).rev().collect() };
        let pins = Arc::new(Pins { page_map, registered: Mutex::new(registered) });
        Ok(Self { pins, kept: Mutex::default() })
    }

    /// Allocates memory that is freed on drop.
    pub(super) fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        self.pin(size).map(|block| Box::new(block) as _)
    }

    /// Allocates memory in a file of its own, freed on drop.
    pub(super) fn allocate_file(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        let out_of_memory = || TransportError::OutOfMemory(size);
        let size = size.checked_next_multiple_of(PAGE_SIZE).ok_or_else(out_of_memory)?;
        if size == 0 || size > MAX_SIZE {
            return Err(out_of_memory());
        }
        let size = size as usize;
        let region = memory_file(size)?;
        if let Some(place) = region.file_offset() {
            make_huge(place.file(), size);
        }
        let pages = Pages { region: Arc::new(region), offset: 0, size };
        pages.populate()?;
        self.pin_pages(pages).map(|block| Box::new(block) as _)
    }

    /// Allocates contiguous memory that is freed with this object, for a device's permanent use. Takes it from a
    /// huge page if the kernel has one, else from pages that happen to be adjacent.
    pub(super) fn contiguous(&self, length: usize) -> Result<DmaMemory, TransportError> {
        let out_of_memory = || TransportError::OutOfMemory(length as u64);
        let length =
            length.checked_next_multiple_of(PAGE_SIZE as usize).ok_or_else(out_of_memory)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = |kept: &&mut Kept| kept.used + length <= kept.extent.length as usize;
        if let Some(kept) = kept.iter_mut().find(has_room) {
            return kept.give_out(length);
        }
        let block = match self.pin(length.max(HUGE_PAGE) as u64) {
            Ok(block) if longest(&block.extents).length as usize >= length => block,
            _ => self.search(length)?,
        };
        let extent = longest(&block.extents);
        let mut new = Kept { block, extent, used: 0 };
        let memory = new.give_out(length);
        kept.push(new);
        memory
    }

    /// Pins pages that are adjacent in the guest's physical memory, and frees the other pages searched.
    fn search(&self, length: usize) -> Result<Block, TransportError> {
        let fragmented = || TransportError::Fragmented(length as u64);
        let region = Arc::new(MmapRegion::new(SEARCH).map_err(|_| fragmented())?);
        let mut looked_at = 0;
        while looked_at < SEARCH {
            // In a small guest, memory runs out before the search ends.
            let step = Pages { region: Arc::clone(&region), offset: looked_at, size: HUGE_PAGE };
            step.populate().map_err(|_| fragmented())?;
            looked_at += HUGE_PAGE;
            let all = Pages { region: Arc::clone(&region), offset: 0, size: looked_at };
            let extents = self.pins.extents(&all)?;
            let Some(offset) = run(&extents, length) else { continue };
            let pages = Pages { region: Arc::clone(&region), offset, size: length };
            // The kernel may move the pages until they are pinned.
            let block = self.pin_pages(pages)?;
            if block.extents.len() == 1 {
                give_back(&region, 0..offset);
                give_back(&region, offset + length..looked_at);
                return Ok(block);
            }
        }
        Err(fragmented())
    }

    fn pin(&self, size: u64) -> Result<Block, TransportError> {
        let out_of_memory = || TransportError::OutOfMemory(size);
        let size = size.checked_next_multiple_of(PAGE_SIZE).ok_or_else(out_of_memory)?;
        if size == 0 || size > MAX_SIZE {
            return Err(out_of_memory());
        }
        let size = size as usize;
        // Huge pages are aligned to their size.
        let slack = if size >= HUGE_PAGE { HUGE_PAGE } else { 0 };
        let region = MmapRegion::new(size + slack).map_err(|_| out_of_memory())?;
        let start = region.as_ptr() as usize;
        let offset = if slack == 0 { 0 } else { start.next_multiple_of(HUGE_PAGE) - start };
        let pages = Pages { region: Arc::new(region), offset, size };
        pages.populate()?;
        self.pin_pages(pages)
    }

    /// Pins pages, so that the kernel does not move them.
    fn pin_pages(&self, pages: Pages) -> Result<Block, TransportError> {
        let out_of_memory = || TransportError::OutOfMemory(pages.size as u64);
        let slot = self.pins.lock().free.pop().ok_or_else(out_of_memory)?;
        let pins = Arc::clone(&self.pins);
        let mut block = Block { pins, slot, pages, extents: Vec::new() };
        self.pins.register(slot, &block.pages)?;
        block.extents = self.pins.extents(&block.pages)?;
        Ok(block)
    }
}

impl Kept {
    /// The next part of the longest extent; among equals, the first.
    fn give_out(&mut self, length: usize) -> Result<DmaMemory, TransportError> {
        let Pages { region, offset, .. } = &self.block.pages;
        let start = run(&self.block.extents, self.extent.length as usize).unwrap_or(0);
        let offset = offset + start + self.used;
        let address = self.extent.address + self.used as u64;
        let memory = DmaMemory::new(Arc::clone(region), offset, length, address)?;
        self.used += length;
        Ok(memory)
    }
}

/// The longest extent.
fn longest(extents: &[Extent]) -> Extent {
    let longest = extents.iter().rev().max_by_key(|extent| extent.length).copied();
    longest.unwrap_or(Extent { address: 0, length: 0 })
}

/// Offset of the first extent of at least `length` bytes, in bytes from the first extent's start.
fn run(extents: &[Extent], length: usize) -> Option<usize> {
    let mut offset = 0;
    for extent in extents {
        if extent.length as usize >= length {
            return Some(offset);
        }
        offset += extent.length as usize;
    }
    None
}

/// Frees unused pages of a mapping.
fn give_back(region: &MmapRegion, range: Range<usize>) {
    let start = region.as_ptr().wrapping_add(range.start);
    // SAFETY: the range is a part of the mapping. Only the caller has a view of it, and does not read it: its bytes
    // become zero.
    #[expect(unsafe_code, reason = "advice is given by address")]
    let _ = unsafe { madvise(start.cast(), range.len(), Advice::LinuxDontNeed) };
}

impl Pins {
    /// Locks the state. No code panics while it holds the lock, so the state behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, slot: u32, pages: &Pages) -> Result<(), TransportError> {
        let buffer = libc::iovec { iov_base: pages.start().cast(), iov_len: pages.size };
        self.update(slot, buffer).map_err(|error| {
            TransportError::Io("cannot pin guest memory; is `ulimit -l` large enough?", error)
        })
    }

    fn update(&self, slot: u32, buffer: libc::iovec) -> io::Result<()> {
        // SAFETY: the kernel only takes references to the pages of the buffer, which is a block's mapping or empty.
        // No operation is ever submitted to the ring, so nothing is read or written through it.
        #[expect(unsafe_code, reason = "registered buffers are passed by address")]
        unsafe {
            self.lock().ring.submitter().register_buffers_update(slot, &[buffer], None)
        }
    }

    /// The guest-physical addresses of pages.
    fn extents(&self, pages: &Pages) -> Result<Vec<Extent>, TransportError> {
        let failed = |error| TransportError::Io("cannot read /proc/self/pagemap", error);
        let first = pages.start() as u64 / PAGE_SIZE;
        let mut entries = vec![0; pages.size / PAGE_SIZE as usize * size_of::<u64>()];
        self.page_map
            .read_exact_at(&mut entries, first * size_of::<u64>() as u64)
            .map_err(failed)?;
        let mut extents: Vec<Extent> = Vec::new();
        for entry in entries.as_chunks().0 {
            let entry = u64::from_ne_bytes(*entry);
            let address = (entry & PAGE_FRAME) * PAGE_SIZE;
            if entry & PRESENT == 0 || address == 0 {
                let hidden = io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "guest-physical addresses are hidden from this user: CAP_SYS_ADMIN is needed",
                );
                return Err(failed(hidden));
            }
            match extents.last_mut() {
                Some(last) if last.address + last.length == address => last.length += PAGE_SIZE,
                _ => extents.push(Extent { address, length: PAGE_SIZE }),
            }
        }
        Ok(extents)
    }
}

/// A part of a mapping.
struct Pages {
    region: Arc<MmapRegion>,
    offset: usize,
    size: usize,
}

/// Pinned memory.
struct Block {
    pins: Arc<Pins>,
    slot: u32,
    pages: Pages,
    extents: Vec<Extent>,
}

impl Pages {
    fn start(&self) -> *mut u8 {
        self.region.as_ptr().wrapping_add(self.offset)
    }

    /// Allocates the pages, zeroed, as huge pages if possible, and prevents a fork of the process from copying
    /// them.
    fn populate(&self) -> Result<(), TransportError> {
        let advise = |advice| {
            // SAFETY: the range is a part of a mapping that belongs to this memory. None of the advices removes or
            // changes bytes: untouched pages of a new mapping are zero before and after.
            #[expect(unsafe_code, reason = "advice is given by address")]
            unsafe {
                madvise(self.start().cast(), self.size, advice)
            }
        };
        // A kernel without huge pages refuses, and the memory then has more extents.
        let _ = advise(Advice::LinuxHugepage);
        advise(Advice::LinuxDontFork)
            .and_then(|()| advise(Advice::LinuxPopulateWrite))
            .map_err(|error| TransportError::Io("cannot allocate guest memory", error.into()))
    }
}

impl SystemMemory for Block {
    fn region(&self) -> &Arc<MmapRegion> {
        &self.pages.region
    }

    fn offset(&self) -> usize {
        self.pages.offset
    }

    fn len(&self) -> usize {
        self.pages.size
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // The mapping is removed once its pages are unpinned. The kernel does not refuse to unpin; if it did, the
        // slot would not be free.
        if self.pins.update(self.slot, nothing).is_ok() {
            self.pins.lock().free.push(self.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(pages: &[u64]) -> Vec<Extent> {
        let extent = |(index, pages)| Extent {
            address: 0x10_0000 * index as u64,
            length: pages * PAGE_SIZE,
        };
        pages.iter().enumerate().map(extent).collect()
    }

    #[test]
    fn pages_beside_each_other_are_found_among_scattered_ones() {
        let page = PAGE_SIZE as usize;
        let scattered = extents(&[1, 1, 3, 1, 32, 33, 1]);
        assert_eq!(run(&scattered, page), Some(0));
        assert_eq!(run(&scattered, 2 * page), Some(2 * page));
        assert_eq!(run(&scattered, 32 * page), Some(6 * page));
        assert_eq!(run(&scattered, 33 * page), Some(38 * page));
        assert_eq!(run(&scattered, 34 * page), None);
        assert_eq!(longest(&scattered).address, 0x50_0000);
        // Among equals the first one, which `run` finds.
        assert_eq!(longest(&extents(&[1, 4, 4])).address, 0x10_0000);
        assert_eq!(longest(&[]).length, 0);
    }
}
