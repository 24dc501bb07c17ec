// SPDX-License-Identifier: MIT OR Apache-2.0

//! Times of the queues of one row, as distributions.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// The longest time that is distinguished from longer ones, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// A distribution of times.
#[derive(Debug, Clone)]
pub(in crate::harness) struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST, 2).expect("a histogram has such bounds"))
    }
}

impl Times {
    pub(in crate::harness) fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(in crate::harness) fn add(&mut self, other: &Self) {
        // Both have the same bounds, so that all values fit.
        let _ = self.0.add(&other.0);
    }

    pub(in crate::harness) fn summary(&self) -> Waits {
        Waits {
            samples: self.0.len(),
            p50_ns: self.0.value_at_quantile(0.5),
            p90_ns: self.0.value_at_quantile(0.9),
            p99_ns: self.0.value_at_quantile(0.99),
            p99_9_ns: self.0.value_at_quantile(0.999),
            max_ns: self.0.max(),
        }
    }
}

/// Percentiles of times, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// The number of times.
    pub samples: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p99_9_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}

/// The times of one row.
#[derive(Debug, Clone, Default)]
pub(in crate::harness) struct Measure {
    /// From a submission to its completion, as the submitting thread saw it.
    pub(in crate::harness) latency: Times,
    /// The duration of rings that had to connect the doorbell first.
    pub(in crate::harness) connect: Times,
}

impl Measure {
    pub(in crate::harness) fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.connect.add(&other.connect);
    }
}
