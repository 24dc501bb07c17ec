// SPDX-License-Identifier: MIT OR Apache-2.0

//! The order in which queues used their doorbells: a logical clock.
//!
//! An engine that sees a ring reads no clock. It stamps the ring with the number of doorbells connected so far,
//! which all engines see, and with its own count of rings since the last connect. Two rings that one engine saw are
//! always ordered. Two rings that different engines saw are ordered if a doorbell was connected in between, which
//! is when their order matters.

use std::sync::atomic::{AtomicU64, Ordering};

/// Width of an engine's count of rings since the last connect, in bits.
const RINGS: u32 = 28;
/// The count saturates here.
const MOST_RINGS: u64 = (1 << RINGS) - 1;

/// Number of doorbells connected so far.
#[derive(Debug, Default)]
pub struct Connects(AtomicU64);

impl Connects {
    /// Control plane: counts a connect. Returns its stamp.
    pub fn another(&self) -> u64 {
        // Relaxed, like all accesses here: it hands nothing over, and an engine may see it late.
        (self.0.fetch_add(1, Ordering::Relaxed) + 1) << RINGS
    }
}

/// An engine's count of rings.
#[derive(Debug, Default)]
pub struct Rings {
    connects: u64,
    count: u64,
}

impl Rings {
    /// Engine: counts a ring. Returns its stamp.
    #[inline]
    pub fn another(&mut self, connects: &Connects) -> u64 {
        let connects = connects.0.load(Ordering::Relaxed);
        if connects != self.connects {
            *self = Self { connects, count: 0 };
        }
        self.count = (self.count + 1).min(MOST_RINGS);
        connects << RINGS | self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_uses_are_greater_of_one_engine_always_and_of_several_after_a_connect() {
        let connects = Connects::default();
        let mut engines = [Rings::default(), Rings::default()];
        let mut last = connects.another();
        for round in 0..100 {
            let [first, second] = &mut engines;
            let one = first.another(&connects);
            let two = first.another(&connects);
            assert!(last < one && one < two, "round {round}");
            let other = second.another(&connects);
            assert!(last < other, "round {round}");
            last = connects.another();
            assert!(two < last && other < last, "round {round}");
        }
    }

    #[test]
    fn rings_without_end_are_never_later_than_the_next_connect() {
        let connects = Connects::default();
        let mut rings = Rings { connects: 0, count: MOST_RINGS - 1 };
        let most = [rings.another(&connects), rings.another(&connects)];
        assert_eq!(most, [MOST_RINGS; 2]);
        assert!(connects.another() > MOST_RINGS);
    }
}
