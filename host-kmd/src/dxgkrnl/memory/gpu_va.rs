// SPDX-License-Identifier: MIT OR Apache-2.0

//! The GPU virtual addresses of a process: which are taken, and which mappings they hold.

use crate::vidmm::pool::{PagePool, PageRange};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::gpu_va::{GPU_VA_END, GPU_VA_START, Protection};
use std::collections::BTreeMap;

/// Bytes above [`GPU_VA_END`] in which the host maps rings: more than all doorbells of a guest can need.
const HOST_VA_SIZE: u64 = 1 << 38;

/// Addresses that the guest mapped or reserved together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) length: u64,
    /// Whether they stay taken when their last mapping is gone.
    pub(crate) reserved: bool,
    /// Whether an allocation that is not paged is mapped there.
    pub(crate) fixed: bool,
    /// Number of mappings in the range.
    pub(crate) mappings: u64,
}

impl Taken {
    /// Number of mappings charged to the guest's quota.
    pub(crate) fn charged(self) -> u64 {
        self.mappings.max(1)
    }
}

/// A mapping that the guest made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuestMapping {
    pub(crate) length: u64,
    pub(crate) allocation: Handle,
    pub(crate) offset: u64,
    pub(crate) protection: Protection,
}

/// The GPU virtual addresses of a process.
#[derive(Debug)]
pub(crate) struct GpuVa {
    /// Addresses that the guest can map.
    guest: PagePool,
    /// Addresses that only the host can map.
    host: PagePool,
    /// Ranges that the guest has taken, by first address.
    taken: BTreeMap<u64, Taken>,
    /// The guest's mappings, by first address. Each lies in a taken range.
    mappings: BTreeMap<u64, GuestMapping>,
}

impl GpuVa {
    /// Creates an empty address space.
    pub(crate) fn new() -> Self {
        Self {
            guest: PagePool::new(GPU_VA_START, GPU_VA_END - GPU_VA_START),
            host: PagePool::new(GPU_VA_END, HOST_VA_SIZE),
            taken: BTreeMap::new(),
            mappings: BTreeMap::new(),
        }
    }

    /// Number of the guest's mappings.
    pub(crate) fn mapping_count(&self) -> usize {
        self.mappings.len()
    }

    /// Takes addresses for the guest at `base`, or anywhere if `base` is 0.
    pub(crate) fn take_for_guest(&mut self, base: u64, length: u64) -> Option<PageRange> {
        match base {
            0 => self.guest.take_for_large_pages(length),
            base => self.guest.take_at(base, length),
        }
    }

    /// Records a range that the guest has taken at `start`, or its changed state.
    pub(crate) fn set_taken(&mut self, start: u64, taken: Taken) {
        self.taken.insert(start, taken);
    }

    /// Forgets a taken range, if it is exactly this one. Its addresses are not free yet.
    pub(crate) fn forget_taken(&mut self, range: PageRange) -> Option<Taken> {
        let taken = *self.taken.get(&range.start).filter(|taken| taken.length == range.length)?;
        self.taken.remove(&range.start);
        Some(taken)
    }

    /// Adds a mapping of the guest at `start`, in a taken range.
    pub(crate) fn insert_mapping(&mut self, start: u64, mapping: GuestMapping) {
        self.mappings.insert(start, mapping);
    }

    /// Forgets the mapping at `start`. Its range stays taken.
    pub(crate) fn forget_mapping(&mut self, start: u64) -> Option<GuestMapping> {
        self.mappings.remove(&start)
    }

    /// The guest's mapping at `start`.
    pub(crate) fn mapping_at(&self, start: u64) -> Option<GuestMapping> {
        self.mappings.get(&start).copied()
    }

    /// Takes addresses that the guest cannot free.
    pub(crate) fn take_for_host(&mut self, length: u64) -> Option<PageRange> {
        self.host.take(length)
    }

    /// Frees a range of either kind.
    pub(crate) fn give_back(&mut self, range: PageRange) {
        if range.start < GPU_VA_END {
            self.guest.give_back(range);
        } else {
            self.host.give_back(range);
        }
    }

