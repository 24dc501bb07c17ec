//! Guest memory: one memfd, given out in pages.

use super::FakeGuestError;
use bellhop_guest_umd::transport::{DmaMemory, SystemMemory, TransportError};
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
const BASE: u64 = 1 << 32;

/// All of the guest's memory.
pub(super) struct GuestRam {
    region: Arc<MmapRegion>,
    free: Mutex<AddressAllocator>,
}

impl GuestRam {
    pub(super) fn new(size: u64) -> Result<Arc<Self>, FakeGuestError> {
        let size = size.next_multiple_of(PAGE_SIZE);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("guest-ram", flags)
            .and_then(|memfd| ftruncate(&memfd, size).map(|()| memfd))
            // As QEMU's memory-backend-memfd does: the device need not fear that it shrinks.
            .and_then(|memfd| {
                fcntl_add_seals(&memfd, SealFlags::SHRINK | SealFlags::GROW).map(|()| memfd)
            })
            .map_err(|error| FakeGuestError::Io("guest memory", error.into()))?;
        let mapping = |error: MmapRegionError| {
            FakeGuestError::Io("guest memory", std::io::Error::other(error))
        };
        let file = FileOffset::new(File::from(file), 0);
        let region = MmapRegion::from_file(file, size as usize).map_err(mapping)?;
        let free = AddressAllocator::new(BASE, size)
            .map_err(|error| FakeGuestError::Io("guest memory", std::io::Error::other(error)))?;
        Ok(Arc::new(Self { region: Arc::new(region), free: Mutex::new(free) }))
    }

    /// No code panics while it holds the lock, so a poisoned allocator is whole.
    fn lock(&self) -> MutexGuard<'_, AddressAllocator> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As the memory table names it.
    pub(super) fn region_info(&self) -> Option<VhostUserMemoryRegionInfo> {
        let file = self.region.file_offset()?;
        Some(VhostUserMemoryRegionInfo {
            guest_phys_addr: BASE,
            memory_size: self.region.size() as u64,
            userspace_addr: self.region.as_ptr() as u64,
            mmap_offset: file.start(),
            mmap_handle: file.file().as_raw_fd(),
        })
    }

    /// Where this process has a guest-physical address.
    pub(super) fn address_here(&self, address: u64) -> u64 {
        self.region.as_ptr() as u64 + (address - BASE)
    }

    /// Guest-physical addresses from this on are none.
    pub(super) fn end(&self) -> u64 {
        BASE + self.region.size() as u64
    }

    fn allocate_range(&self, size: u64) -> Result<RangeInclusive, TransportError> {
        let size = size.next_multiple_of(PAGE_SIZE);
        self.lock()
            .allocate(size, PAGE_SIZE, AllocPolicy::FirstMatch)
            .map_err(|_| TransportError::OutOfMemory(size))
    }

    /// Memory that is never given back: queues.
    pub(super) fn take(&self, length: u64) -> Result<DmaMemory, TransportError> {
        let range = self.allocate_range(length)?;
        let offset = (range.start() - BASE) as usize;
        DmaMemory::new(Arc::clone(&self.region), offset, length as usize, range.start())
    }

    /// Memory that is given back when dropped.
    pub(super) fn allocate(
        self: &Arc<Self>,
        size: u64,
    ) -> Result<Box<dyn SystemMemory>, TransportError> {
        let range = self.allocate_range(size)?;
        let extent = Extent { address: range.start(), length: range.len() };
        let block = Block { ram: Arc::clone(self), range, extents: [extent] };
        // Whoever had it before may have left something.
        let failed = |error| TransportError::Protocol(format!("guest memory: {error}"));
        let bytes = self.region.get_slice(block.offset(), block.len()).map_err(failed)?;
        for page in (0..block.len()).step_by(PAGE_SIZE as usize) {
            bytes.write_slice(&[0; PAGE_SIZE as usize], page).map_err(failed)?;
        }
        Ok(Box::new(block))
    }
}

/// Some pages.
struct Block {
    ram: Arc<GuestRam>,
    range: RangeInclusive,
    extents: [Extent; 1],
}

impl SystemMemory for Block {
    fn region(&self) -> &Arc<MmapRegion> {
        &self.ram.region
    }

    fn offset(&self) -> usize {
        (self.range.start() - BASE) as usize
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
        let _ = self.ram.lock().free(&self.range);
    }
}
