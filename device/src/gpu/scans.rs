//! When an engine that executes looks at all of its doorbells, and not at some.
//!
//! Between two turns it looks at those that rang of late and at a few others. Turns may be long, so now and
//! then it looks at all: that is a matter of time, not of turns, or many short ones would make it look at
//! hundreds of doorbells for each few packets.

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
/// The same for each doorbell, where they are many. A look takes a tenth of it.
const PERIOD_OF_A_DOORBELL: u64 = 50;

/// The last full scan of an engine that executes.
#[derive(Debug, Default)]
pub struct Scans {
    /// When it was, on the adapter's clock.
    last: u64,
}

impl Scans {
    /// After a turn that ended at `now` on the adapter's clock, of an engine that watches so many doorbells.
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
