// SPDX-License-Identifier: MIT OR Apache-2.0

//! Engines' counters for a guest.

use bellhop_protocol::control::adapter::Statistics;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// One engine's work for a guest since it last added to the guest's counters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Packets executed.
    pub packets: u64,
    /// Bytes read or written in bulk.
    pub bytes: u64,
    /// Rings seen.
    pub doorbells: u64,
    /// Fence interrupts raised.
    pub interrupts: u64,
    /// Nanoseconds of turns.
    pub engine_time: u64,
}

#[derive(Debug, Default)]
struct EngineCounters {
    packets: AtomicU64,
    bytes: AtomicU64,
    doorbells: AtomicU64,
    interrupts: AtomicU64,
    engine_time: AtomicU64,
    wakeups: AtomicU64,
}

/// A guest's counters: one set per engine, which only that engine writes.
#[derive(Debug)]
pub struct Counters {
    engines: Box<[CachePadded<EngineCounters>]>,
}

impl Counters {
    /// All zero.
    pub fn new(engines: usize) -> Self {
        Self { engines: (0..engines).map(|_| CachePadded::default()).collect() }
    }

    /// Engine `engine`: adds its work.
    #[inline]
    pub fn add(&self, engine: u32, tally: Tally) {
        let Some(counters) = self.engines.get(engine as usize) else { return };
        // With a single writer no read-modify-write is needed.
        let add = |counter: &AtomicU64, count: u64| {
            if count != 0 {
                let sum = counter.load(Ordering::Relaxed).wrapping_add(count);
                counter.store(sum, Ordering::Relaxed);
            }
        };
        add(&counters.packets, tally.packets);
        add(&counters.bytes, tally.bytes);
        add(&counters.doorbells, tally.doorbells);
        add(&counters.interrupts, tally.interrupts);
        add(&counters.engine_time, tally.engine_time);
    }

    /// Engine `engine`: woke up, and gives its first turn to one of the guest's queues.
    #[cold]
    pub fn woke(&self, engine: u32) {
        let Some(counters) = self.engines.get(engine as usize) else { return };
        // A single writer, as in `add`.
        let count = counters.wakeups.load(Ordering::Relaxed);
        counters.wakeups.store(count.wrapping_add(1), Ordering::Relaxed);
    }

    /// The guest's engine statistics.
    pub fn read(&self) -> Statistics {
        self.engines.iter().fold(Statistics::default(), |sum, engine| Statistics {
            packets: sum.packets.wrapping_add(engine.packets.load(Ordering::Relaxed)),
            bytes: sum.bytes.wrapping_add(engine.bytes.load(Ordering::Relaxed)),
            doorbells: sum.doorbells.wrapping_add(engine.doorbells.load(Ordering::Relaxed)),
            interrupts: sum.interrupts.wrapping_add(engine.interrupts.load(Ordering::Relaxed)),
            engine_time: sum.engine_time.wrapping_add(engine.engine_time.load(Ordering::Relaxed)),
            engine_wakeups: sum.engine_wakeups.wrapping_add(engine.wakeups.load(Ordering::Relaxed)),
            ..sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_reads_the_sum_of_what_all_engines_did() {
        let counters = Counters::new(2);
        counters
            .add(0, Tally { packets: 1, bytes: 2, doorbells: 3, interrupts: 4, engine_time: 5 });
        counters.add(
            1,
            Tally { packets: 10, bytes: 20, doorbells: 30, interrupts: 40, engine_time: 50 },
        );
        counters.add(1, Tally { packets: 100, ..Tally::default() });
        [0, 1, 1].into_iter().for_each(|engine| counters.woke(engine));
        let sum = counters.read();
        assert_eq!((sum.packets, sum.bytes, sum.doorbells, sum.interrupts), (111, 22, 33, 44));
        assert_eq!((sum.engine_time, sum.engine_wakeups), (55, 3));
    }
}
