// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs beside a model that looks at each page by itself.

use super::super::address_map::Mapping;
use super::super::address_map::tests::shared_map;
use super::super::compression::{Blocks, Metadata};
use super::super::drawn::{Drawn, Strokes};
use super::super::page_table::NodePool;
use super::super::pins::View;
use super::super::region::Region;
use super::*;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, DriverProtection, GpuOrdinal, PhysicalPage, Pte, Segment,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use vm_memory::MmapRegion;

const SMALL: PageSize = PageSize::Small;
const LARGE: PageSize = PageSize::Large;
/// Where the pages are mapped, and how many there are.
const BASE: u64 = 1 << 32;
const PAGES: u64 = 48;

/// What a step does to the page tables, or where it looks.
#[derive(Debug, Clone)]
enum Step {
    /// Maps pages from this one on, to pages of a segment from that one on.
    Map { size: PageSize, first: u64, count: u64, to: (Segment, u64), kind: Kind },
    /// Unmaps so many pages.
    Unmap { size: PageSize, first: u64, count: u64 },
    /// Flushes the engine's whole table, or the guest's translations.
    Flush { is_of_guest: bool },
    /// Looks at a range, run by run.
    Look { start: u64, length: usize, access: Access },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Writable,
    ReadOnly,
    Compressed,
    Protected,
}

fn pte(page: PhysicalPage, kind: Kind) -> Pte {
    let protection = DriverProtection {
        compressed: kind == Kind::Compressed,
        protected: kind == Kind::Protected,
    };
    Pte::new(page, kind != Kind::ReadOnly).protected(protection)
}

/// What is mapped: for each size and number of a page, where it is.
type Model = HashMap<(PageSize, u64), (PhysicalPage, Kind)>;

/// A page of 4 KiB, by the page tables alone.
fn page(model: &Model, number: u64) -> Option<(PhysicalPage, Kind)> {
    let in_large = LARGE.bytes() / PAGE_SIZE;
    if let Some((page, kind)) = model.get(&(LARGE, number / in_large)) {
        let address = page.address + number % in_large * PAGE_SIZE;
        return Some((PhysicalPage { address, ..*page }, *kind));
    }
    model.get(&(SMALL, number)).copied()
}

/// The form, the bytes and the first page of the run at an offset, or the fault there.
fn expected(
    model: &Model,
    offset: u64,
    length: usize,
    access: Access,
) -> Result<(Kind, usize, PhysicalPage), FaultReason> {
    let fault = access.page_fault(0).reason;
    let (first, kind) = page(model, offset / PAGE_SIZE).ok_or(fault)?;
    if access == Access::Write && kind == Kind::ReadOnly {
        return Err(FaultReason::WRITE_PROTECTION_FAULT);
    }
    let mut run = PAGE_SIZE - offset % PAGE_SIZE;
    let is_plain = |kind| matches!(kind, Kind::Writable | Kind::ReadOnly);
    let continues = |run: u64| {
        let (next, kind) = page(model, (offset + run) / PAGE_SIZE)?;
        let behind = first.address + (offset % PAGE_SIZE + run);
        let is_next = next == PhysicalPage { address: behind, ..first };
        (is_next && is_plain(kind) && (access == Access::Read || kind == Kind::Writable))
            .then_some(())
    };
    while is_plain(kind) && run < length as u64 && continues(run).is_some() {
        run += PAGE_SIZE;
    }
    let kind = if is_plain(kind) { Kind::Writable } else { kind };
    Ok((kind, length.min(run as usize), first))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Segment::{Backing, Local, Private, System};
    let size = || prop_oneof![4 => Just(SMALL), 1 => Just(LARGE)];
    let kind = prop_oneof![
        6 => Just(Kind::Writable), 3 => Just(Kind::ReadOnly), 1 => Just(Kind::Compressed),
        1 => Just(Kind::Protected),
    ];
    // Of the segments but System there are eight pages each, in one file, one segment behind the other.
    let to = (prop::sample::select(vec![Local, Private, Backing, System, System]), 0u64..8);
    let map = (size(), 0..PAGES, 1u64..16, to, kind)
        .prop_map(|(size, first, count, to, kind)| Step::Map { size, first, count, to, kind });
    let unmap = (size(), 0..PAGES, 1u64..4).prop_map(|(size, first, count)| Step::Unmap {
        size,
        first,
        count,
    });
    let access = prop_oneof![Just(Access::Read), Just(Access::Write)];
    let look = (0..PAGES * PAGE_SIZE, 1usize..0x1_8000, any::<bool>(), access).prop_map(
        |(start, length, at_page, access)| {
            let start = if at_page { start - start % PAGE_SIZE } else { start };
            Step::Look { start, length, access }
        },
    );
    let flush = any::<bool>().prop_map(|is_of_guest| Step::Flush { is_of_guest });
    let step = prop_oneof![4 => map, 2 => unmap, 1 => flush, 8 => look];
    proptest::collection::vec(step, 1..60)
}

