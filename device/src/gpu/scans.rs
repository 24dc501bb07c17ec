//! When an engine that executes looks at all of its doorbells, and not at some.
//!
//! Between two turns it looks at those that rang of late and at a few others. Turns may be long, so now and
//! then it looks at all: that is a matter of time, not of turns, or many short ones would make it look at
//! hundreds of doorbells for each few packets.

use std::time::{Duration, Instant};

/// How many of its doorbells an engine looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// See [`Watches::look`](super::watches::Watches::look).
    Partial,
    /// See [`Watches::look_at_all`](super::watches::Watches::look_at_all).
    Full,
}

/// From one full scan to the next: about what the longest turn takes.
const PERIOD: Duration = Duration::from_micros(100);
/// The same for each doorbell, where they are many. A look takes a tenth of it.
const PERIOD_OF_A_DOORBELL: Duration = Duration::from_nanos(50);
/// Bytes that turns move in about [`PERIOD`], where no clock tells.
const BYTES_IN_A_PERIOD: usize = 256 << 10;

/// What an engine has done since its last full scan.
#[derive(Debug, Default)]
pub struct Scans {
    /// When it was, if that is known.
    last: Option<Instant>,
    moved: usize,
}

impl Scans {
    /// After a turn that ended at `now`, if the clock was looked at, and moved so many bytes.
    #[inline]
    pub fn after_turn(&mut self, now: Option<Instant>, moved: usize, doorbells: usize) -> Scan {
        self.moved = self.moved.saturating_add(moved);
        let has_passed = now.is_some_and(|now| self.has_passed(now, doorbells));
        if !has_passed && self.moved < BYTES_IN_A_PERIOD {
            return Scan::Partial;
        }
        *self = Self { last: now, moved: 0 };
        Scan::Full
    }

    fn has_passed(&mut self, now: Instant, doorbells: usize) -> bool {
        let count = u32::try_from(doorbells).unwrap_or(u32::MAX);
        let period = PERIOD.max(PERIOD_OF_A_DOORBELL.saturating_mul(count));
        now.saturating_duration_since(*self.last.get_or_insert(now)) >= period
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Full scans among turns of this length.
    fn full(turns: u32, turn: Duration, moved: usize, doorbells: usize, has_clock: bool) -> usize {
        let (mut scans, start) = (Scans::default(), Instant::now());
        let turns = (1..=turns).map(|turn_number| start + turn * turn_number);
        let ends = turns.map(|end| scans.after_turn(has_clock.then_some(end), moved, doorbells));
        ends.filter(|scan| *scan == Scan::Full).count()
    }

    #[test]
    fn many_short_turns_are_one_full_scan_in_a_while() {
        // 256 packets that do nothing.
        assert!((9..=10).contains(&full(500, Duration::from_micros(2), 0, 64, true)));
        assert!((1..=2).contains(&full(2000, Duration::from_micros(1), 0, 16_384, true)));
    }

    #[test]
    fn each_long_turn_is_followed_by_a_full_scan() {
        assert!(full(100, Duration::from_millis(1), 0, 64, true) >= 99);
        assert_eq!(full(100, Duration::ZERO, 512 << 10, 64, false), 100);
    }

    #[test]
    fn turns_that_no_clock_sees_are_counted_by_what_they_move() {
        assert_eq!(full(1000, Duration::ZERO, 0, 64, false), 0);
        assert_eq!(full(64, Duration::ZERO, 16 << 10, 64, false), 4);
    }
}
