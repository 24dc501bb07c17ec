// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guest memory: one memfd, allocated in pages.

#[cfg(feature = "raw")]
mod plugging;

use crate::transport::{DmaMemory, SystemMemory, TransportError};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::Extent;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vhost::VhostUserMemoryRegionInfo;
use vm_allocator::{AddressAllocator, AllocPolicy, RangeInclusive};
use vm_memory::mmap::MmapRegionError;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// Guest-physical address of the first byte: not 0, so that an address is not an offset.
const LOW: u64 = 1 << 20;
/// Guest-physical address of memory that does not fit below the hole.
const HIGH: u64 = 1 << 32;

/// All of the guest's memory, allocated by offset in its memfd.
pub struct GuestRam {
    region: Arc<MmapRegion>,
    /// Bytes below the hole.
    low: u64,
    /// Offset of the memory module that can be plugged in: behind all other memory.
    module: u64,
    state: Mutex<State>,
}

struct State {
    plugged: Plugged,
    free: AddressAllocator,
    /// Memory that is never freed.
    taken: Vec<RangeInclusive>,
    /// Counts reclaims. Memory that was allocated before a reclaim is not freed again.
    reclaims: u64,
}

/// The parts of guest memory that are in the memory table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plugged {
    /// The memory that the guest started with, its queues included.
    pub base: bool,
    /// The module behind all other memory.
    pub module: bool,
}

/// All of `size` bytes, free.
fn all_free(size: u64) -> Result<AddressAllocator, TransportError> {
    AddressAllocator::new(0, size)
        .map_err(|error| TransportError::Io("guest memory", std::io::Error::other(error)))
}

impl GuestRam {
    /// Creates `base` bytes, of which at most `low` are below the hole, and a module of `module` bytes that is not
    /// plugged in. Sealed memory cannot shrink, like that of QEMU's memory-backend-memfd.
    ///
    /// # Errors
    /// If the operating system has no memory.
    pub fn new(
        base: u64,
        low: u64,
        module: u64,
        is_sealed: bool,
    ) -> Result<Arc<Self>, TransportError> {
        let base = base.next_multiple_of(PAGE_SIZE);
        let size = base + module.next_multiple_of(PAGE_SIZE);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let seals =
            if is_sealed { SealFlags::SHRINK | SealFlags::GROW } else { SealFlags::empty() };
        let file = memfd_create("guest-ram", flags)
            .and_then(|memfd| ftruncate(&memfd, size).map(|()| memfd))
            .and_then(|memfd| fcntl_add_seals(&memfd, seals).map(|()| memfd))
            .map_err(|error| TransportError::Io("guest memory", error.into()))?;
        let mapping = |error: MmapRegionError| {
            TransportError::Io("guest memory", std::io::Error::other(error))
        };
        let file = FileOffset::new(File::from(file), 0);
        let region = MmapRegion::from_file(file, size as usize).map_err(mapping)?;
        let plugged = Plugged { base: true, module: false };
        let state = State { plugged, free: all_free(base)?, taken: Vec::new(), reclaims: 0 };
        Ok(Arc::new(Self {
            region: Arc::new(region),
            low: low.min(base),
            module: base,
            state: Mutex::new(state),
        }))
    }

    /// No code panics while it holds the lock, so a poisoned allocator is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of its bytes, used or not.
    pub(super) fn size(&self) -> u64 {
        self.region.size() as u64
    }

    /// The runs of guest-physical memory at a range of offsets.
    fn extents(&self, start: u64, length: u64) -> Vec<Extent> {
        let end = start + length;
        [(0, self.low, LOW), (self.low, self.size(), HIGH)]
            .into_iter()
            .filter_map(|(first, last, address)| {
                let (from, to) = (start.max(first), end.min(last));
                (from < to).then(|| Extent { address: address + (from - first), length: to - from })
            })
            .collect()
    }

    fn offset_of(&self, address: u64) -> u64 {
        if address >= HIGH { address - HIGH + self.low } else { address - LOW }
    }

    /// Its regions in the memory table.
    #[must_use]
    pub fn region_infos(&self) -> Vec<VhostUserMemoryRegionInfo> {
        let Some(file) = self.region.file_offset() else { return Vec::new() };
        let Plugged { base, module } = self.lock().plugged;
        let base = base.then(|| self.extents(0, self.module));
        let module = module.then(|| self.extents(self.module, self.size() - self.module));
        [base, module]
            .into_iter()
            .flatten()
            .flatten()
            .map(|Extent { address, length }| VhostUserMemoryRegionInfo {
                guest_phys_addr: address,
                memory_size: length,
                userspace_addr: self.address_here(address),
                mmap_offset: self.offset_of(address),
                mmap_handle: file.file().as_raw_fd(),
            })
            .collect()
    }

