// SPDX-License-Identifier: MIT OR Apache-2.0

//! The number of doorbells that an executing engine looks at after a turn.
//!
//! Between two turns, the engine looks at the doorbells that rang lately and at a few others. Turns may be long, so
//! the number of others follows from the time: the engine looks at each within [`PERIOD`] or, if there are many
//! doorbells, within [`PERIOD_OF_A_DOORBELL`] for each. The number of turns does not count, because short turns
//! would then make the engine look at hundreds of doorbells for every few packets. The engine looks at all
//! doorbells in one go only after a turn as long as the period, so the looks never take a greater part of its time.

/// Nanoseconds in which an engine looks at all doorbells: about the longest turn.
const PERIOD: u64 = 100_000;
/// Nanoseconds for each doorbell, if there are many. A look takes a tenth of it.
pub const PERIOD_OF_A_DOORBELL: u64 = 50;

/// How far an executing engine has looked at its doorbells.
#[derive(Debug, Default)]
pub struct Scans {
    /// The time, on the adapter's clock, that the looks so far account for.
    done: u64,
    /// The end of the last turn that was timed, on the adapter's clock.
    now: u64,
}

impl Scans {
    /// A turn ended at `now` on the adapter's clock.
    #[inline]
    pub fn end_turn(&mut self, now: u64) {
        self.now = now;
    }

    /// The number of looks that are due, for an engine that watches this many doorbells. No more are due before
    /// another turn has ended.
    #[inline(never)]
    pub fn due(&mut self, doorbells: usize) -> usize {
        let (now, doorbells) = (self.now, doorbells as u64);
        let each = (PERIOD / doorbells.max(1)).max(PERIOD_OF_A_DOORBELL);
        let due = now.saturating_sub(self.done) / each;
        // A remainder of time carries over to the next turn. Time that no look was due for does not.
        self.done = if due < doorbells { self.done + due * each } else { now };
        due.min(doorbells) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks after each of `turns` turns of `turn` nanoseconds.
    fn looks(turns: u64, turn: u64, doorbells: usize) -> Vec<usize> {
        let mut scans = Scans::default();
        let looks_after = |number| {
            scans.end_turn(turn * number);
            let due = scans.due(doorbells);
            assert_eq!(scans.due(doorbells), 0, "a turn counts twice");
            due
        };
        (1..=turns).map(looks_after).collect()
    }

    #[test]
    fn short_turns_share_the_looks_of_a_period() {
        // 256 `NOP`s. In total, ten looks at each doorbell in a millisecond.
        let of_few = looks(500, 2_000, 64);
        assert_eq!((of_few.iter().sum::<usize>(), of_few.iter().max()), (640, Some(&2)));
        let of_many = looks(2000, 1_000, 16_384);
        assert_eq!((of_many.iter().sum::<usize>(), of_many.iter().max()), (40_000, Some(&20)));
    }

    #[test]
    fn a_turn_as_long_as_the_period_is_followed_by_a_look_at_all() {
        assert_eq!(looks(100, 1_000_000, 64), [64; 100]);
        assert_eq!(looks(10, 819_200, 16_384), [16_384; 10]);
        assert_eq!(looks(1, u64::MAX, 0), [0]);
    }

    #[test]
    fn turns_shorter_than_a_look_add_up() {
        assert_eq!(looks(100, 10, 16_384).iter().sum::<usize>(), 20);
    }
}
