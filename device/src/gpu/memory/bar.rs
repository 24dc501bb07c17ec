// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memory behind one guest's BAR, and the areas of the BAR that the guest keeps in its own memory.
//!
//! The memory is a sealed memfd. The guest's VMM receives the file and maps it; the engines use the mapping made
//! here. The seals prevent the VMM from truncating the file under the engines, which would raise SIGBUS for all
//! guests.

use super::address_map::{AddressMap, Mapping, Place};
use super::process_bar::{BarWord, ProcessBars};
use super::region::Region;
use super::words::{Words, word_at};
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{PhysicalPage, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{
    AreaKind, BarLayout, FENCE_STRIDE, STATUS_STRIDE, doorbell_word_offset,
};
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use bellhop_protocol::handoff::doorbell_line::LINE_WORDS;
use bellhop_protocol::handoff::publication;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};
use zerocopy::IntoBytes;

/// The page that a logical doorbell shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// The guest's dummy page, which no engine watches.
    Dummy,
    /// The guest's own page for this physical doorbell.
    Physical(u32),
}

/// One guest's mapped BAR.
#[derive(Debug)]
pub struct Bar {
    file: Arc<File>,
    region: Region,
    layout: BarLayout,
    /// Number of physical doorbells with a page after the BAR, in the file only.
    physical_pages: u32,
    doorbells: Area,
    last_queued: Area,
    status: Area,
    fences: Area,
    /// What is in BARs of processes' own instead.
    processes: ProcessBars,
}

/// The words of a doorbell.
#[derive(Debug)]
pub struct BarDoorbell<'a> {
    doorbell: BarWord<'a>,
    status: BarWord<'a>,
}

impl BarDoorbell<'_> {
    /// The words.
    #[inline]
    pub fn words(&self) -> DoorbellWords<'_> {
        DoorbellWords::new(&self.doorbell, &self.status)
    }
}

/// An area that engines access.
#[derive(Debug)]
struct Area {
    /// Offset in the BAR, so that engines need not compute the layout again.
    offset: u64,
    /// The guest's own memory, if the area was donated.
    donated: OnceLock<DonatedArea>,
}

/// The place of an area in the guest's memory.
#[derive(Debug)]
struct DonatedArea {
    /// Keeps the memory mapped, even after the guest has lost it.
    memory: Arc<AddressMap>,
    pages: Box<[Place]>,
}

impl DonatedArea {
    #[inline]
    fn word(&self, offset: u64) -> Option<&AtomicU64> {
        self.memory.word(self.place(offset)?)
    }

    /// `count` words, all in one page.
    fn words(&self, offset: u64, count: usize) -> Option<Words> {
        self.memory.words(self.place(offset)?, count)
    }

    #[inline]
    fn place(&self, offset: u64) -> Option<Place> {
        let page = self.pages.get(usize::try_from(offset / PAGE_SIZE).ok()?)?;
        Some(page.plus(offset % PAGE_SIZE))
    }
}

