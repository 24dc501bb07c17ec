// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which of a queue's short turns an engine times.
//!
//! When a guest submits one command buffer at a time and waits for it, each gets a turn that takes hardly longer
//! than two reads of the clock. The engine times one such turn in [`PERIOD`], as a sample for the turns before it.
//! It times all other turns: those that follow another turn, those that other queues wait for, and those that
//! execute more than bursts.

/// One turn in this many is timed.
const PERIOD: u32 = 16;
/// The most nanoseconds that an untimed turn is counted for. Such a turn executed one burst; if a sample took
/// longer, the engine's thread was not running.
const LONGEST: u64 = 10_000;

/// The short turns of one queue.
#[derive(Debug, Default)]
pub struct Sampling {
    /// Turns left that need not be timed.
    free: u32,
    /// Turns since the last timed one.
    skipped: u32,
}

impl Sampling {
    /// Whether the next turn must be timed.
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

    /// A turn that was due took `time` nanoseconds. Returns the time of the turns that were skipped before it.
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
