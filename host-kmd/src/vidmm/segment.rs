//! Segments: the kinds of memory that an allocation can be in.

use super::pool::{PagePool, PageRange};
use crate::ddi::paging::{AllocationId, LOCAL_START, PRIVATE_START};
use crate::hardware::{PhysicalPage, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{Extent, MAX_RESIDENCY_LIST};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

/// A local segment of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LocalSegment {
    /// CPU-visible, in the BAR.
    Visible,
    /// No CPU sees it.
    Private,
}

impl LocalSegment {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Visible, Self::Private];

    /// Its place in an array of one entry a segment.
    pub(super) const fn index(self) -> usize {
        match self {
            Self::Visible => 0,
            Self::Private => 1,
        }
    }

    /// The physical address of a range's first byte.
    pub(super) const fn physical_address(self, range: PageRange) -> u64 {
        match self {
            Self::Visible => LOCAL_START + range.start,
            Self::Private => PRIVATE_START + range.start,
        }
    }
}

/// Where an allocation's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere yet: they are zero, and no memory is taken.
    Nowhere,
    /// In a local segment.
    Local(LocalSegment, PageRange),
    /// In the implicit system memory segment: in the guest's own pages when the allocation was made
    /// of some, and otherwise in host memory that is kept for it.
    Home,
}

/// Memory that a step is about: pages in one segment of the page tables, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Which segment.
    pub(crate) segment: Segment,
    /// Where in it.
    pub(crate) extents: Arc<[Extent]>,
}

impl Memory {
    /// One run of bytes.
    pub(crate) fn range(segment: Segment, range: PageRange) -> Self {
        let extent = Extent { address: range.start, length: range.length };
        Self { segment, extents: Arc::from([extent]) }
    }

    /// Its pages from `offset` on, as runs of an address and a length, `length` bytes in all.
    pub(crate) fn runs(&self, offset: u64, length: u64) -> impl Iterator<Item = Extent> + '_ {
        let (mut skip, mut left) = (offset, length);
        self.extents.iter().filter_map(move |extent| {
            let skipped = skip.min(extent.length);
            let taken = left.min(extent.length - skipped);
            (skip, left) = (skip - skipped, left - taken);
            (taken > 0).then_some(Extent { address: extent.address + skipped, length: taken })
        })
    }

    /// The pages of `length` bytes from `offset`.
    pub(crate) fn pages(
        &self,
        offset: u64,
        length: u64,
    ) -> impl Iterator<Item = PhysicalPage> + '_ {
        let segment = self.segment;
        self.runs(offset, length)
            .flat_map(|run| {
                (0..run.length).step_by(PAGE_SIZE as usize).map(move |at| run.address + at)
            })
            .map(move |address| PhysicalPage { segment, address })
    }
}

/// How soon an allocation has to go among its like: the least important first, then what was used
/// longest ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EvictionOrder {
    /// Its priority.
    pub(super) priority: u32,
    /// When it was used last.
    pub(super) used: u64,
    /// Which.
    pub(super) allocation: AllocationId,
}

/// Allocations that make room for others under the same conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Nobody wants them resident.
    Unwanted,
    /// A process wants them resident.
    Wanted {
        /// Which process.
        process: u32,
        /// Whether they may be resident in system memory.
        demotable: bool,
    },
}

/// The allocations of a group that may be moved, those first that go first.
#[derive(Debug, Default)]
pub(super) struct Movable {
    order: BTreeSet<EvictionOrder>,
    bytes: u64,
}

impl Movable {
    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All of them.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = EvictionOrder> + '_ {
        self.order.iter().copied()
    }

    /// The first behind one, or of all, whose priority is at most `most` and that was not used since
    /// `begin`.
    pub(super) fn next(
        &self,
        behind: Option<EvictionOrder>,
        most: u32,
        begin: u64,
    ) -> Option<EvictionOrder> {
        let mut from = behind.map_or(Unbounded, Excluded);
        // As many may have been used for one request, each of a priority of its own.
        for _ in 0..=MAX_RESIDENCY_LIST {
            let order = *self.order.range((from, Unbounded)).next()?;
            if order.priority > most {
                return None;
            }
            if order.used < begin {
                return Some(order);
            }
            // All others of its priority were used later.
            let (priority, used) = (order.priority.checked_add(1)?, 0);
            from = Included(EvictionOrder { priority, used, allocation: AllocationId(0) });
        }
        None
    }
}

/// A local segment's memory and who may have to leave it.
#[derive(Debug)]
pub(super) struct LocalMemory {
    /// Its pages.
    pub(super) pool: PagePool,
    /// Allocations in it that may be moved. Groups so that whoever needs room is not slower for all
    /// those who make none; none of them is empty.
    pub(super) movable: BTreeMap<Group, Movable>,
    /// Bytes in it that may not be moved.
    pub(super) pinned: u64,
    /// Where its bytes are in the guest's own memory, if that was donated.
    pub(super) donated: Option<Memory>,
}

impl LocalMemory {
    /// Nothing in it.
    pub(super) fn new(length: u64) -> Self {
        Self { pool: PagePool::new(0, length), movable: BTreeMap::new(), pinned: 0, donated: None }
    }

    /// An allocation of so many bytes may be moved from now on.
    pub(super) fn insert(&mut self, group: Group, order: EvictionOrder, size: u64) {
        let movable = self.movable.entry(group).or_default();
        movable.order.insert(order);
        movable.bytes += size;
    }

    /// An allocation may be moved no more.
    pub(super) fn remove(&mut self, group: Group, order: EvictionOrder, size: u64) {
        let Some(movable) = self.movable.get_mut(&group) else { return };
        if movable.order.remove(&order) {
            movable.bytes -= size;
        }
        if movable.order.is_empty() {
            self.movable.remove(&group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_pages_of_a_part_are_that_part_of_all_pages(
            lengths in proptest::collection::vec(1..5u64, 1..6),
            from in 0..20usize,
            count in 0..20usize,
        ) {
            let extents: Vec<_> = lengths
                .iter()
                .enumerate()
                .map(|(index, pages)| Extent {
                    address: (10 - index as u64) << 20,
                    length: pages * PAGE_SIZE,
                })
                .collect();
            let expected: Vec<_> = extents
                .iter()
                .flat_map(|extent| {
                    (0..extent.length / PAGE_SIZE).map(|page| extent.address + page * PAGE_SIZE)
                })
                .skip(from)
                .take(count)
                .collect();
            let memory = Memory { segment: Segment::System, extents: Arc::from(extents) };
            let pages: Vec<_> = memory
                .pages(from as u64 * PAGE_SIZE, count as u64 * PAGE_SIZE)
                .map(|page| page.address)
                .collect();
            prop_assert_eq!(pages, expected);
        }
    }
}
