// SPDX-License-Identifier: MIT OR Apache-2.0

//! When to yield the processor while polling shared memory.
//!
//! Driver and engine poll each other's words without a system call, which takes a processor each. Where they share
//! one, each waits for a thread that cannot run until the other's time slice ends, so both yield after a few
//! microseconds of fruitless polling. Where they do not share one, a yield helps no one; so each thread learns
//! whether yielding helps.
//!
//! What a thread has awaited for long is the work of several others in turn, such as engine, worker and threads of Vulkan, of
//! which any may have come to this processor meanwhile. A yield costs little beside so long a wait, so it need not have helped
//! before.

use core::time::Duration;

/// Maximum number of spells between two yields.
const MOST_SPELLS: u32 = 256;
/// A shorter yield found no other thread to run.
const EMPTY: Duration = Duration::from_nanos(500);
/// A longer yield gave the processor to a thread with work of its own.
const LONG: Duration = Duration::from_micros(500);

/// What a polling thread knows of the threads that share its processor.
///
/// A spell is a number of fruitless looks. A yield helps if another thread ran, briefly, and the next look
/// succeeds. Each yield that did not help doubles the number of spells before the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Yields {
    /// Spells from one yield to the next.
    interval: u32,
    /// Spells until the next yield.
    left: u32,
    /// Duration of the last yield, until its effect is known.
    last: Option<Duration>,
    /// The last yield with a known effect helped.
    shares_processor: bool,
    /// The last yield gave the processor to a thread with work of its own.
    is_dear: bool,
}

impl Yields {
    /// The state of a thread that has learned nothing: its first spell ends with a yield.
    #[must_use]
    pub const fn new() -> Self {
        Self { interval: 0, left: 0, last: None, shares_processor: false, is_dear: false }
    }

    /// Returns whether the polled side runs on this processor: a long spell then only keeps it from running.
    #[must_use]
    #[inline]
    pub const fn shares_processor(&self) -> bool {
        self.shares_processor
    }

    /// Called after a spell. Calls `give_away`, which yields and returns how long that took, if a yield is likely
    /// to help. Returns whether it called `give_away`.
    pub fn spell(&mut self, give_away: impl FnOnce() -> Duration) -> bool {
        if self.last.take().is_some() {
            self.back_off();
        }
        let Some(left) = self.left.checked_sub(1) else {
            let took = give_away();
            self.is_dear = took >= LONG;
            self.last = Some(took);
            return true;
        };
        self.left = left;
        false
    }

    /// As [`Self::spell`], in a wait that has taken long: yields unless the last yield went to a thread with work of its own.
    /// From the yields that it adds nothing else is learned.
    pub fn late_spell(&mut self, give_away: impl FnOnce() -> Duration) -> bool {
        let mut give_away = Some(give_away);
        let gave_away =
            self.spell(|| give_away.take().map_or(Duration::ZERO, |give_away| give_away()));
        match give_away {
            Some(give_away) if !self.is_dear => {
                self.is_dear = give_away() >= LONG;
                true
            }
            _ => gave_away,
        }
    }

    /// Called when a look succeeded.
    #[inline]
    pub fn progress(&mut self) {
        if let Some(took) = self.last.take() {
            self.learn(took);
        }
    }

    #[cold]
    fn learn(&mut self, took: Duration) {
        if (EMPTY..LONG).contains(&took) {
            *self = Self { shares_processor: true, ..Self::new() };
        } else {
            self.back_off();
        }
    }

    fn back_off(&mut self) {
        self.shares_processor = false;
        self.interval = (2 * self.interval + 1).min(MOST_SPELLS);
        self.left = self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(5);

    /// Number of spells without progress that end in a yield.
    fn yields(yields: &mut Yields, spells: u32) -> u32 {
        (0..spells).map(|_| u32::from(yields.spell(|| SHORT))).sum()
    }

    #[test]
    fn threads_in_lockstep_on_one_processor_give_it_away_after_every_spell() {
        let mut learned = Yields::new();
        assert!(!learned.shares_processor());
        for _ in 0..1000 {
            assert!(learned.spell(|| SHORT));
            learned.progress();
            assert!(learned.shares_processor());
        }
        // Only while yielding helps.
        learned.spell(|| SHORT);
        learned.spell(|| SHORT);
        assert!(!learned.shares_processor());
    }

    #[test]
    fn a_yield_after_which_no_other_thread_ran_is_of_no_use_whatever_comes_next() {
        let mut learned = Yields::new();
        let mut given = 0;
        for _ in 0..10_000 {
            given += u32::from(learned.spell(|| Duration::from_nanos(140)));
            learned.progress();
        }
        assert!(given < 60 && !learned.shares_processor(), "{given}");
    }

    #[test]
    fn a_thread_with_a_processor_of_its_own_hardly_ever_gives_it_away() {
        let mut learned = Yields::new();
        assert!(yields(&mut learned, 100_000) < 500);
        // Progress long after a yield says nothing about the yield.
        for _ in 0..1000 {
            yields(&mut learned, 3);
            learned.progress();
        }
        assert!(yields(&mut learned, 10_000) < 50);
    }

    #[test]
    fn what_was_learned_is_forgotten_with_the_first_yield_that_is_of_use() {
        let mut learned = Yields::new();
        yields(&mut learned, 100_000);
        while !learned.spell(|| SHORT) {}
        learned.progress();
        assert!(learned.spell(|| SHORT));
    }

    #[test]
    fn a_thread_that_waits_for_long_lets_whoever_comes_run_whatever_it_has_learned() {
        let mut learned = Yields::new();
        yields(&mut learned, 100_000);
        let before = learned;
        assert!((0..100).all(|_| learned.late_spell(|| SHORT)));
        // Short waits are as they were.
        assert_eq!(learned.interval, before.interval);
        assert!(!learned.shares_processor());
    }

    #[test]
    fn a_thread_that_waits_for_long_beside_one_that_computes_keeps_its_processor() {
        let mut learned = Yields::new();
        let slice = Duration::from_millis(3);
        let mut given = 0;
        for _ in 0..10_000 {
            given += u32::from(learned.late_spell(|| slice));
        }
        assert!(given < 60, "{given}");
        // The other thread has ended, which the next yield that is due finds out.
        let late: u32 = (0..1000).map(|_| u32::from(learned.late_spell(|| SHORT))).sum();
        assert!(late > 500, "{late}");
    }

    #[test]
    fn a_thread_beside_one_that_computes_stops_giving_its_processor_to_that_one() {
        let mut learned = Yields::new();
        let slice = Duration::from_millis(3);
        let mut given = 0;
        for _ in 0..10_000 {
            given += u32::from(learned.spell(|| slice));
            // Meanwhile the awaited value came from another processor.
            learned.progress();
        }
        assert!(given < 60, "{given}");
    }
}
