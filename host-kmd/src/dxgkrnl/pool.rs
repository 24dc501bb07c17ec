//! Pages and slots to give out and to take back.

use bellhop_protocol::PAGE_SIZE;
use std::collections::BTreeMap;
use vm_allocator::{AddressAllocator, AllocPolicy, IdAllocator, RangeInclusive};

/// Consecutive bytes; both fields are multiples of the page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageRange {
    /// The first byte.
    pub(super) start: u64,
    /// How many bytes.
    pub(super) length: u64,
}

/// Whether `bytes` can be a length in pages.
pub(super) const fn is_whole_pages(bytes: u64) -> bool {
    bytes != 0 && bytes.is_multiple_of(PAGE_SIZE)
}

/// A range of addresses given out by the page.
#[derive(Debug)]
pub(super) struct PagePool {
    /// `None` for a pool without pages, which the allocator cannot express.
    pages: Option<AddressAllocator>,
    /// Lengths of the ranges that are given out, by their start.
    taken: BTreeMap<u64, u64>,
    /// The sum of these.
    used: u64,
}

impl PagePool {
    /// `length` bytes from `start`.
    pub(super) fn new(start: u64, length: u64) -> Self {
        Self { pages: AddressAllocator::new(start, length).ok(), taken: BTreeMap::new(), used: 0 }
    }

    /// The first free range of `length` bytes.
    pub(super) fn take(&mut self, length: u64) -> Option<PageRange> {
        self.allocate(length, AllocPolicy::FirstMatch)
    }

    /// The range of `length` bytes from `start`, if all of it is free.
    pub(super) fn take_at(&mut self, start: u64, length: u64) -> Option<PageRange> {
        // Checked here because `AddressAllocator` (0.1.4) gives out an exact range a second time
        // when it lies inside one that is taken.
        let end = start.checked_add(length)?;
        let before = self.taken.range(..end).next_back();
        if before.is_some_and(|(taken, length)| taken + length > start) {
            return None;
        }
        self.allocate(length, AllocPolicy::ExactMatch(start))
    }

    fn allocate(&mut self, length: u64, policy: AllocPolicy) -> Option<PageRange> {
        if !is_whole_pages(length) {
            return None;
        }
        let range = self.pages.as_mut()?.allocate(length, PAGE_SIZE, policy).ok()?;
        self.taken.insert(range.start(), length);
        self.used = self.used.saturating_add(length);
        Some(PageRange { start: range.start(), length })
    }

    /// Takes back a range that was given out.
    pub(super) fn give_back(&mut self, range: PageRange) {
        if self.taken.get(&range.start) != Some(&range.length) {
            tracing::error!(?range, "a range came back that was not given out");
            return;
        }
        self.taken.remove(&range.start);
        self.used = self.used.saturating_sub(range.length);
        let freed = self
            .pages
            .as_mut()
            .zip(RangeInclusive::new(range.start, range.start + (range.length - 1)).ok())
            .map(|(pages, range)| pages.free(&range));
        if freed != Some(Ok(())) {
            tracing::error!(?range, ?freed, "a range could not be freed");
        }
    }

    /// How many bytes are given out.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Whether all is back.
    pub(super) fn is_unused(&self) -> bool {
        self.taken.is_empty()
    }
}

/// Small numbers given out, from 0.
#[derive(Debug)]
pub(super) struct SlotPool {
    /// `None` for a pool without slots, which the allocator cannot express.
    slots: Option<IdAllocator>,
    used: u32,
}

impl SlotPool {
    /// The numbers below `count`.
    pub(super) fn new(count: u32) -> Self {
        let slots = count.checked_sub(1).and_then(|last| IdAllocator::new(0, last).ok());
        Self { slots, used: 0 }
    }

    /// A number that nobody has.
    pub(super) fn take(&mut self) -> Option<u32> {
        let slot = self.slots.as_mut()?.allocate_id().ok()?;
        self.used += 1;
        Some(slot)
    }

