// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random choices: one seed, and a separate stream for each queue, event and guest.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use xxhash_rust::xxh64::xxh64;

/// The choices of one queue, event or guest. They depend only on the seed and the name, not on earlier choices of
/// others.
#[derive(Debug, Clone)]
pub(in crate::harness) struct Choices(Xoshiro256PlusPlus);

impl Choices {
    pub(in crate::harness) fn of(name: &str, seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(xxh64(name.as_bytes(), seed)))
    }

    /// A number from `low` to `high`, both included.
    pub(in crate::harness) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.random_range(low..=high.max(low))
    }

    /// One of the values; `None` if there are none.
    pub(in crate::harness) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let last = of.len().checked_sub(1)?;
        of.get(self.between(0, last as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_and_seed_choose_the_same_and_others_do_not() {
        let numbers = |name: &str, seed| {
            let mut choices = Choices::of(name, seed);
            (0..8).map(|_| choices.between(0, 1 << 40)).collect::<Vec<_>>()
        };
        assert_eq!(numbers("a/main/q", 7), numbers("a/main/q", 7));
        assert_ne!(numbers("a/main/q", 7), numbers("a/main/q", 8));
        assert_ne!(numbers("a/main/q", 7), numbers("a/main/p", 7));
        assert_eq!(Choices::of("", 0).pick::<u8>(&[]), None);
    }
}
