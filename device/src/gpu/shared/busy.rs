// SPDX-License-Identifier: MIT OR Apache-2.0

//! Busy times of engines and queues.

use std::sync::atomic::{AtomicU64, Ordering};

/// Set while busy. The adapter's clock reaches this bit after 292 years.
const BUSY: u64 = 1 << 63;

/// A busy time, which advances while its owner is busy. One thread starts and stops it; any thread reads it.
///
/// It is one word, so that no reader sees half of a change. While the owner is idle, the word holds the busy time;
/// while the owner is busy, it holds the moment on the adapter's clock at which the busy time would have been 0. A
/// long turn therefore counts before it ends. Relaxed: the word hands nothing over.
#[derive(Debug, Default)]
pub struct Busy(AtomicU64);

impl Busy {
    /// Engine: is busy from `now` on the adapter's clock.
    #[inline]
    pub fn begin(&self, now: u64) {
        let time = self.0.load(Ordering::Relaxed);
        self.0.store(BUSY | now.saturating_sub(time), Ordering::Relaxed);
    }

    /// Engine: is idle from `now` on the adapter's clock.
    #[inline]
    pub fn end(&self, now: u64) {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(now.saturating_sub(word & !BUSY), Ordering::Relaxed);
    }

    /// Busy time until `now` in nanoseconds; the word is read before the clock. If the host suspends an engine's
    /// thread just before the thread ends the busy period, the suspended time is taken back.
    pub fn read(&self, now: impl FnOnce() -> u64) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        if word & BUSY == 0 { word } else { now().saturating_sub(word & !BUSY) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_while_it_is_busy_and_stands_while_it_is_not() {
        let busy = Busy::default();
        assert_eq!(busy.read(|| 100), 0);
        busy.begin(100);
        assert_eq!([100, 130].map(|now| busy.read(|| now)), [0, 30]);
        busy.end(150);
        assert_eq!([150, 1000].map(|now| busy.read(|| now)), [50, 50]);
        busy.begin(1000);
        assert_eq!(busy.read(|| 1007), 57);
        busy.end(1010);
        assert_eq!(busy.read(|| 5000), 60);
    }
}