    /// The range of the guest's mapping at `start`.
    pub(crate) fn mapped_range(&self, start: u64) -> Option<PageRange> {
        self.mapping(start).map(|(range, ..)| range)
    }

    /// The guest's mapping at `start`: its range, its offset in its allocation, and the allowed accesses.
    pub(crate) fn mapping(&self, start: u64) -> Option<(PageRange, u64, Protection)> {
        let GuestMapping { length, offset, protection, .. } = *self.mappings.get(&start)?;
        Some((PageRange { start, length }, offset, protection))
    }

    /// The taken range that contains all of a range.
    pub(crate) fn taken_around(&self, start: u64, length: u64) -> Option<(PageRange, Taken)> {
        let (first, taken) = self.taken.range(..=start).next_back()?;
        let end = start.checked_add(length)?;
        let range = PageRange { start: *first, length: taken.length };
        (end <= first + taken.length).then_some((range, *taken))
    }

    /// First addresses of the mappings that overlap a range.
    pub(crate) fn overlapping(&self, range: PageRange) -> Vec<u64> {
        let end = range.start + range.length;
        let before = self.mappings.range(..range.start).next_back();
        let before = before.filter(|(start, mapping)| *start + mapping.length > range.start);
        let inside = self.mappings.range(range.start..end);
        before.into_iter().chain(inside).map(|(start, _)| *start).collect()
    }

    /// Forgets all taken ranges, once nothing is mapped there. Returns the ranges and how many mappings to refund, as
    /// [`Self::remove_mapping`] does.
    pub(crate) fn remove_all(&mut self) -> Vec<(PageRange, u64)> {
        let taken = std::mem::take(&mut self.taken).into_iter();
        taken
            .map(|(start, taken)| (PageRange { start, length: taken.length }, taken.charged() - 1))
            .collect()
    }

