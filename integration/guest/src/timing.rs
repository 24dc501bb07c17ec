// SPDX-License-Identifier: MIT OR Apache-2.0

//! Distributions of times.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Instant;

/// Calls before the first that is timed.
pub(crate) const WARM_UP: u64 = 200;
/// The longest time that is distinguished from longer ones, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// Percentiles of times, in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    /// The number of times.
    pub samples: u64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p99_9: u64,
    /// The maximum.
    pub max: u64,
    /// The distribution.
    #[serde(skip)]
    pub curve: Curve,
}

/// A distribution of times: shares of all calls, each with the nanoseconds that this share exceeded.
pub type Curve = Vec<(f64, f64)>;

/// The shares of a [`Curve`].
const SHARES: [f64; 19] = [
    1.0, 0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.0025, 0.001, 0.0005,
    0.00025, 0.0001, 0.00005, 0.00001,
];

/// The points of the shares that have at least one call.
fn curve(times: &Histogram<u64>) -> Curve {
    let shares = SHARES.into_iter().filter(|share| share * times.len() as f64 >= 1.0);
    shares.map(|share| (share, times.value_at_quantile(1.0 - share) as f64)).collect()
}

/// An empty histogram of times in nanoseconds.
pub(crate) fn times() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LONGEST, 3)?)
}

impl Latency {
    /// Percentiles of these nanoseconds.
    ///
    /// # Errors
    /// None that these times cause.
    pub fn of_all(nanoseconds: impl IntoIterator<Item = u64>) -> anyhow::Result<Self> {
        let mut all = times()?;
        nanoseconds.into_iter().for_each(|time| all.saturating_record(time));
        Ok(Self::of(&all))
    }

    /// Percentiles of recorded nanoseconds.
    pub(crate) fn of(times: &Histogram<u64>) -> Self {
        Self {
            samples: times.len(),
            p50: times.value_at_quantile(0.5),
            p90: times.value_at_quantile(0.9),
            p99: times.value_at_quantile(0.99),
            p99_9: times.value_at_quantile(0.999),
            max: times.max(),
            curve: curve(times),
        }
    }
}

/// The middle value; of an even number of values, the greater of the middle two.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Times `count` calls after a warm-up.
///
/// # Errors
/// The first that a call has.
pub fn time<E>(count: u64, mut call: impl FnMut() -> Result<(), E>) -> anyhow::Result<Latency>
where
    anyhow::Error: From<E>,
{
    for _ in 0..WARM_UP.min(count) {
        call()?;
    }
    time_all(count, call)
}

/// Times `count` calls without a warm-up.
///
/// # Errors
/// The first that a call has.
pub fn time_all<E>(count: u64, mut call: impl FnMut() -> Result<(), E>) -> anyhow::Result<Latency>
where
    anyhow::Error: From<E>,
{
    let mut times = times()?;
    for _ in 0..count {
        let start = Instant::now();
        call()?;
        times.saturating_record(start.elapsed().as_nanos() as u64);
    }
    Ok(Latency::of(&times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_shares_of_at_least_one_call_and_what_they_took_longer_than() {
        let mut recorded = times().unwrap();
        (1..=100).for_each(|time| recorded.record(time).unwrap());
        let curve = Latency::of(&recorded).curve;
        assert_eq!((curve[0], curve.last()), ((1.0, 1.0), Some(&(0.01, 99.0))));
        assert!(curve.contains(&(0.5, 50.0)) && curve.contains(&(0.1, 90.0)), "{curve:?}");
    }
}
