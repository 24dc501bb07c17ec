// SPDX-License-Identifier: MIT OR Apache-2.0

//! The order in which queues used their doorbells: a logical clock.
//!
//! An engine that sees a ring reads no clock. It stamps the ring with the number of doorbells connected so far,
//! which all engines see, and with its own count of rings since the last connect. Two rings that one engine saw are
//! always ordered. Two rings that different engines saw are ordered if a doorbell was connected in between, which
//! is when their order matters.

use bellhop_host_kmd::hardware::HwQueueId;
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
    /// The queue of the last ring.
    last: Option<HwQueueId>,
}

impl Rings {
    /// Engine: counts a queue's ring. Returns its stamp, unless the queue has the stamp of the last ring and none is
    /// later.
    #[inline]
    pub fn another(&mut self, connects: &Connects, queue: HwQueueId) -> Option<u64> {
        let connects = connects.0.load(Ordering::Relaxed);
        if self.last == Some(queue) && connects == self.connects {
            return None;
        }
        Some(self.stamp(connects, queue))
    }

    #[inline(never)]
    fn stamp(&mut self, connects: u64, queue: HwQueueId) -> u64 {
        if connects != self.connects {
            *self = Self { connects, ..Self::default() };
        }
        self.last = Some(queue);
        self.count = (self.count + 1).min(MOST_RINGS);
        connects << RINGS | self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: HwQueueId = HwQueueId(1);
    const B: HwQueueId = HwQueueId(2);

    #[test]
    fn later_uses_are_greater_of_one_engine_always_and_of_several_after_a_connect() {
        let connects = Connects::default();
        let mut engines = [Rings::default(), Rings::default()];
        let mut last = connects.another();
        for round in 0..100 {
            let [first, second] = &mut engines;
            let one = first.another(&connects, A).unwrap();
            let two = first.another(&connects, B).unwrap();
            assert!(last < one && one < two, "round {round}");
            assert_eq!(first.another(&connects, B), None, "B is the last already");
            let other = second.another(&connects, B).unwrap();
            assert!(last < other, "round {round}");
            last = connects.another();
            assert!(two < last && other < last, "round {round}");
        }
    }

    #[test]
    fn rings_without_end_are_never_later_than_the_next_connect() {
        let connects = Connects::default();
        let mut rings = Rings { connects: 0, count: MOST_RINGS - 1, last: None };
        let most = [rings.another(&connects, A), rings.another(&connects, B)];
        assert_eq!(most, [Some(MOST_RINGS); 2]);
        assert!(connects.another() > MOST_RINGS);
    }
}
