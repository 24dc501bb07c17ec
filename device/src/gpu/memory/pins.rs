// SPDX-License-Identifier: MIT OR Apache-2.0

//! A queue's view of its guest's memory, and pins: the pages that it uses with every submission.
//!
//! A pin is a translation that the queue's engine caches beside its TLB, with the page's address in this process: a
//! few for each queue, so that no other queue evicts them and all of them fit a few cache lines. A pin is made only
//! of TLB contents, and each flush of the TLB revokes it: an advanced flush count of the guest before the queue's
//! next turn, a flush of the engine's whole TLB by the TLB's [epoch](super::tlb::Tlb::epoch), and `FLUSH_TLB`
//! immediately.

use super::address_map::{AddressMap, Place};
use super::prefetch::prefetch_line;
use bellhop_protocol::PAGE_SIZE;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Pins for pages of command buffers; a power of two.
const BUFFERS: usize = 8;
/// The number of no page.
const NO_PAGE: u64 = u64::MAX;

/// A queue's use of a page. Each use has its own pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The ring buffer control.
    Control,
    /// The ring.
    Ring,
    /// A buffer that the ring names.
    Buffer,
}

/// A page of a memory snapshot, in this process.
#[derive(Debug, Clone, Copy)]
pub struct HostPage<'a> {
    start: NonNull<u8>,
    memory: PhantomData<&'a AddressMap>,
}

impl<'a> HostPage<'a> {
    /// The word at the page offset of `address`, whichever page `address` is in.
    #[inline]
    pub fn word(self, address: u64) -> &'a AtomicU64 {
        const WORD: u64 = size_of::<AtomicU64>() as u64;
        let offset = address % PAGE_SIZE / WORD * WORD;
        #[expect(unsafe_code, reason = "no library lends words of a page without looking them up")]
        // SAFETY: `start` is the start of a whole page in a mapping of the snapshot, as `Pin::new` ensures, and the
        // snapshot is borrowed for `'a`. The offset is a multiple of a word's size below the page's, and `Pin::new`
        // has checked that `start` is aligned. Any bytes are a valid `AtomicU64`, and this process has only atomic
        // references to them, as in `words::word_at`.
        unsafe {
            self.start.add(offset as usize).cast().as_ref()
        }
    }
}

impl HostPage<'_> {
    /// Prefetches the cache line at the page offset of `address`, whichever page `address` is in.
    #[inline]
    pub fn prefetch(self, address: u64) {
        prefetch_line(std::ptr::from_ref(self.word(address)).cast());
    }
}

/// A cached page.
#[derive(Debug, Clone, Copy)]
struct Pin {
    /// GPU virtual page number.
    page: u64,
    /// The page's first byte, in the snapshot of the pin's [`View`].
    start: NonNull<u8>,
    writable: bool,
}

#[expect(unsafe_code, reason = "a pointer says of itself nothing about threads")]
// SAFETY: a pin moves together with its `View`, and so with the snapshot that keeps the page mapped. Any thread may
// use it: all access is through atomics.
unsafe impl Send for Pin {}

impl Pin {
    const NONE: Self = Self { page: NO_PAGE, start: NonNull::dangling(), writable: false };

    /// Pins a page of `memory`, if it is mapped as a whole and aligned to words.
    fn new(memory: &AddressMap, page: u64, place: Place, writable: bool) -> Option<Self> {
        let bytes = memory.slice(place, PAGE_SIZE as usize)?;
        // Reads and writes both go through atomics, and the mapping allows both.
        let start = NonNull::new(bytes.ptr_guard_mut().as_ptr())?;
        start.cast::<AtomicU64>().is_aligned().then_some(Self { page, start, writable })
    }
}

/// The pins of one queue.
#[derive(Debug)]
struct Pins {
    /// The TLB's epoch when the pins were made.
    epoch: u64,
    control: Pin,
    ring: Pin,
    buffers: [Pin; BUFFERS],
}

impl Pins {
    const fn none() -> Self {
        Self { epoch: 0, control: Pin::NONE, ring: Pin::NONE, buffers: [Pin::NONE; BUFFERS] }
    }

    fn revoke(&mut self) {
        *self = Self { epoch: self.epoch, ..Self::none() };
    }

    #[inline]
    fn at(&self, what: Use, page: u64) -> &Pin {
        match what {
            Use::Control => &self.control,
            Use::Ring => &self.ring,
            Use::Buffer => &self.buffers[page as usize % BUFFERS],
        }
    }