    /// The address at which this process maps a guest-physical address.
    #[must_use]
    pub fn address_here(&self, address: u64) -> u64 {
        self.region.as_ptr() as u64 + self.offset_of(address)
    }

    fn allocate_range(
        &self,
        size: u64,
        policy: AllocPolicy,
    ) -> Result<RangeInclusive, TransportError> {
        let size = size.next_multiple_of(PAGE_SIZE);
        let allocated = self.lock().free.allocate(size, PAGE_SIZE, policy);
        allocated.map_err(|_| TransportError::OutOfMemory(size))
    }

    /// Allocates memory that is never freed, from the start: for queues.
    ///
    /// # Errors
    /// [`TransportError::OutOfMemory`] if there is no such run of free memory.
    pub fn take(&self, length: u64) -> Result<DmaMemory, TransportError> {
        let range = self.allocate_range(length, AllocPolicy::FirstMatch)?;
        self.lock().taken.push(range);
        let [Extent { address, .. }] = self.extents(range.start(), length)[..] else {
            return Err(TransportError::OutOfMemory(length));
        };
        let offset = range.start() as usize;
        DmaMemory::new(Arc::clone(&self.region), offset, length as usize, address)
    }

    /// Allocates memory that is freed when dropped, from the end.
    ///
    /// # Errors
    /// [`TransportError::OutOfMemory`] if there is not enough.
    pub fn allocate(self: &Arc<Self>, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        let range = self.allocate_range(size, AllocPolicy::LastMatch)?;
        let extents = self.extents(range.start(), range.len());
        let reclaims = self.lock().reclaims;
        let block = Block { ram: Arc::clone(self), range, extents, reclaims };
        // The last owner may have left bytes there.
        let failed = |error| TransportError::Protocol(format!("guest memory: {error}"));
        let bytes = self.region.get_slice(block.offset(), block.len()).map_err(failed)?;
        for page in (0..block.len()).step_by(PAGE_SIZE as usize) {
            bytes.write_slice(&[0; PAGE_SIZE as usize], page).map_err(failed)?;
        }
        Ok(Box::new(block))
    }
}

/// Allocated pages.
struct Block {
    ram: Arc<GuestRam>,
    range: RangeInclusive,
    extents: Vec<Extent>,
    /// The count of reclaims when it was allocated.
    reclaims: u64,
}

impl SystemMemory for Block {
    fn region(&self) -> &Arc<MmapRegion> {
        &self.ram.region
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
        let mut state = self.ram.lock();
        if state.reclaims == self.reclaims {
            // The range was allocated, so it can be freed.
            let _ = state.free.free(&self.range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_does_not_fit_below_the_hole_is_above_it() {
        let ram = GuestRam::new(8 * PAGE_SIZE, 3 * PAGE_SIZE, 0, true).unwrap();
        let extent = |address, pages| Extent { address, length: pages * PAGE_SIZE };
        assert_eq!(ram.extents(0, ram.size()), [extent(LOW, 3), extent(HIGH, 5)]);
        assert_eq!(ram.extents(PAGE_SIZE, PAGE_SIZE), [extent(LOW + PAGE_SIZE, 1)]);
        assert_eq!(ram.extents(4 * PAGE_SIZE, 2 * PAGE_SIZE), [extent(HIGH + PAGE_SIZE, 2)]);
        let [low, high] = ram.region_infos()[..] else { panic!("not two regions") };
        assert_eq!((low.guest_phys_addr, low.mmap_offset), (LOW, 0));
        assert_eq!((high.guest_phys_addr, high.mmap_offset), (HIGH, 3 * PAGE_SIZE));
        assert_eq!(ram.address_here(HIGH) - ram.address_here(LOW), 3 * PAGE_SIZE);
        let across = ram.allocate(6 * PAGE_SIZE).unwrap();
        assert_eq!(across.extents(), [extent(LOW + 2 * PAGE_SIZE, 1), extent(HIGH, 5)]);
    }

    #[test]
    fn memory_that_fits_below_the_hole_is_one_region() {
        let ram = GuestRam::new(4 * PAGE_SIZE, 1 << 31, 0, true).unwrap();
        assert_eq!(ram.region_infos().len(), 1);
    }
}