    /// Forgets the mapping at `start`. Returns the taken range, if nothing needs it now, and how many mappings to
    /// refund. The caller frees the range once engines have forgotten it.
    pub(crate) fn remove_mapping(&mut self, start: u64) -> (Option<PageRange>, u64) {
        let Some(mapping) = self.mappings.remove(&start) else { return (None, 0) };
        let Some((range, taken)) = self.taken_around(start, mapping.length) else {
            return (None, 0);
        };
        let left = Taken { mappings: taken.mappings.saturating_sub(1), ..taken };
        if left.mappings == 0 && !taken.reserved {
            self.taken.remove(&range.start);
            return (Some(range), 0);
        }
        self.taken.insert(range.start, left);
        (None, taken.charged() - left.charged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::PAGE_SIZE;

    const BASE: u64 = GPU_VA_START + (1 << 30);

    fn pages(first: u64, count: u64) -> PageRange {
        PageRange { start: BASE + first * PAGE_SIZE, length: count * PAGE_SIZE }
    }

    /// Takes a range and maps parts of it, given as a page of the range and a number of pages.
    fn take(va: &mut GpuVa, range: PageRange, reserved: bool, parts: &[(u64, u64)]) {
        assert_eq!(va.take_for_guest(range.start, range.length), Some(range));
        let mappings = parts.len() as u64;
        let taken = Taken { length: range.length, reserved, fixed: false, mappings };
        va.set_taken(range.start, taken);
        for (first, count) in parts {
            let length = count * PAGE_SIZE;
            let protection = Protection::empty();
            let mapping = GuestMapping { length, allocation: Handle(1), offset: 0, protection };
            va.insert_mapping(range.start + first * PAGE_SIZE, mapping);
        }
    }

    #[test]
    fn a_guest_gets_the_addresses_that_it_asks_for_or_any_and_none_of_the_host_s() {
        let mut va = GpuVa::new();
        assert_eq!(va.take_for_guest(BASE, PAGE_SIZE), Some(pages(0, 1)));
        assert_eq!(va.take_for_guest(BASE, PAGE_SIZE), None, "it is taken");
        let any = va.take_for_guest(0, 2 * PAGE_SIZE).unwrap();
        assert!(any.start >= GPU_VA_START && any.start + any.length <= GPU_VA_END);
        let host = va.take_for_host(PAGE_SIZE).unwrap();
        assert!(host.start >= GPU_VA_END);
        assert_eq!(va.take_for_guest(host.start, PAGE_SIZE), None);
        // Each range returns to its own pool.
        va.give_back(host);
        assert_eq!(va.take_for_host(PAGE_SIZE), Some(host));
        va.give_back(pages(0, 1));
        assert_eq!(va.take_for_guest(BASE, PAGE_SIZE), Some(pages(0, 1)));
    }

    #[test]
    fn addresses_that_a_process_freed_are_not_given_out_before_engines_forget_them() {
        let mut va = GpuVa::new();
        take(&mut va, pages(0, 4), false, &[(0, 4)]);
        assert_eq!(va.remove_mapping(BASE), (Some(pages(0, 4)), 0));
        assert_eq!(va.mapping_count(), 0);
        assert_eq!(va.take_for_guest(BASE, PAGE_SIZE), None);
        va.give_back(pages(0, 4));
        assert_eq!(va.take_for_guest(BASE, PAGE_SIZE), Some(pages(0, 1)));
    }

    #[test]
    fn a_reservation_outlives_its_mappings_and_is_charged_for_one() {
        let mut va = GpuVa::new();
        take(&mut va, pages(0, 4), true, &[(0, 1), (2, 2)]);
        assert_eq!(va.remove_mapping(BASE), (None, 1));
        assert_eq!(va.remove_mapping(BASE + 2 * PAGE_SIZE), (None, 0));
        assert_eq!(va.remove_mapping(BASE), (None, 0), "nothing is mapped there");
        assert!(va.forget_taken(pages(0, 3)).is_none(), "it was taken as a whole");
        let taken = va.forget_taken(pages(0, 4)).unwrap();
        assert_eq!((taken.mappings, taken.charged()), (0, 1));
    }

    #[test]
    fn a_range_overlaps_the_mappings_that_have_a_byte_in_it() {
        let mut va = GpuVa::new();
        take(&mut va, pages(0, 2), false, &[(0, 2)]);
        take(&mut va, pages(4, 2), false, &[(0, 2)]);
        let [first, second] = [pages(0, 2), pages(4, 2)].map(|range| range.start);
        assert_eq!(va.overlapping(pages(0, 6)), [first, second]);
        assert_eq!(va.overlapping(pages(1, 3)), [first]);
        assert_eq!(va.overlapping(pages(1, 4)), [first, second]);
        assert!(va.overlapping(pages(2, 2)).is_empty());
        assert!(va.overlapping(pages(6, 1)).is_empty());
    }

    #[test]
    fn a_range_was_taken_together_only_if_all_of_it_was() {
        let mut va = GpuVa::new();
        take(&mut va, pages(0, 2), true, &[]);
        take(&mut va, pages(2, 2), true, &[]);
        let around = |first, count| {
            let PageRange { start, length } = pages(first, count);
            va.taken_around(start, length).map(|(range, _)| range)
        };
        assert_eq!(around(1, 1), Some(pages(0, 2)));
        assert_eq!(around(2, 2), Some(pages(2, 2)));
        assert_eq!(around(1, 2), None, "two were taken beside each other");
        assert_eq!(around(4, 1), None);
        assert!(va.taken_around(BASE, u64::MAX).is_none());
    }

    #[test]
    fn a_process_that_ends_gives_up_all_addresses_and_what_was_charged_for_them() {
        let mut va = GpuVa::new();
        take(&mut va, pages(0, 4), true, &[(0, 1), (1, 1), (2, 1)]);
        take(&mut va, pages(8, 1), true, &[]);
        // One mapping of each range is refunded with its addresses, the others now.
        assert_eq!(va.remove_all(), [(pages(0, 4), 2), (pages(8, 1), 0)]);
        assert_eq!(va.remove_all(), []);
    }
}