impl Bar {
    /// Allocates the memory and writes the header page. If doorbell pages are to be moved, the file contains, after
    /// the BAR, a dummy page and a page per physical doorbell. They belong to the guest: no other guest ever sees
    /// its late or leftover stores.
    ///
    /// # Errors
    /// If the operating system has no memory.
    pub fn new(layout: BarLayout, physical_pages: u32) -> io::Result<Self> {
        let pages = if physical_pages == 0 { 0 } else { 1 + u64::from(physical_pages) };
        let size = layout.bar_size() + pages * PAGE_SIZE;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("bellhop-bar", flags)?);
        file.set_len(size)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let file = Arc::new(file);
        let size = usize::try_from(size).map_err(io::Error::other)?;
        let region = MmapRegion::from_file(FileOffset::from_arc(Arc::clone(&file), 0), size)
            .map_err(io::Error::other)?;
        let area = |area: bellhop_protocol::bar::Area| Area {
            offset: area.offset,
            donated: OnceLock::new(),
        };
        let [doorbells, last_queued, status, fences, _] = layout.areas().map(area);
        let (region, processes) = (Region::from(region), ProcessBars::new(&layout));
        let bar = Self {
            file,
            region,
            layout,
            physical_pages,
            doorbells,
            last_queued,
            status,
            fences,
            processes,
        };
        bar.write_header()?;
        Ok(bar)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "before the guest has its BAR, which nobody else has yet"
    )]
    fn write_header(&self) -> io::Result<()> {
        let header = self.layout.header();
        let (magic, rest) = header.as_bytes().split_at(size_of_val(&header.magic));
        self.region.as_volatile_slice().write_slice(rest, magic.len()).map_err(io::Error::other)?;
        // Last, and releasing the rest: a guest that reads the magic reads a complete header.
        let word = self.word(0).ok_or(io::ErrorKind::InvalidInput)?;
        publication::publish(word, header.magic);
        Ok(())
    }

    /// The file, to send to the VMM.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// What is in BARs of processes' own.
    pub fn processes(&self) -> &ProcessBars {
        &self.processes
    }

    /// Local memory, as engines access it.
    pub fn local_memory(&self) -> Mapping {
        Mapping {
            region: self.region.clone(),
            base: self.layout.local_memory(),
            start: 0,
            length: self.layout.local_memory,
        }
    }

    /// Puts an area into the guest's own memory, once and before any use. Returns false if the guest has no memory
    /// there, or if the area cannot be moved.
    pub fn donate(&self, kind: AreaKind, memory: Arc<AddressMap>, extents: &[Extent]) -> bool {
        let area = match kind {
            AreaKind::DOORBELLS => &self.doorbells,
            AreaKind::PROGRESS => &self.last_queued,
            AreaKind::STATUS => &self.status,
            AreaKind::FENCES => &self.fences,
            _ => return false,
        };
        let pages: Option<Box<[Place]>> = extents
            .iter()
            .flat_map(|extent| {
                (0..extent.length)
                    .step_by(PAGE_SIZE as usize)
                    .map(move |offset| extent.address.saturating_add(offset))
            })
            .map(|address| {
                let page = PhysicalPage { segment: Segment::System, address };
                memory.locate(page, PageSize::Small)
            })
            .collect();
        pages.is_some_and(|pages| area.donated.set(DonatedArea { memory, pages }).is_ok())
    }

    /// The word at an offset of an area.
    #[inline]
    fn area_word<'a>(&'a self, area: &'a Area, offset: u64) -> Option<&'a AtomicU64> {
        match area.donated.get() {
            None => self.word(area.offset + offset),
            Some(donated) => donated.word(offset),
        }
    }

    /// `count` words from an offset of an area on, all in one page, for a caller that keeps them.
    fn area_words(&self, area: &Area, offset: u64, count: usize) -> Option<Words> {
        match area.donated.get() {
            None => Words::new(self.region.clone(), area.offset + offset, count),
            Some(donated) => donated.words(offset, count),
        }
    }

    /// The word at an offset; `None` if it is not a word of the BAR.
    #[inline]
    fn word(&self, offset: u64) -> Option<&AtomicU64> {
        word_at(&self.region, offset)
    }

    /// The doorbell word of `slot`.
    #[inline]
    pub fn doorbell_word(&self, slot: u32) -> Option<BarWord<'_>> {
        if slot >= self.layout.doorbell_count {
            return None;
        }
        if let Some(own) = self.processes.doorbell_line(slot) {
            return Some(BarWord::Process(own));
        }
        let offset = u64::from(slot) * PAGE_SIZE + doorbell_word_offset(slot);
        self.area_word(&self.doorbells, offset).map(BarWord::Guest)
    }

    /// Offset in the file of a page that doorbells can show; `None` if there is no such page.
    pub fn doorbell_page(&self, page: Page) -> Option<u64> {
        let behind = match page {
            Page::Dummy if self.physical_pages > 0 => 0,
            Page::Physical(doorbell) if doorbell < self.physical_pages => 1 + u64::from(doorbell),
            _ => return None,
        };
        Some(self.layout.bar_size() + behind * PAGE_SIZE)
    }

    /// The word that `slot` rings while its page shows a physical doorbell.
    #[inline]
    pub fn physical_word(&self, doorbell: u32, slot: u32) -> Option<&AtomicU64> {
        let page = self.doorbell_page(Page::Physical(doorbell))?;
        self.word(page + doorbell_word_offset(slot))
    }

    /// The number of doorbells.
    pub fn doorbell_count(&self) -> u32 {
        self.layout.doorbell_count
    }

    /// Returns whether doorbells are in the BAR rather than in the guest's own memory.
    pub fn has_doorbells(&self) -> bool {
        self.doorbells.donated.get().is_none()
    }

    /// The doorbell and the status word of `slot`.
    #[inline]
    pub fn doorbell(&self, slot: u32) -> Option<BarDoorbell<'_>> {
        let doorbell = self.doorbell_word(slot)?;
        let status = match self.processes.status(slot) {
            Some(own) => BarWord::Process(own),
            None => BarWord::Guest(self.area_word(&self.status, u64::from(slot) * STATUS_STRIDE)?),
        };
        Some(BarDoorbell { doorbell, status })
    }

    /// The line of the doorbell of `slot`, which begins with the doorbell word.
    pub fn doorbell_line(&self, slot: u32) -> Option<Words> {
        if slot >= self.layout.doorbell_count {
            return None;
        }
        let own = self.processes.doorbell_line(slot);
        let offset = u64::from(slot) * PAGE_SIZE + doorbell_word_offset(slot);
        own.or_else(|| self.area_words(&self.doorbells, offset, LINE_WORDS))
    }

    /// The line of the doorbell and the status word of `slot`, for an engine that keeps them.
    pub fn doorbell_to_watch(&self, slot: u32) -> Option<(Words, Words)> {
        let line = self.doorbell_line(slot)?;
        let own = self.processes.status(slot);
        let status =
            own.or_else(|| self.area_words(&self.status, u64::from(slot) * STATUS_STRIDE, 1))?;
        Some((line, status))
    }

    /// The last-queued value of `slot`.
    pub fn last_queued(&self, slot: u32) -> Option<BarWord<'_>> {
        if slot >= self.layout.doorbell_count {
            return None;
        }
        if let Some(own) = self.processes.last_queued(slot) {
            return Some(BarWord::Process(own));
        }
        self.area_word(&self.last_queued, u64::from(slot) * STATUS_STRIDE).map(BarWord::Guest)
    }

    /// The published CurrentValue of fence `slot`.
    #[inline]
    pub fn fence(&self, slot: u32) -> Option<BarWord<'_>> {
        if slot >= self.layout.fence_count {
            return None;
        }
        if let Some(own) = self.processes.fence(slot) {
            return Some(BarWord::Process(own));
        }
        self.area_word(&self.fences, u64::from(slot) * FENCE_STRIDE).map(BarWord::Guest)
    }

    /// The word at `offset` of local memory.
    pub fn local_word(&self, offset: u64) -> Option<&AtomicU64> {
        if offset >= self.layout.local_memory {
            return None;
        }
        self.word(self.layout.local_memory().checked_add(offset)?)
    }

    /// Zeroes a range of local memory and frees its pages.
    ///
    /// # Errors
    /// If the range is not in local memory, or the operating system refuses.
    #[expect(
        clippy::disallowed_methods,
        reason = "the hand, which the control plane gives up when it stands"
    )]
    pub fn zero_local_memory(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.checked_add(length).ok_or(io::ErrorKind::InvalidInput)?;
        if end > self.layout.local_memory {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if length == 0 {
            return Ok(());
        }
        let start = self.layout.local_memory() + offset;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, flags, start, length)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cross_memory::CrossAdapterMemory;
    use super::super::host_memory::HostMemory;
    use super::*;
    use bellhop_host_kmd::hardware::SegmentSizes;
    use bellhop_protocol::bar::BarHeader;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering;
    use vm_memory::{GuestAddress, GuestMemoryMmap};
    use zerocopy::FromBytes;

    const LAYOUT: BarLayout =
        BarLayout { doorbell_count: 4, fence_count: 4, local_memory: 1 << 16 };

    #[test]
    fn a_mapping_of_the_file_shows_the_header() {
        let bar = Bar::new(LAYOUT, 0).unwrap();
        let mut bytes = [0; size_of::<BarHeader>()];
        bar.file().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(BarHeader::read_from_bytes(&bytes).unwrap(), LAYOUT.header());
        assert_eq!(bar.file().metadata().unwrap().len(), LAYOUT.bar_size());
    }

    #[test]
    fn pages_to_show_are_behind_the_bar_and_each_its_own() {
        assert_eq!(Bar::new(LAYOUT, 0).unwrap().doorbell_page(Page::Dummy), None);
        let bar = Bar::new(LAYOUT, 2).unwrap();
        let pages = [Page::Dummy, Page::Physical(0), Page::Physical(1), Page::Physical(2)];
        let offsets = pages.map(|page| bar.doorbell_page(page));
        let at = |page| Some(LAYOUT.bar_size() + page * PAGE_SIZE);
        assert_eq!(offsets, [at(0), at(1), at(2), None]);
        assert_eq!(bar.file().metadata().unwrap().len(), at(3).unwrap());
        bar.physical_word(1, 3).unwrap().store(7, Ordering::Relaxed);
        let mut bytes = [0; 8];
        let offset = at(2).unwrap() + doorbell_word_offset(3);
        bar.file().read_exact_at(&mut bytes, offset).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 7);
        assert!(bar.physical_word(2, 0).is_none());
    }

    #[test]
    fn the_file_cannot_change_its_size() {
        let bar = Bar::new(LAYOUT, 0).unwrap();
        assert!(bar.file().set_len(4096).is_err());
        assert!(bar.file().set_len(LAYOUT.bar_size() * 2).is_err());
    }

    #[test]
    fn words_are_where_the_layout_says_and_nowhere_else() {
        let bar = Bar::new(LAYOUT, 0).unwrap();
        for (word, offset) in [
            (bar.doorbell_word(3), LAYOUT.doorbell(3)),
            (bar.last_queued(3), LAYOUT.last_queued(3)),
            (bar.fence(3), LAYOUT.fence(3)),
            (bar.local_word(8).map(BarWord::Guest), LAYOUT.local_memory() + 8),
        ] {
            word.unwrap().store(offset, Ordering::Relaxed);
            let mut bytes = [0; 8];
            bar.file().read_exact_at(&mut bytes, offset).unwrap();
            assert_eq!(u64::from_le_bytes(bytes), offset);
        }
        assert!(bar.doorbell_word(4).is_none());
        assert!(bar.doorbell(4).is_none());
        assert!(bar.last_queued(4).is_none());
        assert!(bar.fence(4).is_none());
        assert!(bar.local_word(1 << 16).is_none());
        assert!(bar.local_word(4).is_none());
    }

    #[test]
    fn an_area_in_the_guests_memory_is_where_its_pages_are_and_nowhere_else() {
        let bar = Bar::new(LAYOUT, 0).unwrap();
        let guest = GuestMemoryMmap::from_ranges(&[(GuestAddress(0x8000), 0x10000)]).unwrap();
        let host = HostMemory::new(SegmentSizes::default(), 4).unwrap();
        let shared = CrossAdapterMemory::new(0).unwrap().mapping();
        let host = host.mappings(bar.local_memory(), shared);
        let map = Arc::new(AddressMap::new(host, &guest));
        let extent = |address, pages| Extent { address, length: pages * PAGE_SIZE };
        let outside = [extent(0x8000, 3), extent(0x18000, 1)];
        assert!(!bar.donate(AreaKind::DOORBELLS, Arc::clone(&map), &outside));
        let pages = [extent(0xc000, 1), extent(0x9000, 2), extent(0x8000, 1)];
        assert!(bar.donate(AreaKind::DOORBELLS, Arc::clone(&map), &pages));
        assert!(!bar.donate(AreaKind::DOORBELLS, Arc::clone(&map), &pages));
        assert!(!bar.donate(AreaKind::LOCAL_MEMORY, map, &pages));
        for (slot, page) in [(0, 0xc000), (1, 0x9000), (2, 0xa000), (3, 0x8000)] {
            bar.doorbell_word(slot).unwrap().store(u64::from(slot) + 7, Ordering::Release);
            let address = GuestAddress(page + doorbell_word_offset(slot));
            let word: u64 = guest.load(address, Ordering::Acquire).unwrap();
            assert_eq!(word, u64::from(slot) + 7);
        }
        assert!(bar.doorbell_word(4).is_none());
        let mut bytes = [1; 8];
        bar.file().read_exact_at(&mut bytes, LAYOUT.doorbell(3)).unwrap();
        assert_eq!(bytes, [0; 8]);
    }

    #[test]
    fn zeroing_local_memory_zeroes_its_range_and_no_other_byte() {
        let bar = Bar::new(LAYOUT, 0).unwrap();
        for offset in (0..LAYOUT.local_memory).step_by(8) {
            bar.local_word(offset).unwrap().store(u64::MAX, Ordering::Relaxed);
        }
        bar.zero_local_memory(0x1008, 0x2000).unwrap();
        for offset in (0..LAYOUT.local_memory).step_by(8) {
            let zeroed = (0x1008..0x3008).contains(&offset);
            let expected = if zeroed { 0 } else { u64::MAX };
            assert_eq!(bar.local_word(offset).unwrap().load(Ordering::Relaxed), expected);
        }
        assert!(bar.zero_local_memory(0xf000, 0x1001).is_err());
        assert!(bar.zero_local_memory(u64::MAX, 2).is_err());
    }
}
