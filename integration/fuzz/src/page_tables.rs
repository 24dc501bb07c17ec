// SPDX-License-Identifier: MIT OR Apache-2.0

//! Page tables and GPU virtual addresses.

use crate::rig::{COMPUTE, Guest, LOCAL, PHYSICAL, SEGMENTS, SIZE, SYSTEM, eventually, quiesce};
use crate::stepped;
use arbitrary::Arbitrary;
use bellhop_device::gpu::{Gpu, GpuConfig};
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    AccessedBits as _, AddressSpaceId, HwContextId, HwQueueDescription, HwQueueId, Interrupt,
    Interrupts as _, KernelSubmission, PageTables as _, PhysicalPage, ProcessShare, Pte,
    Queues as _, Segment,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::transfer::{Copy, Fill};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use zerocopy::IntoBytes;

/// Pages of page-table memory, of which the guest can have a quarter.
const PAGES: u32 = 160;
/// Bits of a GPU virtual address.
const ADDRESS_BITS: u32 = 48;
/// The page that each address space keeps mapped: packets, and behind them the result.
const OWN: u64 = 0x7F00_0000_0000;
/// The place of that page in local memory.
const OWN_PLACE: u64 = SIZE - PAGE_SIZE;
const RESULT: u64 = 2048;
/// Bit 11 of an entry: the page is kept compressed, so memory does not hold the bytes as written.
const COMPRESSED: u64 = 1 << 11;

/// Most actions of one input.
const MOST: usize = 48;

/// A GPU virtual address.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Va {
    /// Near other addresses.
    Near(u8, u8, u16),
    /// In the last pages of the address space.
    Last(u8, u16),
    /// One bit.
    Bit(u8),
    /// Anything.
    Any(u64),
}

impl Va {
    fn get(self) -> u64 {
        // Borders of tables of each level, and beyond any table.
        const BASES: [u64; 8] = [
            0,
            (1 << 21) - 4 * PAGE_SIZE,
            (1 << 25) - (8 << 16),
            (1 << 30) - (8 << 16),
            (1 << 34) - (8 << 16),
            (1 << 39) - (8 << 16),
            (1 << 43) - (8 << 16),
            (1 << 48) - (8 << 16),
        ];
        match self {
            Self::Near(base, page, offset) => {
                let pages = u64::from(page) * PAGE_SIZE;
                BASES[usize::from(base % 8)] + pages + u64::from(offset) % PAGE_SIZE
            }
            Self::Last(page, offset) => {
                (1 << ADDRESS_BITS) - u64::from(page) * PAGE_SIZE + u64::from(offset)
            }
            Self::Bit(bit) => 1 << (bit % 64),
            Self::Any(address) => address,
        }
    }
}

/// A page-table entry to write.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Entry {
    Page {
        segment: u8,
        page: u16,
        writable: bool,
    },
    /// About the end of a segment.
    End {
        segment: u8,
        before: i8,
        writable: bool,
    },
    Raw(u64),
    Invalid,
}

impl Entry {
    fn get(self) -> Pte {
        let page = |segment: u8, address, writable| {
            let (segment, start, _) = segments()[usize::from(segment) % segments().len()];
            Pte::new(PhysicalPage { segment, address: start + address }, writable)
        };
        match self {
            Self::Page { segment, page: number, writable } => {
                page(segment, u64::from(number) * PAGE_SIZE, writable)
            }
            Self::End { segment, before, writable } => {
                let (.., length) = segments()[usize::from(segment) % segments().len()];
                let before = i64::from(before) * PAGE_SIZE as i64;
                page(segment, length.wrapping_add_signed(before), writable)
            }
            Self::Raw(bits) => Pte::from_bits(bits & !COMPRESSED),
            Self::Invalid => Pte::INVALID,
        }
    }
}

/// Segments of known size: first address and length.
fn segments() -> [(Segment, u64, u64); 4] {
    [
        (Segment::Local, 0, SIZE),
        (Segment::System, PHYSICAL, SIZE),
        (Segment::Private, 0, SEGMENTS.private),
        (Segment::Backing, 0, SEGMENTS.backing),
    ]
}

