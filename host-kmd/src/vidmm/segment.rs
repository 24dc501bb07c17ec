// SPDX-License-Identifier: MIT OR Apache-2.0

//! Segments: the kinds of memory that an allocation can be in.

use super::pool::{PagePool, PageRange};
use crate::ddi::paging::{AllocationId, LOCAL_START, PRIVATE_START};
use crate::hardware::{GpuOrdinal, MAX_GPUS, PhysicalPage, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{Extent, MAX_RESIDENCY_LIST, SegmentSet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

/// A local segment of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LocalSegment {
    /// CPU-visible, in the BAR.
    Visible,
    /// A GPU's own, invisible to CPUs.
    Private(GpuOrdinal),
}

impl LocalSegment {
    /// Number of local segments of a chain that is as long as it can be.
    pub(super) const MAX: usize = 1 + MAX_GPUS;

    /// The local segments in which an allocation of this GPU can be.
    pub(crate) const fn of(gpu: GpuOrdinal) -> [Self; 2] {
        [Self::Visible, Self::Private(gpu)]
    }

    /// Its bit in a set.
    pub(super) const fn bit(self) -> SegmentSet {
        match self {
            Self::Visible => SegmentSet::LOCAL,
            Self::Private(_) => SegmentSet::PRIVATE,
        }
    }

    /// Its index in an array with an entry for each segment.
    pub(super) const fn index(self) -> usize {
        match self {
            Self::Visible => 0,
            Self::Private(gpu) => 1 + gpu.index(),
        }
    }

    /// The physical address of a range's first byte.
    pub(super) const fn physical_address(self, range: PageRange) -> u64 {
        match self {
            Self::Visible => LOCAL_START + range.start,
            Self::Private(_) => PRIVATE_START + range.start,
        }
    }
}

/// Where an allocation's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere yet: the bytes are zero, and take no memory.
    Nowhere,
    /// In a local segment.
    Local(LocalSegment, PageRange),
    /// In the implicit system memory segment: in the guest's own pages if the allocation was created with some,
    /// otherwise in host memory that VidMm reserves for it.
    Home,
}

/// Memory of a step: pages in one segment of the page tables, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The segment.
    pub(crate) segment: Segment,
    /// Its runs of bytes there.
    pub(crate) extents: Arc<[Extent]>,
}

impl Memory {
    /// One run of bytes.
    pub(crate) fn range(segment: Segment, range: PageRange) -> Self {
        let extent = Extent { address: range.start, length: range.length };
        Self { segment, extents: Arc::from([extent]) }
    }

    /// Its pages from `offset`, as runs of an address and a length, `length` bytes in total.
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

/// The order in which allocations of a group make room: lowest priority first, then least recently used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EvictionOrder {
    /// Priority of the allocation.
    pub(super) priority: u32,
    /// When it was last used.
    pub(super) used: u64,
    /// The allocation.
    pub(super) allocation: AllocationId,
}

/// A group of allocations that make room under one condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// No process wants them resident.
    Unwanted,
    /// A process wants them resident.
    Wanted {
        /// The process.
        process: u32,
        /// Whether they may be resident in system memory.
        demotable: bool,
    },
}

/// The allocations of a group that may move, in the order in which they make room.
#[derive(Debug, Default)]
pub(super) struct Movable {
    order: BTreeSet<EvictionOrder>,
    bytes: u64,
}

impl Movable {
    /// Their total bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = EvictionOrder> + '_ {
        self.order.iter().copied()
    }

    /// The first after `behind`, or of all, with a priority of at most `most` and not used since `begin`.
    pub(super) fn next(
        &self,
        behind: Option<EvictionOrder>,
        most: u32,
        begin: u64,
    ) -> Option<EvictionOrder> {
        let mut from = behind.map_or(Unbounded, Excluded);
        // One request may have used this many allocations, each of a different priority.
        for _ in 0..=MAX_RESIDENCY_LIST {
            let order = *self.order.range((from, Unbounded)).next()?;
            if order.priority > most {
                return None;
            }
            if order.used < begin {
                return Some(order);
            }
            // All others of its priority were used even later.
            let (priority, used) = (order.priority.checked_add(1)?, 0);
            from = Included(EvictionOrder { priority, used, allocation: AllocationId(0) });
        }
        None
    }
}

/// The memory of a local segment, and the allocations that may have to leave it.
#[derive(Debug)]
pub(super) struct LocalMemory {
    /// Its pages.
    pub(super) pool: PagePool,
    /// Allocations in it that may move. They are in groups, so that a search for room skips allocations that make
    /// none. No group is empty.
    pub(super) movable: BTreeMap<Group, Movable>,
    /// Bytes in it that may not move.
    pub(super) pinned: u64,
    /// Where its bytes are in memory that the guest donated, if any.
    pub(super) donated: Option<Memory>,
    /// Whether its GPU was taken away: it has no room.
    pub(super) is_withdrawn: bool,
}

impl LocalMemory {
    /// An empty segment whose addresses begin at `start`.
    pub(super) fn new(start: u64, length: u64) -> Self {
        Self {
            pool: PagePool::new(start, length),
            movable: BTreeMap::new(),
            pinned: 0,
            donated: None,
            is_withdrawn: false,
        }
    }

    /// Adds an allocation of `size` bytes that may move.
    pub(super) fn insert(&mut self, group: Group, order: EvictionOrder, size: u64) {
        let movable = self.movable.entry(group).or_default();
        movable.order.insert(order);
        movable.bytes += size;
    }

    /// Removes an allocation that may no longer move.
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
