// SPDX-License-Identifier: MIT OR Apache-2.0

//! The change of a figure, with its confidence interval.

use distrs::StudentsT;
use serde::Serialize;

/// The confidence of an interval: of a hundred, one does not contain the true ratio.
pub const CONFIDENCE: f64 = 0.99;

/// The ratio of a figure to its earlier value, with the interval that contains the true ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The geometric mean now over that before.
    pub ratio: f64,
    /// The interval's ends. Null where a side has one value, which does not show its noise.
    pub interval: Option<[f64; 2]>,
}

/// The mean, and the variance of the mean.
struct Sample {
    mean: f64,
    variance: f64,
    /// Degrees of freedom.
    freedom: f64,
}

impl Sample {
    /// The sample of the values' logarithms: times and rates vary by factors, and the difference of two means is
    /// then the logarithm of a ratio. `None` unless all values are positive.
    fn of_logarithms(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| *value <= 0.0 || !value.is_finite()) {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().map(|value| value.ln()).sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value.ln() - mean).powi(2)).sum();
        let freedom = count - 1.0;
        // Not defined for one value, and not used.
        let variance = if freedom > 0.0 { squares / freedom / count } else { 0.0 };
        Some(Self { mean, variance, freedom })
    }
}

impl Change {
    /// The change from the values of one run's repetitions to those of another, by Welch's method: the two
    /// runs may vary differently. `None` where a value is not positive, so that there is no ratio.
    #[must_use]
    pub fn of(before: &[f64], now: &[f64]) -> Option<Self> {
        let (before, now) = (Sample::of_logarithms(before)?, Sample::of_logarithms(now)?);
        let change = now.mean - before.mean;
        let (a, b) = (before.variance, now.variance);
        let interval = (before.freedom > 0.0 && now.freedom > 0.0).then(|| {
            let error = (a + b).sqrt();
            // Welch and Satterthwaite; without any variance, any degrees of freedom give a point interval.
            let freedom = if error > 0.0 {
                (a + b).powi(2) / (a.powi(2) / before.freedom + b.powi(2) / now.freedom)
            } else {
                before.freedom + now.freedom
            };
            let half = quantile(freedom) * error;
            [(change - half).exp(), (change + half).exp()]
        });
        Some(Self { ratio: change.exp(), interval })
    }
}

/// The quantile of Student's distribution that leaves half of the rest on either side.
fn quantile(freedom: f64) -> f64 {
    StudentsT::ppf((1.0 + CONFIDENCE) / 2.0, freedom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-3, "{value} and not {expected}");
    }

    #[test]
    fn quantiles_are_those_of_printed_tables() {
        for (freedom, expected) in
            [(1.0, 63.657), (2.0, 9.925), (4.0, 4.604), (10.0, 3.169), (120.0, 2.617)]
        {
            assert_near(quantile(freedom), expected);
        }
    }

    #[test]
    fn the_interval_of_powers_of_two_is_the_one_worked_out_by_hand() {
        // In logarithms to base 2 the values are 0, 1, 2 and 2, 3, 4: means 1 and 3, variances 1 and 1, so the
        // error of the difference 2 is the root of 2/3, 0.8165, with 4 degrees of freedom. The interval is
        // 2 -+ 4.604 * 0.8165 = -1.7592 and 5.7592, as powers of two 0.2954 and 54.16.
        let change = Change::of(&[1.0, 2.0, 4.0], &[4.0, 8.0, 16.0]).unwrap();
        assert_near(change.ratio, 4.0);
        let [low, high] = change.interval.unwrap();
        assert_near(low, 0.2954);
        assert_near(high, 54.16);
    }

    #[test]
    fn a_side_without_noise_leaves_the_freedom_of_the_other() {
        // Before: 8 each time. Now: 2, 4, 8 have the logarithms 1, 2, 3 to base 2: mean 2, variance 1. The
        // error of the difference -1 is the root of 1/3, 0.57735, with 2 degrees of freedom: -1 -+ 9.925 *
        // 0.57735 = -6.7302 and 4.7302, as powers of two 0.009419 and 26.54.
        let change = Change::of(&[8.0, 8.0, 8.0], &[2.0, 4.0, 8.0]).unwrap();
        assert_near(change.ratio, 0.5);
        let [low, high] = change.interval.unwrap();
        assert_near(low, 0.009_419);
        assert_near(high, 26.54);
    }

    #[test]
    fn without_any_noise_the_interval_is_the_ratio() {
        let change = Change::of(&[10.0, 10.0], &[15.0, 15.0, 15.0]).unwrap();
        let [low, high] = change.interval.unwrap();
        for value in [change.ratio, low, high] {
            assert_near(value, 1.5);
        }
    }

    #[test]
    fn one_value_says_nothing_of_noise_and_zero_has_no_ratio() {
        let change = Change::of(&[10.0], &[12.0, 13.0]).unwrap();
        assert_near(change.ratio, 1.249);
        assert_eq!(change.interval, None);
        assert_eq!(Change::of(&[0.0, 1.0], &[1.0, 1.0]), None);
        assert_eq!(Change::of(&[], &[1.0]), None);
    }
}
