// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which of a queue's short turns an engine times.
//!
//! A guest that submits one command buffer and waits for it has a turn for each, which takes hardly longer than
//! two looks at the clock. Of such turns the engine times one in [`PERIOD`], which stands for those before it.
//! All others are timed: those that follow another turn, that other queues wait for, or that execute anything
//! but bursts.

/// One in so many is timed.
const PERIOD: u32 = 16;
/// Nanoseconds that a turn that was not timed counts for at most. It has executed one burst; what is measured
/// beyond it the engine's thread did not run for.
const LONGEST: u64 = 10_000;

/// The short turns of one queue.
#[derive(Debug, Default)]
pub struct Sampling {
    /// Turns that need not be timed before the next that is.
    free: u32,
    /// Turns since the last that was timed.
    skipped: u32,
}

impl Sampling {
    /// Whether the next turn is to be timed.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.free == 0
    }

    /// A turn was not timed.
    #[inline]
    pub fn skip(&mut self) {
        self.free = self.free.saturating_sub(1);
        self.skipped += 1;
    }

    /// A turn that was due took so many nanoseconds. Returns the time of those that were skipped before it.
    #[inline]
    pub fn sample(&mut self, time: u64) -> u64 {
        let skipped = u64::from(std::mem::take(&mut self.skipped));
        self.free = PERIOD - 1;
        time.min(LONGEST) * skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_take_equally_long_count_for_what_they_take() {
        let (mut sampling, mut timed, mut counted) = (Sampling::default(), 0, 0);
        for turn in 0..u64::from(PERIOD) * 100 + 1 {
            if sampling.is_due() {
                timed += 1;
                counted += 500 + sampling.sample(500);
                assert_eq!(counted, 500 * (turn + 1));
            } else {
                sampling.skip();
            }
        }
        assert_eq!(timed, 101);
    }

    #[test]
    fn what_an_engine_did_not_run_for_counts_once() {
        let mut sampling = Sampling::default();
        assert_eq!(sampling.sample(5), 0);
        for _ in 1..PERIOD {
            assert!(!sampling.is_due());
            sampling.skip();
        }
        assert!(sampling.is_due());
        assert_eq!(sampling.sample(50_000_000), u64::from(PERIOD - 1) * LONGEST);
    }
}
