// SPDX-License-Identifier: MIT OR Apache-2.0

//! BARs of processes' own, in the guest's memory.
//!
//! A doorbell or a fence has a slot in the guest's BAR, whichever process has it. While the process has a BAR of its own, that
//! slot is placed there. Engines keep the words of doorbells that they watch, and the control plane places a slot before an
//! engine learns of it and takes it back when engines have forgotten it.

use super::address_map::AddressMap;
use super::words::Words;
use arc_swap::ArcSwapOption;
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{PhysicalPage, ProcessBarId, ProcessBarPlace, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::handoff::doorbell_line::LINE_WORDS;
use bellhop_protocol::handoff::publication;
use bellhop_protocol::handoff::words::{WORD, store};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use zerocopy::IntoBytes;

/// A word of a BAR: of the guest's, or of a process's, whose memory stays mapped while this exists.
#[derive(Debug)]
pub enum BarWord<'a> {
    /// In the guest's BAR, or in an area that the guest donated.
    Guest(&'a AtomicU64),
    /// In a process's own BAR.
    Process(Words),
}

impl Deref for BarWord<'_> {
    type Target = AtomicU64;

    #[inline]
    fn deref(&self) -> &AtomicU64 {
        match self {
            Self::Guest(word) => word,
            Self::Process(words) => words.first(),
        }
    }
}

/// One BAR.
#[derive(Debug)]
struct ProcessBar {
    layout: BarLayout,
    /// Its pages, in order.
    pages: Box<[Words]>,
}

impl ProcessBar {
    fn new(layout: BarLayout, memory: &AddressMap, extents: &[Extent]) -> Option<Self> {
        let addresses = extents.iter().flat_map(|extent| {
            let pages = (0..extent.length).step_by(PAGE_SIZE as usize);
            pages.map(move |offset| extent.address.saturating_add(offset))
        });
        let words = |address| {
            let page = PhysicalPage { segment: Segment::System, address };
            memory.words(memory.locate(page, PageSize::Small)?, PAGE_SIZE as usize / WORD)
        };
        let pages = addresses.map(words).collect::<Option<Box<_>>>()?;
        (pages.len() as u64 * PAGE_SIZE == layout.end()).then_some(Self { layout, pages })
    }

    /// Writes the header, the magic last: a process that reads the magic reads a complete header.
    fn write_header(&self) {
        let Some(page) = self.pages.first().map(Words::get) else { return };
        let header = self.layout.header();
        let (magic, rest) = header.as_bytes().split_at(size_of_val(&header.magic));
        if let (Some(first), Some(words)) = (page.first(), page.get(magic.len() / WORD..)) {
            store(words, rest.as_chunks().0);
            publication::publish(first, header.magic);
        }
    }

    /// `count` words at an offset, all in one page.
    fn words(&self, offset: u64, count: usize) -> Option<Words> {
        let page = self.pages.get(usize::try_from(offset / PAGE_SIZE).ok()?)?;
        page.part((offset % PAGE_SIZE) as usize / WORD, count)
    }
}

/// Where a slot is.
#[derive(Debug)]
struct Placed {
    bar: Arc<ProcessBar>,
    index: u32,
}

/// The slots of one kind, each with its place in a process's BAR if it has one.
type Slots = Box<[ArcSwapOption<Placed>]>;

/// The BARs of a guest's processes.
#[derive(Debug)]
pub struct ProcessBars {
    doorbell_count: u32,
    fence_count: u32,
    /// By number. The control plane alone looks at them.
    bars: Mutex<HashMap<ProcessBarId, Arc<ProcessBar>>>,
    /// Made with the first BAR: most guests have none.
    doorbells: OnceLock<Slots>,
    fences: OnceLock<Slots>,
}

/// Makes so many slots without a place.
fn slots(count: u32) -> Slots {
    (0..count).map(|_| ArcSwapOption::empty()).collect()
}

impl ProcessBars {
    /// No BARs, in a guest with a BAR of this layout.
    pub fn new(layout: &BarLayout) -> Self {
        Self {
            doorbell_count: layout.doorbell_count,
            fence_count: layout.fence_count,
            bars: Mutex::default(),
            doorbells: OnceLock::new(),
            fences: OnceLock::new(),
        }
    }

