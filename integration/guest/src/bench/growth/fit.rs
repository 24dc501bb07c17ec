// SPDX-License-Identifier: MIT OR Apache-2.0

//! The exponent of growth: the slope of the logarithm of a cost over the logarithm of a count.

use crate::timing::median;
use distrs::StudentsT;

/// The confidence of an interval: of twenty, one does not contain the true exponent.
const CONFIDENCE: f64 = 0.95;

/// How a cost grows with a count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Growth {
    /// The cost grows as the count to the power of this, by least squares.
    pub(super) exponent: f64,
    /// The interval that contains the true exponent. `None` where two points, or one repetition of two counts, do
    /// not show how far points are from a line.
    pub(super) interval: Option<[f64; 2]>,
    /// The exponent between the two greatest counts alone, by medians. A cost that is constant at first and then
    /// proportional to the count shows here.
    pub(super) last_step: f64,
}

impl Growth {
    /// The growth of a cost, from the values of all repetitions at each count. Counts ascend. `None` if there are
    /// fewer than two counts with a positive cost.
    pub(super) fn of(costs: &[(f64, Vec<f64>)]) -> Option<Self> {
        let is_usable = |cost: &&f64| **cost > 0.0 && cost.is_finite();
        let usable = costs.iter().map(|(count, costs)| {
            let costs: Vec<_> = costs.iter().filter(is_usable).copied().collect();
            (*count, costs)
        });
        let usable: Vec<_> = usable.filter(|(_, costs)| !costs.is_empty()).collect();
        let [.., (before, costs_before), (last, costs_last)] = usable.as_slice() else {
            return None;
        };
        let step = median(costs_last)?.ln() - median(costs_before)?.ln();
        let points: Vec<_> = usable
            .iter()
            .flat_map(|(count, costs)| costs.iter().map(|cost| (count.ln(), cost.ln())))
            .collect();
        let (exponent, half) = slope(&points);
        let interval = half.map(|half| [exponent - half, exponent + half]);
        Some(Self { exponent, interval, last_step: step / (last.ln() - before.ln()) })
    }
}

/// The slope of the line with the least squares, and half of its interval. The points have different abscissas.
fn slope(points: &[(f64, f64)]) -> (f64, Option<f64>) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(x, y)| of(x - x_mean, y - y_mean)).sum()
    };
    let (squares, products) = (sum(&|x, _| x * x), sum(&|x, y| x * y));
    let slope = products / squares;
    let freedom = count - 2.0;
    let half = (freedom > 0.0).then(|| {
        let rest = sum(&|x, y| (y - slope * x).powi(2));
        StudentsT::ppf((1.0 + CONFIDENCE) / 2.0, freedom) * (rest / freedom / squares).sqrt()
    });
    (slope, half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(of: impl Fn(f64) -> f64) -> Vec<(f64, Vec<f64>)> {
        [1.0, 4.0, 16.0, 64.0].map(|count| (count, vec![of(count)])).to_vec()
    }

    #[track_caller]
    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-3, "{value} and not {expected}");
    }

    #[test]
    fn powers_have_their_exponents_and_no_doubt() {
        for expected in [0.0, 0.5, 1.0, 2.0, -1.0] {
            let growth = Growth::of(&series(|count| 7.0 * count.powf(expected))).unwrap();
            assert_near(growth.exponent, expected);
            assert_near(growth.last_step, expected);
            let [from, to] = growth.interval.unwrap();
            assert_near(from, expected);
            assert_near(to, expected);
        }
    }

    #[test]
    fn points_off_the_line_widen_the_interval() {
        // The logarithms of the counts are 0, 1, 2, 3 times that of 4; those of the costs 0, 1, 1, 2 times.
        let costs = [1.0, 4.0, 4.0, 16.0];
        let points = [1.0, 4.0, 16.0, 64.0].into_iter().zip(costs.map(|cost| vec![cost]));
        let growth = Growth::of(&points.collect::<Vec<_>>()).unwrap();
        assert_near(growth.exponent, 0.6);
        // The rest is 0.2, so the deviation of the slope is the root of 0.2 / 2 / 5; t is 4.3027.
        let [from, to] = growth.interval.unwrap();
        assert_near(to - growth.exponent, 4.3027 * 0.02f64.sqrt());
        assert_near(growth.exponent - from, to - growth.exponent);
        assert_near(growth.last_step, 1.0);
    }

    #[test]
    fn a_cost_that_grows_in_the_end_alone_shows_in_the_last_step() {
        let growth = Growth::of(&series(|count| f64::max(100.0, 10.0 * count))).unwrap();
        assert!(growth.exponent < 0.5, "{growth:?}");
        assert!(growth.last_step > 0.9, "{growth:?}");
    }

    #[test]
    fn repetitions_narrow_the_interval_and_what_is_not_positive_does_not_count() {
        let noisy = |values: &[f64]| {
            let at = |count: f64| (count, values.to_vec());
            Growth::of(&[1.0, 4.0, 16.0].map(at)).unwrap()
        };
        let width = |growth: Growth| growth.interval.map(|[from, to]| to - from).unwrap();
        let (few, many) = (noisy(&[1.0, 2.0]), noisy(&[1.0, 2.0].repeat(8)));
        assert!(width(many) < width(few), "{few:?} {many:?}");
        assert_near(many.exponent, 0.0);
        assert_eq!(noisy(&[1.0, 2.0, 0.0, -3.0, f64::NAN]), few);
    }

    #[test]
    fn one_count_does_not_grow_and_two_say_nothing_of_their_noise() {
        assert!(Growth::of(&[]).is_none());
        assert!(Growth::of(&[(4.0, vec![1.0, 2.0])]).is_none());
        assert!(Growth::of(&[(1.0, vec![0.0]), (4.0, vec![1.0])]).is_none());
        let two = Growth::of(&[(1.0, vec![3.0]), (2.0, vec![6.0])]).unwrap();
        assert_near(two.exponent, 1.0);
        assert!(two.interval.is_none());
    }
}
