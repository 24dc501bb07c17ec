// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where work runs: in as many threads as the worker may use, or one work group after the other.
//!
//! Lavapipe executes dispatches one after the other, each in several threads, which have to be woken. A work group runs in
//! one thread in any case, so work of one group at a time needs none of that. Work of several groups is quicker without
//! threads if it is small. How small nobody knows beforehand, so work that comes again is tried both ways.

use super::lane::Lane;
use super::work::Work;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How often work runs in threads before it is tried without.
const FIRST: u32 = 8;
/// How often it is tried without. The first time says little: it is recorded then.
const TRIES: u32 = 4;
/// What takes longer in threads is not tried without.
const SHORT: Duration = Duration::from_micros(200);
/// Every so many runs, the slower way is tried again, as often.
const AGAIN: u32 = 512;
/// The runs among so many in which it is tried without threads end here, and those with threads.
const TRIED: u32 = FIRST + TRIES;
const TRIED_BOTH: u32 = TRIED + TRIES;
/// Most works that are remembered.
const MOST: usize = 1024;

/// The lanes of one device.
pub struct Lanes<'d> {
    /// Runs work groups in as many threads as the worker may use.
    wide: Lane<'d>,
    /// The same device without threads of its own, which runs work groups one after the other.
    narrow: Option<Lane<'d>>,
    /// By the hash of work of several groups.
    known: HashMap<u64, Known>,
}

impl<'d> Lanes<'d> {
    pub fn new(wide: Lane<'d>, narrow: Option<Lane<'d>>) -> Self {
        Self { wide, narrow, known: HashMap::new() }
    }

    /// All of them.
    pub fn each(&mut self) -> impl Iterator<Item = &mut Lane<'d>> {
        [&mut self.wide].into_iter().chain(&mut self.narrow)
    }

    /// Runs work in the lane that suits it.
    pub fn run<T, E>(
        &mut self,
        work: &Work,
        run: impl FnOnce(&mut Lane<'d>) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(narrow) = &mut self.narrow else { return run(&mut self.wide) };
        if work.is_narrow() {
            return run(narrow);
        }
        let work = work.number();
        if self.known.len() >= MOST && !self.known.contains_key(&work) {
            self.known.clear();
        }
        let known = self.known.entry(work).or_default();
        let way = known.way();
        let begin = Instant::now();
        let done = run(match way {
            Way::Wide => &mut self.wide,
            Way::Narrow => narrow,
        })?;
        known.took(way, begin.elapsed());
        Ok(done)
    }
}

/// A lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Wide,
    Narrow,
}

/// What is known of some work.
#[derive(Debug, Default)]
struct Known {
    /// How often it ran.
    runs: u32,
    wide: Typical,
    narrow: Typical,
}

impl Known {
    /// The way to run it next. It stays until a run has succeeded.
    fn way(&self) -> Way {
        let Some(wide) = self.wide.0.filter(|wide| *wide <= SHORT) else { return Way::Wide };
        match (self.runs % AGAIN, self.narrow.0) {
            (0..FIRST, None) => Way::Wide,
            (_, None) | (FIRST..TRIED, _) => Way::Narrow,
            (TRIED..TRIED_BOTH, _) => Way::Wide,
            (_, Some(narrow)) if narrow < wide => Way::Narrow,
            (_, Some(_)) => Way::Wide,
        }
    }

    fn took(&mut self, way: Way, time: Duration) {
        self.runs = self.runs.wrapping_add(1);
        match way {
            Way::Wide => self.wide.took(time),
            Way::Narrow => self.narrow.took(time),
        }
    }
}

/// The time that work takes if nothing is in its way: memory that lacks, another's turn, a recording.
#[derive(Debug, Default)]
struct Typical(Option<Duration>);

impl Typical {
    /// Forgets the least time by and by, since work may grow.
    fn took(&mut self, time: Duration) {
        self.0 = Some(self.0.map_or(time, |least| time.min(least + least / 16)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(number: u64) -> Duration {
        Duration::from_micros(number)
    }

    /// Runs work so often whose times are these, and counts the runs in the narrow lane.
    fn run(known: &mut Known, times: u32, wide: Duration, narrow: Duration) -> u32 {
        let mut count = 0;
        for _ in 0..times {
            let way = known.way();
            count += u32::from(way == Way::Narrow);
            known.took(way, if way == Way::Wide { wide } else { narrow });
        }
        count
    }

    #[test]
    fn short_work_that_comes_again_runs_where_it_is_quicker() {
        let mut known = Known::default();
        assert_eq!(run(&mut known, FIRST, micros(50), micros(20)), 0);
        assert_eq!(run(&mut known, 100, micros(50), micros(20)), 100 - TRIES);
        let mut known = Known::default();
        assert_eq!(run(&mut known, 200, micros(50), micros(300)), TRIES);
    }

    #[test]
    fn long_work_keeps_its_threads() {
        let mut known = Known::default();
        assert_eq!(run(&mut known, 5000, SHORT + micros(1), micros(1)), 0);
    }

    #[test]
    fn the_slower_way_is_tried_again_and_may_have_become_the_quicker_one() {
        let mut known = Known::default();
        run(&mut known, AGAIN, micros(50), micros(20));
        // Now the narrow lane has become slower, and the other is looked at again.
        assert!(run(&mut known, AGAIN, micros(50), micros(400)) < 30);
        run(&mut known, AGAIN, micros(50), micros(20));
        assert_eq!(known.way(), Way::Narrow);
    }

    #[test]
    fn the_first_time_without_threads_does_not_decide() {
        let mut known = Known::default();
        run(&mut known, FIRST, micros(50), micros(20));
        known.took(Way::Narrow, micros(9_000));
        run(&mut known, TRIES - 1, micros(50), micros(20));
        run(&mut known, TRIES, micros(50), micros(20));
        assert_eq!(known.way(), Way::Narrow);
    }

    #[test]
    fn what_was_in_the_way_of_a_run_counts_for_little() {
        let mut known = Known::default();
        run(&mut known, 100, micros(50), micros(20));
        known.took(Way::Narrow, micros(30_000));
        assert_eq!(known.way(), Way::Narrow);
    }
}