/// One guest's page tables, and an engine that remembers them.
struct Rig {
    space: AddressSpace,
    tlb: Tlb,
    map: Arc<AddressMap>,
    view: View,
    metadata: Metadata,
    blocks: Blocks,
    flushes: u64,
    drawn: Drawn,
    strokes: Strokes,
    model: Model,
}

impl Rig {
    fn new() -> Self {
        let pool = Arc::new(NodePool::new(GpuOrdinal::MASTER, 64, 64).unwrap());
        let space = AddressSpace::new(AddressSpaceId(1), &pool, &Arc::default()).unwrap();
        // No page has metadata, so none is ever encoded.
        let region = Region::from(MmapRegion::new(PAGE_SIZE as usize).unwrap());
        let metadata = Metadata::new(Mapping { region, base: 0, start: 0, length: 0 });
        let map = Arc::new(shared_map());
        let view = View::new(Arc::clone(&map), 1);
        let (tlb, blocks, model) = (Tlb::new(), Blocks::new(), Model::new());
        let (drawn, strokes) = (Drawn::default(), Strokes::default());
        Self { space, tlb, map, view, metadata, blocks, flushes: 1, drawn, strokes, model }
    }

    fn mmu(&mut self) -> Mmu<'_> {
        let pinned = self.view.open(self.tlb.epoch());
        let codec = Codec { metadata: &self.metadata, blocks: &mut self.blocks };
        let brush = Brush::new(&self.drawn, &mut self.strokes);
        let mut mmu = Mmu::new(&mut self.tlb, &self.space, pinned, codec, brush, 0);
        mmu.flush_tlb(self.flushes);
        mmu
    }

    /// Changes an entry. As the kernel does, flushes if what the engine may remember is wrong now.
    fn set(&mut self, size: PageSize, number: u64, to: Option<(PhysicalPage, Kind)>) {
        let pages = size.bytes() / PAGE_SIZE;
        let was_mapped = (0..pages).any(|at| page(&self.model, number * pages + at).is_some());
        let entry = to.map_or(Pte::INVALID, |(page, kind)| pte(page, kind));
        self.space.set(BASE + number * size.bytes(), size, entry).unwrap();
        match to {
            Some(to) => self.model.insert((size, number), to),
            None => self.model.remove(&(size, number)),
        };
        if was_mapped {
            self.flushes += 1;
        }
    }

    fn map(&mut self, size: PageSize, first: u64, count: u64, to: (Segment, u64), kind: Kind) {
        let pages = size.bytes() / PAGE_SIZE;
        let (segment, from) = to;
        for at in 0..count {
            // Pages that there are: 64 KiB of any segment but System are not.
            let address = (from + at) * size.bytes();
            let is_there = segment == Segment::System || (size == SMALL && address < 0x8000);
            let number = first / pages + at;
            if is_there && number < PAGES / pages {
                self.set(size, number, Some((PhysicalPage { segment, address }, kind)));
            }
        }
    }

    fn look(&mut self, start: u64, length: usize, access: Access) -> Result<(), TestCaseError> {
        let (mut done, mut ahead) = (0, Ahead::default());
        while done < length {
            let offset = start + done as u64;
            let expected = expected(&self.model, offset, length - done, access);
            let found =
                self.mmu().run_on(BASE + offset, length - done, access, &mut ahead).map(|run| {
                    match run {
                        Run::Direct(slice) => (Kind::Writable, slice.len(), Some(at(&slice))),
                        Run::Protected(slice) => (Kind::Protected, slice.len(), Some(at(&slice))),
                        Run::Compressed(length) => (Kind::Compressed, length, None),
                        Run::Words(_) => unreachable!("no page is of the segment of fences"),
                    }
                });
            match (expected, found) {
                (Err(reason), Err(violation)) => {
                    prop_assert_eq!(violation.reason, reason);
                    return Ok(());
                }
                (Ok((kind, length, page)), Ok((found, bytes, address))) => {
                    prop_assert_eq!((found, bytes), (kind, length));
                    let place = self.map.locate(page, SMALL).unwrap().plus(offset % PAGE_SIZE);
                    let slice = self.map.slice(place, bytes).unwrap();
                    prop_assert!(address.is_none_or(|address| address == at(&slice)));
                    done += bytes;
                }
                (expected, found) => {
                    return Err(TestCaseError::fail(format!("{found:?} and not {expected:?}")));
                }
            }
        }
        Ok(())
    }
}

