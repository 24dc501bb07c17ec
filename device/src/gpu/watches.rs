//! Doorbells that an engine watches.
//!
//! Those that rang of late are looked at each round, the others a few in a round. So a round is short
//! however many doorbells are connected, and a ring of any is seen within as many rounds as there are
//! doorbells for each look. Before the engine sleeps, and every so often while it executes
//! ([`scans`](super::scans)), it looks at all.

use super::hw_queue::HwQueue;
use super::words::Words;
use bellhop_host_kmd::hardware::RingBinding;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Doorbells that are looked at each round.
const RECENT: usize = 16;
/// Doorbells beside these that are looked at in a round.
const OTHERS_IN_A_ROUND: usize = 8;

/// A doorbell that the engine watches.
#[derive(Debug)]
pub struct Watch {
    /// The queue that rings it.
    pub queue: Arc<HwQueue>,
    /// The queue's ring when the engine began to watch.
    pub ring: Arc<RingBinding>,
    /// The queue's index on the run list.
    pub index: u32,
    /// The value that the doorbell had last.
    pub last_rung: u64,
    doorbell: Words,
    status: Words,
}

impl Watch {
    /// Watches a queue's doorbell from a value on; none when the guest has no such doorbell.
    pub fn new(
        queue: Arc<HwQueue>,
        ring: Arc<RingBinding>,
        index: u32,
        last_rung: u64,
    ) -> Option<Self> {
        let (doorbell, status) = queue.partition.bar().doorbell_to_watch(ring.slot)?;
        Some(Self { queue, ring, index, last_rung, doorbell, status })
    }

    #[inline]
    fn word(&self) -> Option<&AtomicU64> {
        self.doorbell.get().first()
    }

    /// Its words, where its status changes as the engine falls asleep and wakes.
    pub fn armable(&self) -> Option<DoorbellWords<'_>> {
        if self.ring.notify_each { None } else { self.words() }
    }

    #[inline]
    fn words(&self) -> Option<DoorbellWords<'_>> {
        Some(DoorbellWords::new(self.word()?, self.status.get().first()?))
    }

    /// The value rung, if it is another than the last.
    #[inline]
    fn look(&mut self) -> Option<u64> {
        // Most doorbells are quiet: only one that is not is worth its ordering.
        if self.word()?.load(Ordering::Relaxed) == self.last_rung {
            return None;
        }
        let rung = self.words()?.look();
        self.last_rung = rung;
        Some(rung)
    }
}

/// All doorbells that an engine watches one by one.
#[derive(Debug, Default)]
pub struct Watches {
    /// The first [`RECENT`] are those that rang of late.
    list: Vec<Watch>,
    /// Which of the first gives its place to the next that rings.
    oldest: usize,
    /// Which of the others, counted from the first of them, is looked at next.
    next: usize,
}

impl Watches {
    /// Watches these and no others; returns those that were watched before.
    pub fn replace(&mut self, list: Vec<Watch>) -> Vec<Watch> {
        (self.oldest, self.next) = (0, 0);
        std::mem::replace(&mut self.list, list)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Watch> {
        self.list.iter()
    }

    /// One round: `rang` for each doorbell that is seen to have been rung, with the value.
    #[inline]
    pub fn look(&mut self, mut rang: impl FnMut(&Watch, u64)) {
        for watch in self.list.iter_mut().take(RECENT) {
            if let Some(rung) = watch.look() {
                rang(watch, rung);
            }
        }
        let others = self.list.len().saturating_sub(RECENT);
        for _ in 0..others.min(OTHERS_IN_A_ROUND) {
            let place = RECENT + self.next;
            self.next = if self.next + 1 < others { self.next + 1 } else { 0 };
            let Some(watch) = self.list.get_mut(place) else { break };
            if let Some(rung) = watch.look() {
                rang(watch, rung);
                self.list.swap(place, self.oldest);
                self.oldest = (self.oldest + 1) % RECENT;
            }
        }
    }

    /// The same for all of them at once.
    pub fn look_at_all(&mut self, mut rang: impl FnMut(&Watch, u64)) {
        for watch in &mut self.list {
            if let Some(rung) = watch.look() {
                rang(watch, rung);
            }
        }
    }
}
