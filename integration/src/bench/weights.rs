// SPDX-License-Identifier: MIT OR Apache-2.0

//! How far shares of an engine are off the weights of those who have them.

/// By which fraction the share is off that is off most, where each had so much.
pub(super) fn off_weights(had: [f64; 2], weights: [f64; 2]) -> f64 {
    let (all, weight_of_all) = (had.iter().sum::<f64>(), weights.iter().sum::<f64>());
    let off = had.iter().zip(weights).map(|(had, weight)| had / all * weight_of_all / weight - 1.0);
    off.map(f64::abs).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_is_off_most_counts() {
        assert!(off_weights([1.0, 3.0], [100.0, 300.0]).abs() < 1e-12);
        // A half instead of a quarter is twice as much; the other has two thirds of its share.
        assert!((off_weights([5.0, 5.0], [100.0, 300.0]) - 1.0).abs() < 1e-12);
        assert!((off_weights([2.0, 8.0], [100.0, 300.0]) - 0.2).abs() < 1e-12);
    }
}
