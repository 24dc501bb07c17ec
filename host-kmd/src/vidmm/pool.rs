//! Pages to give out and to take back.

use crate::ddi::paging::PageSize;
use bellhop_protocol::PAGE_SIZE;
use std::collections::BTreeMap;
use vm_allocator::{AddressAllocator, AllocPolicy, RangeInclusive};

/// Consecutive bytes; both fields are multiples of the page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageRange {
    /// The first byte.
    pub(crate) start: u64,
    /// How many bytes.
    pub(crate) length: u64,
}

/// Whether `bytes` can be a length in pages.
pub(crate) const fn is_whole_pages(bytes: u64) -> bool {
    bytes != 0 && bytes.is_multiple_of(PAGE_SIZE)
}

/// A range of addresses given out by the page.
#[derive(Debug)]
pub(crate) struct PagePool {
    /// `None` for a pool without pages, which the allocator cannot express.
    pages: Option<AddressAllocator>,
    /// Lengths of the ranges that are given out, by their start.
    taken: BTreeMap<u64, u64>,
    start: u64,
    length: u64,
    free: u64,
}

impl PagePool {
    /// `length` bytes from `start`.
    pub(crate) fn new(start: u64, length: u64) -> Self {
        let pages = AddressAllocator::new(start, length).ok();
        Self { pages, taken: BTreeMap::new(), start, length, free: length }
    }

    /// Bytes of all of it.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that nobody has.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// How many free bytes there would be in a row if this range, which is given out, came back.
    pub(crate) fn hole_around(&self, range: PageRange) -> u64 {
        let before = self.taken.range(..range.start).next_back();
        let from = before.map_or(self.start, |(start, length)| start + length);
        let after = self.taken.range(range.start.saturating_add(1)..).next();
        let to = after.map_or(self.start.saturating_add(self.length), |(start, _)| *start);
        to.saturating_sub(from)
    }

    /// The first free range of `length` bytes.
    pub(crate) fn take(&mut self, length: u64) -> Option<PageRange> {
        self.allocate(length, PAGE_SIZE, AllocPolicy::FirstMatch)
    }

    /// The same, at a multiple of what large pages need if it is that long and there is one.
    pub(crate) fn take_for_large_pages(&mut self, length: u64) -> Option<PageRange> {
        let large = PageSize::Large.bytes();
        let aligned = (length >= large)
            .then(|| self.allocate(length, large, AllocPolicy::FirstMatch))
            .flatten();
        aligned.or_else(|| self.take(length))
    }

    /// The range of `length` bytes from `start`, if all of it is free.
    pub(crate) fn take_at(&mut self, start: u64, length: u64) -> Option<PageRange> {
        // Checked here because `AddressAllocator` (0.1.4) gives out an exact range a second time
        // when it lies inside one that is taken.
        let end = start.checked_add(length)?;
        let before = self.taken.range(..end).next_back();
        if before.is_some_and(|(taken, length)| taken + length > start) {
            return None;
        }
        self.allocate(length, PAGE_SIZE, AllocPolicy::ExactMatch(start))
    }

    fn allocate(&mut self, length: u64, alignment: u64, policy: AllocPolicy) -> Option<PageRange> {
        // The allocator looks at every range for one that is long enough.
        if !is_whole_pages(length) || length > self.free {
            return None;
        }
        let range = self.pages.as_mut()?.allocate(length, alignment, policy).ok()?;
        self.taken.insert(range.start(), length);
        self.free -= length;
        Some(PageRange { start: range.start(), length })
    }

    /// Takes back a range that was given out.
    pub(crate) fn give_back(&mut self, range: PageRange) {
        if self.taken.get(&range.start) != Some(&range.length) {
            tracing::error!(?range, "a range came back that was not given out");
            return;
        }
        self.taken.remove(&range.start);
        self.free += range.length;
        let freed = self
            .pages
            .as_mut()
            .zip(RangeInclusive::new(range.start, range.start + (range.length - 1)).ok())
            .map(|(pages, range)| pages.free(&range));
        if freed != Some(Ok(())) {
            tracing::error!(?range, ?freed, "a range could not be freed");
        }
    }

    /// Whether all is back.
    pub(crate) fn is_unused(&self) -> bool {
        self.taken.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_pool_gives_nothing() {
        assert_eq!(PagePool::new(0, 0).take(PAGE_SIZE), None);
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
        fn ranges_are_never_given_out_twice(
            steps in proptest::collection::vec(
                (any::<bool>(), proptest::option::of(0..36u64), 1..5u64),
                0..100,
            ),
        ) {
            let mut pages = PagePool::new(0, 32 * PAGE_SIZE);
            let mut ranges: Vec<PageRange> = Vec::new();
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
                } else if !ranges.is_empty() {
                    let range = ranges.remove(size as usize % ranges.len());
                    let hole = pages.hole_around(range);
                    pages.give_back(range);
                    let beside = pages.take(hole);
                    prop_assert!(beside.is_some(), "there is no hole of {} bytes", hole);
                    pages.give_back(beside.unwrap());
                }
                let taken: u64 = ranges.iter().map(|range| range.length).sum();
                prop_assert_eq!(pages.free() + taken, pages.length());
            }
            prop_assert_eq!(pages.is_unused(), ranges.is_empty());
            for range in ranges.drain(..) {
                pages.give_back(range);
            }
            prop_assert!(pages.take(32 * PAGE_SIZE).is_some());
        }
    }
}
