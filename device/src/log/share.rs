// SPDX-License-Identifier: MIT OR Apache-2.0

//! A source's share of the log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A source's use of its share, and its count of suppressed lines.
#[derive(Debug)]
pub(super) struct Share {
    /// The source's name in summaries.
    pub(super) name: String,
    /// When the share is whole again, in nanoseconds since the log's start. The source may log a line while that
    /// time is less than a burst away.
    whole_at: AtomicU64,
    /// Lines suppressed since the last summary.
    left_out: AtomicU64,
}

impl Share {
    pub(super) fn new(name: String) -> Self {
        Self { name, whole_at: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// Charges a line and returns whether the source may log it: `now` since the log's start, one line per
    /// `interval` in the long run and `burst` at once.
    pub(super) fn take(&self, now: Duration, interval: Duration, burst: u32) -> bool {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (now, cost) = (nanoseconds(now), nanoseconds(interval));
        let most = now.saturating_add(cost.saturating_mul(burst.into()));
        let charge = |whole_at: u64| {
            let whole_at = whole_at.max(now).saturating_add(cost);
            (whole_at <= most).then_some(whole_at)
        };
        // Relaxed: the number hands nothing over.
        self.whole_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge).is_ok()
    }

    /// Counts a suppressed line; returns true for the first since the last summary.
    pub(super) fn leave_out(&self) -> bool {
        // Relaxed: the number hands nothing over; the list of shares has a lock.
        self.left_out.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Takes the number of lines suppressed since the last call.
    pub(super) fn take_left_out(&self) -> u64 {
        self.left_out.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_had_at_once_and_then_a_line_for_each_interval() {
        let share = Share::new(String::new());
        let interval = Duration::from_millis(100);
        let lines_at = |milliseconds| {
            let now = Duration::from_millis(milliseconds);
            (0..1000).filter(|_| share.take(now, interval, 5)).count()
        };
        assert_eq!([0, 0, 99, 100, 350, 10_000].map(lines_at), [5, 0, 0, 1, 2, 5]);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let share = Share::new(String::new());
        assert!(share.take(Duration::MAX, Duration::MAX, u32::MAX));
        assert!(
            share.take(Duration::ZERO, Duration::ZERO, 1)
                || share.whole_at.load(Ordering::Relaxed) > 0
        );
    }
}