/// Where a slice is.
fn at(slice: &VolatileSlice<'_>) -> usize {
    slice.ptr_guard().as_ptr().addr()
}

proptest! {
    #[test]
    fn runs_are_as_long_as_their_pages_say_one_by_one_whatever_was_remembered(steps in steps()) {
        let mut rig = Rig::new();
        for step in steps {
            match step {
                Step::Map { size, first, count, to, kind } => rig.map(size, first, count, to, kind),
                Step::Unmap { size, first, count } => {
                    let pages = size.bytes() / PAGE_SIZE;
                    for number in first / pages..(first / pages + count).min(PAGES / pages) {
                        rig.set(size, number, None);
                    }
                }
                Step::Flush { is_of_guest: true } => rig.flushes += 1,
                Step::Flush { is_of_guest: false } => rig.tlb.flush(),
                Step::Look { start, length, access } => rig.look(start, length, access)?,
            }
        }
    }
}

#[test]
fn contiguous_pages_take_one_look_the_second_time() {
    let mut rig = Rig::new();
    rig.map(SMALL, 0, 16, (Segment::System, 3), Kind::Writable);
    let length = 12 * PAGE_SIZE;
    for _ in 0..2 {
        rig.look(PAGE_SIZE, length as usize, Access::Write).unwrap();
    }
    let key = |page: u64| Key::new(AddressSpaceId(1), rig.flushes, BASE + page * PAGE_SIZE, SMALL);
    let first = rig.tlb.lookup(key(1)).map(|entry| entry.length(SMALL));
    assert_eq!(first, Some(length));
    // A read-only page ends what may be written, and not what may be read.
    let mut rig = Rig::new();
    rig.map(SMALL, 0, 4, (Segment::System, 0), Kind::Writable);
    rig.map(SMALL, 4, 4, (Segment::System, 4), Kind::ReadOnly);
    for access in [Access::Read, Access::Write, Access::Read] {
        rig.look(0, 8 * PAGE_SIZE as usize, access).unwrap();
    }
}

/// Pages that are gone are found for as long as nothing was flushed, and not any longer.
#[test]
fn what_continues_a_page_ends_with_either_flush() {
    for is_of_guest in [false, true] {
        let mut rig = Rig::new();
        rig.map(SMALL, 0, 8, (Segment::System, 0), Kind::Writable);
        let run = |rig: &mut Rig| {
            let run = rig.mmu().run(BASE, 8 * PAGE_SIZE as usize, Access::Write);
            run.map(|run| run.len() as u64).unwrap()
        };
        assert_eq!(run(&mut rig), 8 * PAGE_SIZE);
        rig.space.set(BASE + 5 * PAGE_SIZE, SMALL, Pte::INVALID).unwrap();
        assert_eq!(run(&mut rig), 8 * PAGE_SIZE);
        if is_of_guest {
            rig.flushes += 1;
        } else {
            rig.tlb.flush();
        }
        assert_eq!(run(&mut rig), 5 * PAGE_SIZE);
    }
}