    /// Locks the BARs. No code panics while it holds the lock, so the map behind a poisoned lock is consistent.
    #[expect(
        clippy::disallowed_methods,
        reason = "a lock that the control plane and its hand alone take"
    )]
    fn lock(&self) -> MutexGuard<'_, HashMap<ProcessBarId, Arc<ProcessBar>>> {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a BAR and writes its header. Returns false if the guest does not have that memory.
    pub fn add(
        &self,
        id: ProcessBarId,
        layout: BarLayout,
        memory: &AddressMap,
        extents: &[Extent],
    ) -> bool {
        let Some(bar) = ProcessBar::new(layout, memory, extents) else { return false };
        bar.write_header();
        self.lock().insert(id, Arc::new(bar));
        true
    }

    /// Forgets a BAR.
    pub fn remove(&self, id: ProcessBarId) {
        self.lock().remove(&id);
    }

    /// Places a doorbell slot, or takes it back. Returns false if the slot or the place does not exist.
    pub fn place_doorbell(&self, slot: u32, place: Option<ProcessBarPlace>) -> bool {
        self.place(self.doorbells.get_or_init(|| slots(self.doorbell_count)), slot, place)
    }

    /// Places a fence slot, or takes it back. Returns false if the slot or the place does not exist.
    pub fn place_fence(&self, slot: u32, place: Option<ProcessBarPlace>) -> bool {
        self.place(self.fences.get_or_init(|| slots(self.fence_count)), slot, place)
    }

    fn place(&self, slots: &Slots, slot: u32, place: Option<ProcessBarPlace>) -> bool {
        let Some(slot) = slots.get(slot as usize) else { return false };
        let placed = match place {
            None => None,
            Some(ProcessBarPlace { bar, index }) => match self.lock().get(&bar) {
                Some(bar) => Some(Arc::new(Placed { bar: Arc::clone(bar), index })),
                None => return false,
            },
        };
        slot.store(placed);
        true
    }

    /// `count` words of a doorbell slot that is in a process's BAR, at the offset that the layout has for its index there.
    /// `None` if it is in the guest's BAR.
    #[inline]
    fn of_doorbell(
        &self,
        slot: u32,
        offset: impl FnOnce(&BarLayout, u32) -> u64,
        count: usize,
    ) -> Option<Words> {
        let placed = self.doorbells.get()?.get(slot as usize)?.load();
        let Placed { bar, index } = &**placed.as_ref()?;
        bar.words(offset(&bar.layout, *index), count)
    }

    /// The line of a doorbell.
    #[inline]
    pub fn doorbell_line(&self, slot: u32) -> Option<Words> {
        self.of_doorbell(slot, BarLayout::doorbell, LINE_WORDS)
    }

    /// The status word of a doorbell.
    #[inline]
    pub fn status(&self, slot: u32) -> Option<Words> {
        self.of_doorbell(slot, BarLayout::status, 1)
    }

    /// The last-queued value of a doorbell.
    #[inline]
    pub fn last_queued(&self, slot: u32) -> Option<Words> {
        self.of_doorbell(slot, BarLayout::last_queued, 1)
    }

    /// The published value of a fence slot that is in a process's BAR.
    #[inline]
    pub fn fence(&self, slot: u32) -> Option<Words> {
        let placed = self.fences.get()?.get(slot as usize)?.load();
        let Placed { bar, index } = &**placed.as_ref()?;
        bar.words(bar.layout.fence(*index), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bar::Bar;
    use super::super::cross_memory::CrossAdapterMemory;
    use super::super::host_memory::HostMemory;
    use super::*;
    use bellhop_host_kmd::hardware::SegmentSizes;
    use bellhop_protocol::bar::{BarHeader, doorbell_word_offset};
    use std::sync::atomic::Ordering;
    use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
    use zerocopy::FromBytes;

    const LAYOUT: BarLayout =
        BarLayout { doorbell_count: 100, fence_count: 100, local_memory: 1 << 16 };
    /// A header, two pages of doorbells, and a page for each other area.
    const OWN: BarLayout = BarLayout { doorbell_count: 2, fence_count: 3, local_memory: 0 };
    const ID: ProcessBarId = ProcessBarId(7);
    /// Where its pages are, in pieces: the header and the first doorbell, then the rest.
    const PIECES: [Extent; 2] = [
        Extent { address: 0xc000, length: 2 * PAGE_SIZE },
        Extent { address: 0x8000, length: 4 * PAGE_SIZE },
    ];

    fn guest() -> (Bar, GuestMemoryMmap, AddressMap) {
        let bar = Bar::new(LAYOUT, 0).unwrap();
        let guest = GuestMemoryMmap::from_ranges(&[(GuestAddress(0x8000), 0x10000)]).unwrap();
        let host = HostMemory::new(SegmentSizes::default(), 4).unwrap();
        let shared = CrossAdapterMemory::new(0).unwrap().mapping();
        let map = AddressMap::new(host.mappings(bar.local_memory(), shared), &guest);
        (bar, guest, map)
    }

    const fn place(index: u32) -> Option<ProcessBarPlace> {
        Some(ProcessBarPlace { bar: ID, index })
    }

    #[test]
    fn a_bar_begins_with_its_header_and_needs_memory_of_the_guest() {
        let (bar, guest, map) = guest();
        let outside = [Extent { address: 0x17000, length: OWN.end() }];
        assert!(!bar.processes().add(ID, OWN, &map, &outside));
        assert!(!bar.processes().place_fence(0, place(0)));
        assert!(bar.processes().add(ID, OWN, &map, &PIECES));
        let mut header = [0; size_of::<BarHeader>()];
        guest.read_slice(&mut header, GuestAddress(0xc000)).unwrap();
        assert_eq!(BarHeader::read_from_bytes(&header).unwrap(), OWN.header());
    }

    #[test]
    fn what_is_placed_in_it_is_in_the_guests_memory_and_what_is_taken_back_in_the_guests_bar() {
        let (bar, guest, map) = guest();
        assert!(bar.processes().add(ID, OWN, &map, &PIECES));
        // Of the guest's slots, 70 is the first in the process's BAR, and 71 stays.
        assert!(bar.processes().place_doorbell(70, place(0)));
        assert!(bar.processes().place_fence(80, place(2)));
        bar.doorbell_word(70).unwrap().store(1, Ordering::Relaxed);
        bar.doorbell_line(70).unwrap().get()[7].store(2, Ordering::Relaxed);
        bar.last_queued(70).unwrap().store(3, Ordering::Relaxed);
        bar.doorbell_to_watch(70).unwrap().1.first().store(4, Ordering::Relaxed);
        bar.fence(80).unwrap().store(5, Ordering::Relaxed);
        let word = |address| guest.load::<u64>(GuestAddress(address), Ordering::Relaxed).unwrap();
        let doorbell = 0xd000 + doorbell_word_offset(0);
        // Behind the second doorbell's page: last-queued values, statuses, fences.
        let seen = [doorbell, doorbell + 56, 0x9000, 0xa000, 0xb000 + 2 * 64].map(word);
        assert_eq!(seen, [1, 2, 3, 4, 5]);
        for slot in [71, 70] {
            assert_eq!(bar.processes().doorbell_line(slot).is_some(), slot == 70);
        }
        assert!(bar.processes().place_doorbell(70, None) && bar.processes().place_fence(80, None));
        let words = [bar.doorbell_word(70), bar.last_queued(70), bar.fence(80)];
        assert_eq!(words.map(|word| word.unwrap().load(Ordering::Relaxed)), [0; 3]);
    }

    #[test]
    fn places_that_do_not_exist_are_refused_and_words_outlive_their_bar() {
        let (bar, guest, map) = guest();
        assert!(bar.processes().add(ID, OWN, &map, &PIECES));
        assert!(!bar.processes().place_doorbell(100, place(0)));
        assert!(
            !bar.processes()
                .place_doorbell(0, Some(ProcessBarPlace { bar: ProcessBarId(8), index: 0 }))
        );
        assert!(bar.processes().place_fence(0, place(0)));
        let kept = bar.fence(0).unwrap();
        bar.processes().place_fence(0, None);
        bar.processes().remove(ID);
        drop(map);
        // An engine that looked it up before still has it.
        kept.store(9, Ordering::Relaxed);
        assert_eq!(guest.load::<u64>(GuestAddress(0xb000), Ordering::Relaxed).unwrap(), 9);
        assert!(!bar.processes().place_fence(0, place(0)));
    }
}
