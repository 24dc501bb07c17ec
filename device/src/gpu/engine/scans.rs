// SPDX-License-Identifier: MIT OR Apache-2.0

//! When an executing engine looks at all of its doorbells instead of a few.
//!
//! Between two turns the engine looks at the doorbells that rang lately and at a few others. Turns may be
//! long, so at intervals it looks at all doorbells. The interval is a time and not a number of turns: with
//! short turns, a number would make the engine look at hundreds of doorbells for every few packets.

/// How many of its doorbells an engine looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// See [`Watches::look`](super::watches::Watches::look).
    Partial,
    /// See [`Watches::look_at_all`](super::watches::Watches::look_at_all).
    Full,
}

/// Nanoseconds from one full scan to the next: about what the longest turn takes.
const PERIOD: u64 = 100_000;
/// Nanoseconds from one full scan to the next for each doorbell, where doorbells are many. A look takes a
/// tenth of it.
pub const PERIOD_OF_A_DOORBELL: u64 = 50;

/// The last full scan of an engine that executes.
#[derive(Debug, Default)]
pub struct Scans {
    /// The time of the scan, on the adapter's clock.
    last: u64,
}

impl Scans {
    /// After a turn that ended at `now` on the adapter's clock: what an engine that watches this many doorbells
    /// looks at.
    #[inline]
    pub fn after_turn(&mut self, now: u64, doorbells: usize) -> Scan {
        let period = PERIOD.max(PERIOD_OF_A_DOORBELL.saturating_mul(doorbells as u64));
        if now.saturating_sub(self.last) < period {
            return Scan::Partial;
        }
        self.last = now;
        Scan::Full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Full scans among turns of so many nanoseconds.
    fn full(turns: u64, turn: u64, doorbells: usize) -> usize {
        let mut scans = Scans::default();
        let ends = (1..=turns).map(|turn_number| scans.after_turn(turn * turn_number, doorbells));
        ends.filter(|scan| *scan == Scan::Full).count()
    }

    #[test]
    fn many_short_turns_are_one_full_scan_in_a_while() {
        // 256 packets that do nothing.
        assert_eq!(full(500, 2_000, 64), 10);
        assert_eq!(full(2000, 1_000, 16_384), 2);
    }

    #[test]
    fn each_long_turn_is_followed_by_a_full_scan() {
        assert_eq!(full(100, 1_000_000, 64), 100);
    }
}