    /// Takes back a number that was given out.
    pub(super) fn give_back(&mut self, slot: u32) {
        match self.slots.as_mut().map(|slots| slots.free_id(slot)) {
            Some(Ok(_)) => self.used -= 1,
            _ => tracing::error!(slot, "a slot came back that was not given out"),
        }
    }

    /// How many are given out.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Whether all are back.
    pub(super) fn is_unused(&self) -> bool {
        self.used == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_pool_gives_nothing() {
        assert_eq!(PagePool::new(0, 0).take(PAGE_SIZE), None);
        assert_eq!(SlotPool::new(0).take(), None);
    }

    #[test]
    fn a_range_can_be_taken_where_it_is_wanted_but_once() {
        let mut pool = PagePool::new(PAGE_SIZE, 4 * PAGE_SIZE);
        let range = pool.take_at(2 * PAGE_SIZE, 2 * PAGE_SIZE).unwrap();
        assert_eq!(pool.take_at(3 * PAGE_SIZE, PAGE_SIZE), None);
        assert_eq!(pool.take_at(0, PAGE_SIZE), None);
        assert_eq!(pool.take_at(4 * PAGE_SIZE, 2 * PAGE_SIZE), None);
        assert_eq!(pool.take_at(u64::MAX - PAGE_SIZE + 1, PAGE_SIZE), None);
        pool.give_back(range);
        assert!(pool.is_unused());
        assert_eq!(pool.take(4 * PAGE_SIZE).map(|range| range.start), Some(PAGE_SIZE));
    }

    #[test]
    fn what_was_not_given_out_is_not_taken_back() {
        let mut pool = PagePool::new(0, 4 * PAGE_SIZE);
        let range = pool.take(2 * PAGE_SIZE).unwrap();
        pool.give_back(PageRange { start: PAGE_SIZE, length: PAGE_SIZE });
        pool.give_back(PageRange { start: u64::MAX, length: PAGE_SIZE });
        assert!(!pool.is_unused());
        pool.give_back(range);
        assert!(pool.is_unused());
    }

    proptest! {
        #[test]
        fn ranges_and_slots_are_never_given_out_twice(
            steps in proptest::collection::vec(
                (any::<bool>(), proptest::option::of(0..36u64), 1..5u64),
                0..100,
            ),
        ) {
            let mut pages = PagePool::new(0, 32 * PAGE_SIZE);
            let mut slots = SlotPool::new(8);
            let mut ranges: Vec<PageRange> = Vec::new();
            let mut numbers: Vec<u32> = Vec::new();
            for (take, at, size) in steps {
                if take {
                    let length = size * PAGE_SIZE;
                    let range = match at {
                        Some(at) => pages.take_at(at * PAGE_SIZE, length),
                        None => pages.take(length),
                    };
                    if let Some(range) = range {
                        prop_assert!(range.start + range.length <= 32 * PAGE_SIZE);
                        for other in &ranges {
                            prop_assert!(
                                range.start + range.length <= other.start
                                    || other.start + other.length <= range.start
                            );
                        }
                        ranges.push(range);
                    }
                    if let Some(number) = slots.take() {
                        prop_assert!(!numbers.contains(&number));
                        numbers.push(number);
                    }
                } else {
                    if !ranges.is_empty() {
                        pages.give_back(ranges.remove(size as usize % ranges.len()));
                    }
                    if !numbers.is_empty() {
                        slots.give_back(numbers.remove(size as usize % numbers.len()));
                    }
                }
            }
            prop_assert_eq!(pages.is_unused(), ranges.is_empty());
            for range in ranges.drain(..) {
                pages.give_back(range);
            }
            prop_assert!(pages.take(32 * PAGE_SIZE).is_some());
            prop_assert_eq!(slots.is_unused(), numbers.is_empty());
        }
    }
}