/// An action, in one of two address spaces.
#[derive(Debug, Arbitrary)]
enum Action {
    Map { space: bool, large: bool, va: Va, entries: [Entry; 2], count: u16 },
    Unmap { space: bool, large: bool, va: Va, count: u16 },
    Read { space: bool, va: Va },
    Write { space: bool, va: Va, pattern: u32 },
    Locate { space: bool, large: bool, va: Va, pages: u16, create: bool },
    TakeAccessed { space: bool, va: Va, pages: u16 },
    ForgetTranslations,
    Renew { space: bool },
}

/// Entries that were written one after another.
struct Update {
    size: PageSize,
    /// The number of the first page.
    first: u64,
    count: u64,
    /// Every second entry is the same, valid or not.
    entries: [Pte; 2],
}

impl Update {
    /// What it wrote for an address.
    fn entry(&self, va: u64) -> Option<Pte> {
        let page = (va / self.size.bytes()).checked_sub(self.first)?;
        (page < self.count).then(|| self.entries[page as usize % 2])
    }
}

/// The expected page tables of an address space.
#[derive(Default)]
struct Model {
    /// Oldest first.
    updates: Vec<Update>,
    /// Tables except the root for small pages: page size, level above, covered range.
    tables: BTreeSet<(usize, u32, u64)>,
}

/// Why an entry cannot be written.
#[derive(Debug, PartialEq, Eq)]
struct Full;

impl Model {
    /// Makes the tables for an address, while there is room.
    fn table(&mut self, va: u64, size: PageSize, room: &mut u32) -> Result<(), Full> {
        let (kind, bits) = (size as usize, size.bytes().trailing_zeros());
        let large_root = (size == PageSize::Large).then_some((kind, 4, 0));
        let below = (1..4).rev().map(|level| (kind, level, va >> (bits + level * 9)));
        for table in large_root.into_iter().chain(below) {
            if !self.tables.contains(&table) {
                *room = room.checked_sub(1).ok_or(Full)?;
                self.tables.insert(table);
            }
        }
        Ok(())
    }

    /// Writes `count` entries from an address on, until there is no room.
    fn update(
        &mut self,
        va: u64,
        size: PageSize,
        entries: [Pte; 2],
        count: u64,
        room: &mut u32,
    ) -> Result<(), Full> {
        let (first, table_bytes) = (va / size.bytes(), size.bytes() * 512);
        let (mut written, mut table) = (0, None);
        let outcome = (0..count).try_for_each(|page| {
            let at = va.saturating_add(page.saturating_mul(size.bytes()));
            if at >> ADDRESS_BITS != 0 {
                return Err(Full);
            }
            let is_new = table != Some(at / table_bytes);
            if is_new && entries[page as usize % 2] != Pte::INVALID {
                self.table(at, size, room)?;
                table = Some(at / table_bytes);
            }
            written += 1;
            Ok(())
        });
        self.updates.push(Update { size, first, count: written, entries });
        outcome
    }

    /// The entry that counts for an address.
    fn walk(&self, va: u64) -> (Pte, PageSize) {
        let entry = |size: PageSize| {
            let newest = self.updates.iter().rev().filter(|update| update.size == size);
            let entry = newest.map(|update| update.entry(va)).find(Option::is_some).flatten();
            (entry.unwrap_or_default(), size)
        };
        Some(entry(PageSize::Large))
            .filter(|(pte, _)| pte.page().is_some())
            .unwrap_or_else(|| entry(PageSize::Small))
    }
}

/// An address space with a queue in it.
struct Space {
    id: AddressSpaceId,
    queue: HwQueueId,
    model: Model,
}

/// A GPU with one permanent guest; its address spaces come and go.
struct Bench {
    guest: Guest,
    gpu: std::sync::Arc<Gpu>,
    progress_fence: u32,
    submitted: u64,
    /// Tables that the guest can have beside those of its permanent address space.
    room: u32,
}

impl Default for Bench {
    fn default() -> Self {
        let config = GpuConfig { copy_engines: 0, page_table_pages: PAGES, ..GpuConfig::default() };
        let gpu = stepped::start(config);
        let mut guest = Guest::attach(&gpu);
        let progress_fence = guest.fence(0);
        let mut bench = Self { guest, gpu, progress_fence, submitted: 0, room: 0 };
        bench.room = bench.count_room();
        bench
    }
}

