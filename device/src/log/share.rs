// SPDX-License-Identifier: MIT OR Apache-2.0

//! A source's share of the log.

use crate::allowance::{Allowance, Rate};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A source's use of its share, and its count of suppressed lines.
#[derive(Debug)]
pub(super) struct Share {
    /// The source's name in summaries.
    pub(super) name: String,
    /// The lines that it may log.
    allowance: Allowance,
    /// Lines suppressed since the last summary.
    left_out: AtomicU64,
}

impl Share {
    pub(super) fn new(name: String) -> Self {
        Self { name, allowance: Allowance::default(), left_out: AtomicU64::new(0) }
    }

    /// Gives the source a rate of its own.
    pub(super) fn set_rate(&self, rate: Rate) {
        self.allowance.set_rate(rate);
    }

    /// Charges a line and returns whether the source may log it: `now` since the log's start.
    pub(super) fn take(&self, now: Duration, rate: Rate) -> bool {
        self.allowance.take(now, rate).is_ok()
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
