// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memory that a program has from its broker: a BAR, then pages for allocations.

use crate::transport::{SystemMemory, TransportError};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::Extent;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vm_allocator::{AddressAllocator, AllocPolicy, RangeInclusive};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// All of it.
pub(super) struct Arena {
    region: Arc<MmapRegion>,
    /// The guest-physical pages of the file, in order.
    extents: Vec<Extent>,
    /// Bytes behind the BAR.
    memory: u64,
    /// By offset in the file, behind the BAR.
    free: Mutex<AddressAllocator>,
}

impl Arena {
    /// Maps the file of `bar` and `memory` bytes.
    pub(super) fn new(
        file: OwnedFd,
        bar: u64,
        memory: u64,
        extents: Vec<Extent>,
    ) -> Result<Arc<Self>, TransportError> {
        let wrong = || TransportError::Protocol("the broker's memory is not what it says".into());
        let length = extents.iter().try_fold(0u64, |sum, extent| sum.checked_add(extent.length));
        let size = bar.checked_add(memory).filter(|size| Some(*size) == length);
        let size = size.and_then(|size| usize::try_from(size).ok()).ok_or_else(wrong)?;
        let is_paged = [bar, memory].iter().all(|bytes| bytes.is_multiple_of(PAGE_SIZE));
        let file = File::from(file);
        // Whoever touches a mapping beyond the end of its file is ended.
        let length =
            file.metadata().map_err(|error| TransportError::Io("the broker's memory", error))?;
        if length.len() != size as u64 {
            return Err(wrong());
        }
        let region = MmapRegion::from_file(FileOffset::new(file, 0), size);
        let region = region.map_err(|error| {
            TransportError::Io("cannot map the broker's memory", std::io::Error::other(error))
        })?;
        let free = AddressAllocator::new(bar, memory).map_err(|_| wrong())?;
        is_paged.then_some(()).ok_or_else(wrong)?;
        let (region, free) = (Arc::new(region), Mutex::new(free));
        Ok(Arc::new(Self { region, extents, memory, free }))
    }

    /// Bytes for allocations, used or not.
    pub(super) fn size(&self) -> u64 {
        self.memory
    }

    pub(super) fn region(&self) -> &Arc<MmapRegion> {
        &self.region
    }

    /// No code panics while it holds the lock, so a poisoned allocator is whole.
    fn lock(&self) -> MutexGuard<'_, AddressAllocator> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates zeroed pages that are freed on drop.
    pub(super) fn allocate(
        self: &Arc<Self>,
        size: u64,
    ) -> Result<Box<dyn SystemMemory>, TransportError> {
        let out_of_memory = || TransportError::OutOfMemory(size);
        let length = size.checked_next_multiple_of(PAGE_SIZE).ok_or_else(out_of_memory)?;
        let range = self.lock().allocate(length, PAGE_SIZE, AllocPolicy::FirstMatch);
        let range = range.map_err(|_| out_of_memory())?;
        let extents = part(&self.extents, range.start(), range.len());
        let block = Block { arena: Arc::clone(self), range, extents };
        // The last allocation may have left bytes there.
        let failed = |error| TransportError::Protocol(format!("the broker's memory: {error}"));
        let bytes = self.region.get_slice(block.offset(), block.len()).map_err(failed)?;
        for page in (0..block.len()).step_by(PAGE_SIZE as usize) {
            bytes.write_slice(&[0; PAGE_SIZE as usize], page).map_err(failed)?;
        }
        Ok(Box::new(block))
    }
}

/// The extents of `length` bytes from byte `start` on.
fn part(extents: &[Extent], start: u64, length: u64) -> Vec<Extent> {
    let (mut skip, mut left, mut found) = (start, length, Vec::new());
    for extent in extents {
        let skipped = skip.min(extent.length);
        let taken = left.min(extent.length - skipped);
        (skip, left) = (skip - skipped, left - taken);
        if taken > 0 {
            found.push(Extent { address: extent.address + skipped, length: taken });
        }
    }
    found
}

/// Allocated pages.
struct Block {
    arena: Arc<Arena>,
    range: RangeInclusive,
    extents: Vec<Extent>,
}

impl SystemMemory for Block {
    fn region(&self) -> &Arc<MmapRegion> {
        &self.arena.region
    }

    fn offset(&self) -> usize {
        self.range.start() as usize
    }

    fn len(&self) -> usize {
        self.range.len() as usize
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // The range was allocated, so it can be freed.
        let _ = self.arena.lock().free(&self.range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    fn file(size: u64) -> OwnedFd {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, size).unwrap();
        file
    }

    fn extent(address: u64, pages: u64) -> Extent {
        Extent { address, length: pages * PAGE_SIZE }
    }

    #[test]
    fn an_allocation_has_the_addresses_of_its_pages_and_comes_zeroed_again() {
        let extents = vec![extent(0x10_0000, 2), extent(0x50_0000, 1), extent(0x20_0000, 3)];
        let arena = Arena::new(file(6 * PAGE_SIZE), PAGE_SIZE, 5 * PAGE_SIZE, extents).unwrap();
        let block = arena.allocate(3 * PAGE_SIZE).unwrap();
        let expected = [extent(0x10_1000, 1), extent(0x50_0000, 1), extent(0x20_0000, 1)];
        assert_eq!((block.offset() as u64, block.extents()), (PAGE_SIZE, &expected[..]));
        assert!(arena.allocate(3 * PAGE_SIZE).is_err());
        let bytes = block.region().get_slice(block.offset(), block.len()).unwrap();
        bytes.write_obj(u64::MAX, 0x1ff8).unwrap();
        drop(block);
        let block = arena.allocate(5 * PAGE_SIZE).unwrap();
        let bytes = block.region().get_slice(block.offset(), block.len()).unwrap();
        assert_eq!(bytes.read_obj::<u64>(0x1ff8).unwrap(), 0);
        assert!(arena.allocate(u64::MAX).is_err());
    }

    #[test]
    fn memory_that_is_not_what_the_broker_says_is_refused() {
        let whole = || vec![extent(0x10_0000, 4)];
        let make = |size, bar, memory, extents| Arena::new(file(size), bar, memory, extents).err();
        let page = PAGE_SIZE;
        assert!(make(4 * page, page, 3 * page, whole()).is_none());
        assert!(make(3 * page, page, 3 * page, whole()).is_some(), "a short file");
        assert!(make(4 * page, page, 2 * page, whole()).is_some(), "too many extents");
        assert!(make(4 * page, u64::MAX, page + 1, whole()).is_some(), "an overflow");
        assert!(make(4 * page, page + 8, 3 * page - 8, whole()).is_some(), "no pages");
        assert!(make(4 * page, 4 * page, 0, whole()).is_some(), "no memory");
    }
}