/// The expected place of an access to 8 bytes, or its fault.
enum Expected {
    At(Segment, u64),
    Fault(FaultReason),
    /// The model does not know the segment's length.
    Either,
}

/// Entries hold anything, and addresses are arbitrary. Each access reaches the place that the page tables give, or
/// faults as they say; tables are made and run out exactly when they must, and all are given back.
pub fn page_tables(data: &[u8]) {
    thread_local! {
        static BENCH: RefCell<Bench> = RefCell::default();
    }
    BENCH.with_borrow_mut(|bench| play(data, bench));
}

fn play(data: &[u8], bench: &mut Bench) {
    let mut room = bench.room;
    let mut spaces = [(); 2].map(|()| bench.space(&mut room));
    // Contents that no CPU of the guest sees, by segment and address.
    let mut contents = HashMap::new();
    let mut is_flushed = true;
    for action in crate::actions(data, MOST) {
        match action {
            Action::Map { space, large, va, entries, count } => {
                let (entries, space) = (entries.map(Entry::get), &mut spaces[usize::from(space)]);
                bench.update(space, size(large), va.get(), entries, count, &mut room);
                is_flushed = false;
            }
            Action::Unmap { space, large, va, count } => {
                let (entries, space) = ([Pte::INVALID; 2], &mut spaces[usize::from(space)]);
                bench.update(space, size(large), va.get(), entries, count, &mut room);
                is_flushed = false;
            }
            Action::Read { space, va } => {
                bench.flush(&mut is_flushed);
                bench.read(&mut spaces[usize::from(space)], va.get() & !7, &contents);
            }
            Action::Write { space, va, pattern } => {
                bench.flush(&mut is_flushed);
                bench.write(&mut spaces[usize::from(space)], va.get() & !7, pattern, &mut contents);
            }
            Action::Locate { space, large, va, pages, create } => {
                let space = &mut spaces[usize::from(space)];
                bench.locate(space, size(large), va.get(), pages.into(), create, &mut room);
            }
            Action::TakeAccessed { space, va, pages } => {
                let (space, length) = (spaces[usize::from(space)].id, u64::from(pages) * PAGE_SIZE);
                bench.gpu.take_accessed(space, va.get() & !(PAGE_SIZE - 1), length).unwrap();
            }
            Action::ForgetTranslations => bench.gpu.forget_translations(),
            Action::Renew { space } => {
                let space = &mut spaces[usize::from(space)];
                room += bench.destroy(space);
                *space = bench.space(&mut room);
            }
        }
    }
    for space in &mut spaces {
        room += bench.destroy(space);
    }
    assert_eq!(room, bench.room, "the model lost a table");
    assert_eq!(bench.count_room(), bench.room, "a table was not given back");
    bench.gpu.take_interrupts();
}

fn size(is_large: bool) -> PageSize {
    if is_large { PageSize::Large } else { PageSize::Small }
}

impl Bench {
    /// Counts the tables that the guest can have, by making them.
    fn count_room(&self) -> u32 {
        let Ok(space) = self.gpu.create_address_space(self.guest.id) else { return 0 };
        let (va, size, pages) = (0, PageSize::Small, u64::from(PAGES) * 512);
        // It runs out of room on the way, and what it made stays.
        let all = self.gpu.locate_page_table(space, va, size, pages, true);
        assert!(all.is_err(), "more tables than there is memory");
        let found = self.gpu.locate_page_table(space, va, size, pages, false).unwrap();
        let tables = found.iter().filter(|range| range.address.is_some()).count() as u32;
        // Their two parents are the same, since they are next to each other; and the root.
        let made = if tables > 0 { tables + 3 } else { 1 };
        self.gpu.destroy_address_space(space).unwrap();
        made
    }

