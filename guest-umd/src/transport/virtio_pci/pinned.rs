//! Memory of this process that stays where it is in the guest's physical memory.
//!
//! The device reaches guest memory by guest-physical addresses, past any IOMMU of the VM's. Locked
//! memory may still be moved by the kernel; a buffer that is registered with an io_uring may not.
//! `/proc/self/pagemap` tells where it is, to whoever has `CAP_SYS_ADMIN`.

use super::TransportError;
use crate::transport::{DmaMemory, SystemMemory};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::Extent;
use io_uring::IoUring;
use rustix::mm::{Advice, madvise};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vm_memory::MmapRegion;

/// Blocks at a time.
const SLOTS: u32 = 4096;
/// Most bytes of a block: what a registered buffer can have.
const MAX_SIZE: u64 = 1 << 30;
/// What a huge page of the guest's has. Memory in huge pages has few extents.
const HUGE_PAGE: usize = 2 << 20;
/// In an entry of the page map: the page is in memory.
const PRESENT: u64 = 1 << 63;
/// In an entry of the page map: which page of physical memory it is.
const PAGE_FRAME: u64 = (1 << 55) - 1;

/// Gives out pinned memory.
pub(super) struct PinnedMemory {
    pins: Arc<Pins>,
    /// What was given out for as long as the device is there.
    kept: Mutex<Vec<Block>>,
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
                TransportError::Io("cannot make the io_uring that pins guest memory", error)
            })?;
        let registered = Registered { ring, free: (0..SLOTS).rev().collect() };
        let pins = Arc::new(Pins { page_map, registered: Mutex::new(registered) });
        Ok(Self { pins, kept: Mutex::default() })
    }

    /// Memory that is given back when dropped.
    pub(super) fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        self.pin(size).map(|block| Box::new(block) as _)
    }

    /// Memory without a gap that is given back with this object: for what a device uses from its
    /// start to its end.
    pub(super) fn contiguous(&self, length: usize) -> Result<DmaMemory, TransportError> {
        let out_of_memory = || TransportError::OutOfMemory(length as u64);
        let pages =
            length.checked_next_multiple_of(PAGE_SIZE as usize).ok_or_else(out_of_memory)?;
        // More than a page: in one huge page, if the kernel has one.
        let size = if pages > PAGE_SIZE as usize { pages.max(HUGE_PAGE) } else { pages };
        let block = self.pin(size as u64)?;
        let [Extent { address, length: found }] = block.extents[..] else {
            return Err(out_of_memory());
        };
        let length = length.min(found as usize);
        let memory = DmaMemory::new(Arc::clone(&block.region), block.offset, length, address)?;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(block);
        Ok(memory)
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
        let slot = self.pins.lock().free.pop().ok_or_else(out_of_memory)?;
        let mut block = Block {
            pins: Arc::clone(&self.pins),
            slot,
            region: Arc::new(region),
            offset,
            size,
            extents: Vec::new(),
        };
        block.populate()?;
        self.pins.register(slot, &block)?;
        block.extents = self.pins.extents(&block)?;
        Ok(block)
    }
}

impl Pins {
    /// No code panics while it holds the lock, so what a poisoned one guards is whole.
    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, slot: u32, block: &Block) -> Result<(), TransportError> {
        let buffer = libc::iovec { iov_base: block.start().cast(), iov_len: block.size };
        self.update(slot, buffer).map_err(|error| {
            TransportError::Io("cannot pin guest memory; is `ulimit -l` large enough?", error)
        })
    }

    fn update(&self, slot: u32, buffer: libc::iovec) -> io::Result<()> {
        // SAFETY: the kernel only takes references to the pages of the buffer, which is a block's
        // mapping or empty; nobody ever submits an operation to the ring, so nothing is read or
        // written through it.
        #[expect(unsafe_code, reason = "registered buffers are passed by address")]
        unsafe {
            self.lock().ring.submitter().register_buffers_update(slot, &[buffer], None)
        }
    }

    /// Where a block's pages are in the guest's physical memory.
    fn extents(&self, block: &Block) -> Result<Vec<Extent>, TransportError> {
        let failed = |error| TransportError::Io("cannot read /proc/self/pagemap", error);
        let first = block.start() as u64 / PAGE_SIZE;
        let mut entries = vec![0; block.size / PAGE_SIZE as usize * size_of::<u64>()];
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

/// Some pinned memory.
struct Block {
    pins: Arc<Pins>,
    slot: u32,
    region: Arc<MmapRegion>,
    offset: usize,
    size: usize,
    extents: Vec<Extent>,
}

impl Block {
    fn start(&self) -> *mut u8 {
        self.region.as_ptr().wrapping_add(self.offset)
    }

    /// Makes the pages, zeroed, in huge pages where there are any, and keeps them from being
    /// copied when the process forks.
    fn populate(&self) -> Result<(), TransportError> {
        let advise = |advice| {
            // SAFETY: the range is the block's part of its own mapping. None of the advices takes
            // bytes away or changes them: untouched pages of a new mapping are zero before and
            // after.
            #[expect(unsafe_code, reason = "advice is given by address")]
            unsafe {
                madvise(self.start().cast(), self.size, advice)
            }
        };
        // A kernel without huge pages refuses; the memory then has more extents.
        let _ = advise(Advice::LinuxHugepage);
        advise(Advice::LinuxDontFork)
            .and_then(|()| advise(Advice::LinuxPopulateWrite))
            .map_err(|error| TransportError::Io("cannot get guest memory", error.into()))
    }
}

impl SystemMemory for Block {
    fn region(&self) -> &Arc<MmapRegion> {
        &self.region
    }

    fn offset(&self) -> usize {
        self.offset
    }

    fn len(&self) -> usize {
        self.size
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // The mapping goes when the pages are no longer pinned. The kernel does not refuse to
        // unpin; if it did, the slot would not be free.
        if self.pins.update(self.slot, nothing).is_ok() {
            self.pins.lock().free.push(self.slot);
        }
    }
}