    fn at_mut(&mut self, what: Use, page: u64) -> &mut Pin {
        match what {
            Use::Control => &mut self.control,
            Use::Ring => &mut self.ring,
            Use::Buffer => &mut self.buffers[page as usize % BUFFERS],
        }
    }
}

/// A queue's view of memory: a snapshot of its guest's memory, and the pins in it.
#[derive(Debug)]
pub struct View {
    memory: Arc<AddressMap>,
    flushes: u64,
    /// Pages of `memory`, never of an earlier snapshot.
    pins: Pins,
}

impl View {
    /// A view of a snapshot that is at least as new as this flush count of the guest.
    pub fn new(memory: Arc<AddressMap>, flushes: u64) -> Self {
        Self { memory, flushes, pins: Pins::none() }
    }

    /// The guest's flush count when the queue last accessed memory.
    #[inline]
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// Replaces the snapshot by a newer one and revokes all pins.
    #[cold]
    pub fn replace(&mut self, memory: Arc<AddressMap>, flushes: u64) {
        self.pins.revoke();
        (self.memory, self.flushes) = (memory, flushes);
    }

    /// Opens the view for an engine with its TLB in this epoch.
    #[inline]
    pub fn open(&mut self, epoch: u64) -> Pinned<'_> {
        if self.pins.epoch != epoch {
            self.pins.revoke();
            self.pins.epoch = epoch;
        }
        Pinned { memory: &self.memory, flushes: self.flushes, pins: &mut self.pins }
    }
}

/// A [`View`] in use by an engine.
#[derive(Debug)]
pub struct Pinned<'a> {
    memory: &'a AddressMap,
    flushes: u64,
    /// Pages of `memory`.
    pins: &'a mut Pins,
}