    fn space(&mut self, room: &mut u32) -> Space {
        let id = self.gpu.create_address_space(self.guest.id).unwrap();
        *room -= 1;
        let mut space = Space { id, queue: self.queue(id), model: Model::default() };
        let page = PhysicalPage { segment: Segment::Local, address: OWN_PLACE };
        let own = [Pte::new(page, true)];
        self.gpu.update_page_table(id, OWN, PageSize::Small, &own).unwrap();
        space.model.update(OWN, PageSize::Small, [own[0]; 2], 1, room).unwrap();
        space
    }

    /// Returns the number of tables that are freed.
    fn destroy(&mut self, space: &mut Space) -> u32 {
        self.gpu.destroy_hw_queue(space.queue).unwrap();
        quiesce(&self.gpu);
        self.gpu.destroy_address_space(space.id).unwrap();
        1 + std::mem::take(&mut space.model).tables.len() as u32
    }

    fn queue(&self, space: AddressSpaceId) -> HwQueueId {
        self.gpu
            .create_hw_queue(HwQueueDescription {
                guest: self.guest.id,
                context: HwContextId(0),
                address_space: space,
                // The owner of the progress fence.
                process: self.guest.space,
                share: ProcessShare::default(),
                node: COMPUTE,
                progress_fence: self.progress_fence,
                native_progress_fence: true,
                disable_gpu_timeout: false,
            })
            .unwrap()
    }

    fn flush(&self, is_flushed: &mut bool) {
        if !*is_flushed {
            quiesce(&self.gpu);
            *is_flushed = true;
        }
    }

    /// Writes `count` entries, every second of which is the same.
    fn update(
        &self,
        space: &mut Space,
        size: PageSize,
        va: u64,
        entries: [Pte; 2],
        count: u16,
        room: &mut u32,
    ) {
        let count = usize::from(count % 600) + 1;
        let reach = (count as u64).saturating_mul(size.bytes());
        let first = va & !(size.bytes() - 1);
        if first <= OWN && OWN < first.saturating_add(reach) {
            return;
        }
        let all: Vec<_> = entries.iter().cycle().copied().take(count).collect();
        let updated = self.gpu.update_page_table(space.id, va, size, &all);
        let expected = space.model.update(va, size, entries, count as u64, room);
        assert_eq!(updated.is_ok(), expected.is_ok(), "{va:#x}: {updated:?}");
    }

    fn locate(
        &self,
        space: &mut Space,
        size: PageSize,
        va: u64,
        pages: u64,
        create: bool,
        room: &mut u32,
    ) {
        let located = self.gpu.locate_page_table(space.id, va, size, pages, create);
        let (mut at, mut left, mut is_out) = (va, pages, false);
        while left > 0 && !is_out {
            is_out =
                at >> ADDRESS_BITS != 0 || create && space.model.table(at, size, room).is_err();
            let in_table = 512 - at / size.bytes() % 512;
            let now = in_table.min(left);
            at = at.saturating_add(now * size.bytes());
            left -= now;
        }
        assert_eq!(located.is_ok(), !is_out, "{va:#x}: {located:?}");
        let found = located.iter().flatten().map(|range| u64::from(range.entries)).sum::<u64>();
        assert!(is_out || found == pages);
        let end = u64::from(PAGES) * PAGE_SIZE;
        for range in located.iter().flatten() {
            let last = range.address.map(|address| address + u64::from(range.entries) * 8);
            assert!(last.is_none_or(|last| last <= end), "an entry outside of page-table memory");
        }
    }

    /// The expected result of an access to 8 bytes.
    fn expect(model: &Model, va: u64, writes: bool) -> Expected {
        if va.checked_add(8).is_none_or(|end| end > 1 << ADDRESS_BITS) {
            return Expected::Fault(FaultReason::ADDRESS_OUT_OF_RANGE);
        }
        let absent =
            if writes { FaultReason::WRITE_PAGE_FAULT } else { FaultReason::READ_PAGE_FAULT };
        let (pte, size) = model.walk(va);
        let Some(page) = pte.page() else { return Expected::Fault(absent) };
        let known = segments().into_iter().find(|(segment, ..)| *segment == page.segment);
        let Some((segment, start, length)) = known else { return Expected::Either };
        let offset = page.address.checked_sub(start);
        let end = offset.and_then(|offset| offset.checked_add(size.bytes()));
        if end.is_none_or(|end| end > length) {
            return Expected::Fault(absent);
        }
        if writes && !pte.is_writable() {
            return Expected::Fault(FaultReason::WRITE_PROTECTION_FAULT);
        }
        Expected::At(segment, page.address + va % size.bytes())
    }

