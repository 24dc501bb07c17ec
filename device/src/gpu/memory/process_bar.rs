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
