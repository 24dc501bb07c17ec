// SPDX-License-Identifier: MIT OR Apache-2.0

//! A pool of pages.
//!
//! The pool indexes free runs by address and by length, so every operation is logarithmic in the number of runs, no
//! matter how a guest fragments them. A request gets the shortest run that is long enough, the first of several.

use crate::ddi::paging::PageSize;
use bellhop_protocol::PAGE_SIZE;
use std::collections::{BTreeMap, BTreeSet};

/// Consecutive bytes; both fields are multiples of the page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageRange {
    /// The first byte.
    pub(crate) start: u64,
    /// Length in bytes.
    pub(crate) length: u64,
}

impl PageRange {
    /// End of the range, exclusive.
    fn end(self) -> u64 {
        self.start + self.length
    }

    /// The part of it from the first address that is aligned for a large page.
    fn aligned(self) -> Option<Self> {
        let start = self.start.checked_next_multiple_of(PageSize::Large.bytes())?;
        let length = self.end().checked_sub(start).filter(|length| *length > 0)?;
        Some(Self { start, length })
    }
}

/// Whether `bytes` can be a length in pages.
pub(crate) const fn is_whole_pages(bytes: u64) -> bool {
    bytes != 0 && bytes.is_multiple_of(PAGE_SIZE)
}

/// Ranges ordered by length, then by start.
#[derive(Debug, Default)]
struct ByLength(BTreeSet<(u64, u64)>);

impl ByLength {
    fn insert(&mut self, range: PageRange) {
        self.0.insert((range.length, range.start));
    }

    fn remove(&mut self, range: PageRange) {
        self.0.remove(&(range.length, range.start));
    }

    /// The shortest range of at least `length` bytes.
    fn at_least(&self, length: u64) -> Option<PageRange> {
        let (length, start) = *self.0.range((length, 0)..).next()?;
        Some(PageRange { start, length })
    }
}

/// A range of addresses, handed out in pages.
#[derive(Debug)]
pub(crate) struct PagePool {
    /// Lengths of the ranges in use, by start.
    taken: BTreeMap<u64, u64>,
    /// Lengths of the free runs between them, by start.
    runs: BTreeMap<u64, u64>,
    /// The free runs by length.
    by_length: ByLength,
    /// The parts of the free runs that are aligned for large pages.
    for_large_pages: ByLength,
    length: u64,
    free: u64,
}

impl PagePool {
    /// Creates a pool of `length` bytes from `start`; their sum must fit in 64 bits.
    pub(crate) fn new(start: u64, length: u64) -> Self {
        let mut pool = Self {
            taken: BTreeMap::new(),
            runs: BTreeMap::new(),
            by_length: ByLength::default(),
            for_large_pages: ByLength::default(),
            length,
            free: length,
        };
        pool.insert_run(PageRange { start, length });
        pool
    }

    /// Size of the pool.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// All of it, if nothing of it is in use.
    pub(crate) fn whole(&self) -> Option<PageRange> {
        let (start, length) = self.runs.iter().next().filter(|_| self.is_unused())?;
        Some(PageRange { start: *start, length: *length })
    }

    /// Free bytes.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Length of the free run that would result if this range were freed.
    pub(crate) fn hole_around(&self, range: PageRange) -> u64 {
        let before = self.run_before(range.start).map_or(0, |run| run.length);
        let after = self.runs.get(&range.end()).copied().unwrap_or(0);
        before + range.length + after
    }

    /// Takes `length` bytes from the start of the shortest free run that is long enough.
    pub(crate) fn take(&mut self, length: u64) -> Option<PageRange> {
        let run = self.by_length.at_least(length).filter(|_| is_whole_pages(length))?;
        Some(self.take_of(run, PageRange { start: run.start, length }))
    }

    /// Takes `length` bytes, aligned for large pages if the range is long enough and the pool has such a run.
    pub(crate) fn take_for_large_pages(&mut self, length: u64) -> Option<PageRange> {
        let large = length >= PageSize::Large.bytes() && is_whole_pages(length);
        let found = large.then(|| self.for_large_pages.at_least(length)).flatten();
        match found {
            Some(aligned) => self.take_at(aligned.start, length),
            None => self.take(length),
        }
    }

    /// Takes the range of `length` bytes from `start`, if all of it is free.
    pub(crate) fn take_at(&mut self, start: u64, length: u64) -> Option<PageRange> {
        let end = start.checked_add(length)?;
        let (first, run) = self.runs.range(..=start).next_back()?;
        let run = PageRange { start: *first, length: *run };
        let is_fit = is_whole_pages(length) && start.is_multiple_of(PAGE_SIZE) && end <= run.end();
        is_fit.then(|| self.take_of(run, PageRange { start, length }))
    }