    /// Executes a packet that accesses an address. Returns its fault.
    fn execute(&mut self, space: &mut Space, packet: &[u8]) -> Option<(FaultReason, u64)> {
        self.guest.write(LOCAL + OWN_PLACE, packet);
        self.submitted += 1;
        let submission = KernelSubmission {
            gpu_va: OWN,
            size: packet.len() as u32,
            progress_fence_value: self.submitted,
            submission_fence: self.submitted,
        };
        self.gpu.submit_kernel_mode(space.queue, submission).unwrap();
        self.gpu.kick(space.queue).unwrap();
        stepped::run();
        let mut fault = None;
        eventually("the end of a packet", || {
            self.gpu.take_interrupts().into_iter().any(|interrupt| match interrupt {
                Interrupt::DmaCompleted { fence, .. } => fence == self.submitted,
                Interrupt::PageFault { queue, fault: of }
                | Interrupt::HwQueueFault { queue, fault: of }
                    if queue == space.queue =>
                {
                    fault = Some((of.reason, of.address));
                    true
                }
                _ => false,
            })
        });
        if fault.is_some() {
            self.gpu.destroy_hw_queue(space.queue).unwrap();
            space.queue = self.queue(space.id);
        }
        fault
    }

    /// The 8 bytes at a place that the guest's CPU sees.
    fn look(&self, segment: Segment, address: u64) -> Option<[u8; 8]> {
        let va = match segment {
            Segment::Local => LOCAL + address,
            Segment::System => SYSTEM + address - PHYSICAL,
            _ => return None,
        };
        self.guest.read(va, 8).try_into().ok()
    }

    fn read(&mut self, space: &mut Space, va: u64, contents: &HashMap<(Segment, u64), [u8; 8]>) {
        let expected = Self::expect(&space.model, va, false);
        let place = match expected {
            Expected::At(segment, address) => Some((segment, address)),
            _ => None,
        };
        let packet = Copy::new(va, OWN + RESULT, 8);
        // The packet may read itself, or the place of its result.
        let is_own = place
            .is_some_and(|(segment, address)| segment == Segment::Local && address >= OWN_PLACE);
        let faulted = self.execute(space, packet.as_bytes());
        let seen: [u8; 8] = self.guest.read(LOCAL + OWN_PLACE + RESULT, 8).try_into().unwrap();
        match expected {
            Expected::Fault(reason) => assert_eq!(faulted, Some((reason, va))),
            Expected::At(segment, address) => {
                assert_eq!(faulted, None, "{va:#x} is {segment:?} {address:#x}");
                let known = self.look(segment, address);
                let known = known.or_else(|| contents.get(&(segment, address)).copied());
                assert!(
                    is_own || known.is_none_or(|known| known == seen),
                    "{va:#x} reads {seen:?}"
                );
            }
            Expected::Either => {}
        }
    }

    fn write(
        &mut self,
        space: &mut Space,
        va: u64,
        pattern: u32,
        contents: &mut HashMap<(Segment, u64), [u8; 8]>,
    ) {
        let expected = Self::expect(&space.model, va, true);
        if matches!(expected, Expected::Either) {
            // Values of fences: the kernel never maps these for writing.
            return;
        }
        let faulted = self.execute(space, Fill::new(va, 8, pattern).as_bytes());
        match expected {
            Expected::Fault(reason) => assert_eq!(faulted, Some((reason, va))),
            Expected::At(segment, address) => {
                assert_eq!(faulted, None, "{va:#x} is {segment:?} {address:#x}");
                let bytes: [u8; 8] = [pattern; 2].as_bytes().try_into().unwrap();
                contents.insert((segment, address), bytes);
                let seen = self.look(segment, address);
                assert!(seen.is_none_or(|seen| seen == bytes), "{va:#x} was written elsewhere");
            }
            Expected::Either => {}
        }
    }
}