impl<'a> Pinned<'a> {
    /// The snapshot.
    #[inline]
    pub fn memory(&self) -> &'a AddressMap {
        self.memory
    }

    /// The guest's flush count that the snapshot is at least as new as.
    #[inline]
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// The page of an address, if it is pinned for this use, and writable if `writes`.
    #[inline]
    pub fn get(&self, what: Use, gpu_va: u64, writes: bool) -> Option<HostPage<'a>> {
        let page = gpu_va / PAGE_SIZE;
        let pin = self.pins.at(what, page);
        (pin.page == page && (pin.writable || !writes))
            .then_some(HostPage { start: pin.start, memory: PhantomData })
    }

    /// Pins the page of an address, which the TLB has at this place; `None` if words cannot be read from the page.
    pub fn pin(
        &mut self,
        what: Use,
        gpu_va: u64,
        place: Place,
        writable: bool,
    ) -> Option<HostPage<'a>> {
        let page = gpu_va / PAGE_SIZE;
        let pin = Pin::new(self.memory, page, place, writable)?;
        *self.pins.at_mut(what, page) = pin;
        Some(HostPage { start: pin.start, memory: PhantomData })
    }

    /// Revokes all pins.
    pub fn revoke(&mut self) {
        self.pins.revoke();
    }

    /// Prefetches the cache line of an address, if its page is pinned for this use.
    #[inline]
    pub fn prefetch(&self, what: Use, gpu_va: u64) {
        if let Some(page) = self.get(what, gpu_va, false) {
            prefetch_line(page.word(gpu_va).as_ptr().cast());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::address_map::HostMappings;
    use super::super::address_map::Mapping;
    use super::super::region::Region;
    use super::*;
    use bellhop_host_kmd::ddi::paging::PageSize;
    use bellhop_host_kmd::hardware::{PhysicalPage, Segment};
    use std::sync::atomic::Ordering;
    use vm_memory::{GuestMemoryMmap, MmapRegion};

    const USES: [Use; 3] = [Use::Control, Use::Ring, Use::Buffer];

    /// Local memory of four pages with words numbered from `first` on.
    fn memory(first: u64) -> Arc<AddressMap> {
        let region = Region::from(MmapRegion::new(0x4000).unwrap());
        let length = 0x4000;
        let local = Mapping { region: region.clone(), base: 0, start: 0, length };
        let none = || Mapping { region: region.clone(), base: 0, start: 0, length: 0 };
        let [private, backing, fences, cross_adapter, buffers] = std::array::from_fn(|_| none());
        let private_end = std::sync::Arc::default();
        let host =
            HostMappings { local, private, backing, fences, cross_adapter, buffers, private_end };
        let map = AddressMap::new(host, &GuestMemoryMmap::new());
        for word in 0..0x4000 / 8 {
            let place = place(&map, 0).plus(word * 8);
            map.word(place).unwrap().store(first + word, Ordering::Relaxed);
        }
        Arc::new(map)
    }

    fn place(map: &AddressMap, page: u64) -> Place {
        let page = PhysicalPage { segment: Segment::Local, address: page * PAGE_SIZE };
        map.locate(page, PageSize::Small).unwrap()
    }

    /// A view of such memory with page 2 pinned for each use, at this address.
    fn view(gpu_va: u64) -> View {
        let mut view = View::new(memory(0), 1);
        let mut pinned = view.open(1);
        for what in USES {
            let place = place(pinned.memory(), 2);
            pinned.pin(what, gpu_va, place, false).unwrap();
        }
        view
    }

    #[test]
    fn a_pin_is_its_page_for_its_use_and_no_other() {
        let mut view = View::new(memory(0), 1);
        let mut pinned = view.open(1);
        let at = 0x7000_2000;
        let (read_only, writable) = (place(pinned.memory(), 2), place(pinned.memory(), 3));
        assert!(pinned.get(Use::Ring, at, false).is_none());
        pinned.pin(Use::Ring, at + 8, read_only, false).unwrap();
        pinned.pin(Use::Buffer, at, writable, true).unwrap();
        let word =
            |page: Option<HostPage<'_>>, at| page.map(|page| page.word(at).load(Ordering::Relaxed));
        for offset in [0, 8, 0xff8] {
            let at = at + offset;
            assert_eq!(word(pinned.get(Use::Ring, at, false), at), Some((0x2000 + offset) / 8));
            assert_eq!(word(pinned.get(Use::Buffer, at, true), at), Some((0x3000 + offset) / 8));
            assert_eq!(word(pinned.get(Use::Ring, at, true), at), None, "it is read-only");
            assert_eq!(word(pinned.get(Use::Control, at, false), at), None);
            for other in [at - PAGE_SIZE, at + PAGE_SIZE, at + BUFFERS as u64 * PAGE_SIZE, u64::MAX]
            {
                assert_eq!(word(pinned.get(Use::Buffer, other, false), other), None, "{other:#x}");
            }
        }
        // Any address maps to some word in the page.
        let page = pinned.get(Use::Ring, at, false);
        assert_eq!([3, 0xfff, u64::MAX].map(|at| word(page, at)), [0x400, 0x5ff, 0x5ff].map(Some));
    }

    #[test]
    fn as_many_neighbouring_buffers_are_pinned_as_there_are_pins() {
        let mut view = View::new(memory(0), 1);
        let mut pinned = view.open(1);
        let place = place(pinned.memory(), 0);
        let pages = || (5..).map(|page| page * PAGE_SIZE).take(BUFFERS);
        for at in pages() {
            pinned.pin(Use::Buffer, at, place, false).unwrap();
        }
        assert!(pages().all(|at| pinned.get(Use::Buffer, at, false).is_some()));
    }

    #[test]
    fn every_flush_revokes_all_pins() {
        let at = 5 * PAGE_SIZE;
        let pinned = |view: &mut View, epoch| {
            let pinned = view.open(epoch);
            USES.map(|what| pinned.get(what, at, false).is_some())
        };
        assert_eq!(pinned(&mut view(at), 1), [true; 3]);
        // The TLB was flushed.
        assert_eq!(pinned(&mut view(at), 2), [false; 3]);
        // The guest's translations were flushed.
        let mut other = view(at);
        let (before, memory) = (Arc::downgrade(&other.memory), memory(0x1000));
        other.replace(memory, 2);
        assert_eq!((before.strong_count(), other.flushes()), (0, 2));
        assert_eq!(pinned(&mut other, 1), [false; 3]);
        // A packet flushes them.
        let mut other = view(at);
        other.open(1).revoke();
        assert_eq!(pinned(&mut other, 1), [false; 3]);
    }

    #[test]
    fn a_page_that_is_not_there_or_has_no_words_is_not_pinned() {
        let mut view = View::new(memory(0), 1);
        let mut pinned = view.open(1);
        let last = place(pinned.memory(), 3);
        for bad in [last.plus(PAGE_SIZE), last.plus(8), last.minus(4)] {
            assert!(pinned.pin(Use::Ring, 0, bad, true).is_none(), "{bad:?}");
            assert!(pinned.get(Use::Ring, 0, false).is_none());
        }
    }
}