    /// The starts of the ranges in use that overlap a range, in order.
    pub(crate) fn taken_in(&self, range: PageRange) -> impl Iterator<Item = u64> {
        let before = self.taken.range(..range.start).next_back();
        let before = before.filter(|(start, length)| *start + *length > range.start);
        before
            .into_iter()
            .chain(self.taken.range(range.start..range.end()))
            .map(|(start, _)| *start)
    }

    /// Takes a part of a free run.
    fn take_of(&mut self, run: PageRange, range: PageRange) -> PageRange {
        self.remove_run(run);
        self.insert_run(PageRange { start: run.start, length: range.start - run.start });
        self.insert_run(PageRange { start: range.end(), length: run.end() - range.end() });
        self.taken.insert(range.start, range.length);
        self.free -= range.length;
        range
    }

    /// Frees a range in use.
    pub(crate) fn give_back(&mut self, range: PageRange) {
        if self.taken.get(&range.start) != Some(&range.length) {
            tracing::error!(?range, "a range came back that was not given out");
            return;
        }
        self.taken.remove(&range.start);
        self.free += range.length;
        let mut run = range;
        if let Some(before) = self.run_before(range.start) {
            self.remove_run(before);
            run = PageRange { start: before.start, length: before.length + run.length };
        }
        if let Some(length) = self.runs.get(&range.end()).copied() {
            self.remove_run(PageRange { start: range.end(), length });
            run.length += length;
        }
        self.insert_run(run);
    }

    /// The free run that ends at an address.
    fn run_before(&self, end: u64) -> Option<PageRange> {
        let (start, length) = self.runs.range(..end).next_back()?;
        Some(PageRange { start: *start, length: *length }).filter(|run| run.end() == end)
    }

    fn insert_run(&mut self, run: PageRange) {
        if run.length > 0 {
            self.runs.insert(run.start, run.length);
            self.by_length.insert(run);
            run.aligned().into_iter().for_each(|aligned| self.for_large_pages.insert(aligned));
        }
    }

    fn remove_run(&mut self, run: PageRange) {
        self.runs.remove(&run.start);
        self.by_length.remove(run);
        run.aligned().into_iter().for_each(|aligned| self.for_large_pages.remove(aligned));
    }

    /// Whether nothing is in use.
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

    #[test]
    fn of_the_runs_that_are_long_enough_the_shortest_is_split() {
        let mut pool = PagePool::new(0, 64 * PAGE_SIZE);
        let all: Vec<_> = (0..64).map(|_| pool.take(PAGE_SIZE).unwrap()).collect();
        for page in (0..20).chain(40..44).chain([60, 62]) {
            pool.give_back(all[page]);
        }
        let pages =
            |pool: &mut PagePool, count| pool.take(count * PAGE_SIZE).unwrap().start / PAGE_SIZE;
        assert_eq!([1, 2, 2, 3].map(|count| pages(&mut pool, count)), [60, 40, 42, 0]);
        assert_eq!(pool.take(18 * PAGE_SIZE), None, "it is free, but not in a row");
    }

    #[test]
    fn large_pages_are_where_they_can_be_large_as_long_as_there_is_such_a_place() {
        let large = PageSize::Large.bytes();
        let mut pool = PagePool::new(PAGE_SIZE, 3 * large);
        let starts: Vec<_> = std::iter::from_fn(|| pool.take_for_large_pages(large))
            .map(|range| range.start)
            .collect();
        assert_eq!(starts, [large, 2 * large], "what is left lies on both sides");
        let small = pool.take_for_large_pages(PAGE_SIZE).unwrap();
        assert_eq!(small.start, 3 * large, "the shorter of both");
        pool.give_back(PageRange { start: large, length: large });
        assert_eq!(pool.take_for_large_pages(large).map(|range| range.start), Some(large));
        pool.give_back(PageRange { start: large, length: large });
        pool.give_back(PageRange { start: 2 * large, length: large });
        let most = pool.take_for_large_pages(2 * large + 8 * PAGE_SIZE);
        assert_eq!(most.map(|range| range.start), Some(PAGE_SIZE), "where it fits at all");
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
                    let is_free = |start: u64| {
                        ranges.iter().all(|other| other.start >= start + length || other.end() <= start)
                    };
                    let starts = at.map_or(0..33 - size, |at| at..at + 1);
                    let mut fits = starts.filter(|start| start + size <= 32);
                    let fits = fits.any(|start| is_free(start * PAGE_SIZE));
                    prop_assert_eq!(range.is_some(), fits);
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
