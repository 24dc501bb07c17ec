// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbells whose word is a hint: see [`bellhop_protocol::handoff::hint`].
//!
//! When a word changes, the engine looks at the rings of all queues that may have rung it: at once at the ring of
//! the queue that the value names, and at a few of the others in each round, so that rounds stay short. At
//! intervals, the engine looks at a ring without a hint. Before the engine sleeps, it looks at all rings.
//!
//! Source: user-mode work submission, "Global doorbells".

use crate::gpu::memory::bar::BarDoorbell;
use crate::gpu::memory::process_bar::BarWord;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use crate::gpu::shared::watching::WatchedAt;
use bellhop_host_kmd::hardware::{GuestId, RingBinding};
use bellhop_protocol::doorbell::{GLOBAL_DOORBELL_SLOT, RingTag};
use bellhop_protocol::handoff::hint::HintWord;
use std::collections::HashMap;
use std::sync::Arc;

/// Rings that the engine looks at in a round for each word, beside the one that the value names.
const SCANNED_IN_A_ROUND: usize = 4;
/// Rounds between two looks at a ring without a hint.
const ROUNDS_PER_DOUBT: u32 = 64;

/// A queue that may ring a word.
#[derive(Debug)]
pub struct Hinted {
    /// The queue.
    pub queue: Arc<HwQueue>,
    /// The queue's ring when the engine began to watch.
    pub ring: Arc<RingBinding>,
    /// The queue's index on the run list.
    pub index: u32,
    /// The word that the queue rings.
    pub at: WatchedAt,
}

impl Hinted {
    /// The doorbell's words, if the engine changes the status when it falls asleep and when it wakes.
    fn armable(&self) -> Option<BarDoorbell<'_>> {
        self.queue.doorbell(&self.ring).filter(|_| !self.ring.notify_each)
    }
}

/// The word that queues ring. A physical doorbell has one for each slot, so the queue that takes it over rings another
/// than the one before, which the engine may still watch.
type Word = (GuestId, WatchedAt, u32);

/// The word that a guest's queue with the ring of this slot rings.
fn word_of(guest: GuestId, at: WatchedAt, slot: u32) -> Word {
    let slot = match at {
        WatchedAt::Global => GLOBAL_DOORBELL_SLOT,
        WatchedAt::OwnPage | WatchedAt::Physical(_) => slot,
    };
    (guest, at, slot)
}

/// A word and the queues that may ring it: all queues of a guest for its global doorbell, one queue for a physical
/// doorbell.
#[derive(Debug)]
struct Group {
    partition: Arc<Partition>,
    at: WatchedAt,
    /// The slot of the word.
    slot: u32,
    /// Sorted by slot.
    queues: Vec<Hinted>,
    /// The word's value at the last look.
    last: u64,
    /// Index of the next queue that the engine looks at.
    next: usize,
    /// The number of queues that the engine has not looked at since the word changed.
    left: usize,
}

impl Group {
    fn word(&self) -> Option<BarWord<'_>> {
        let bar = self.partition.bar();
        match self.at {
            WatchedAt::OwnPage | WatchedAt::Global => bar.doorbell_word(self.slot),
            WatchedAt::Physical(doorbell) => {
                bar.physical_word(doorbell, self.slot).map(BarWord::Guest)
            }
        }
    }

    /// Returns what [`Self::has_changed`] would, and changes nothing.
    #[inline]
    fn has_news(&self) -> bool {
        let mut last = self.last;
        self.word().is_some_and(|word| HintWord::new(&word).changed(&mut last))
    }

    /// Whether a queue rang since the last call.
    #[inline]
    fn has_changed(&mut self) -> bool {
        let mut last = self.last;
        let changed = self.word().is_some_and(|word| HintWord::new(&word).changed(&mut last));
        self.last = last;
        changed
    }
}

/// All words that an engine watches as hints.
#[derive(Debug, Default)]
pub struct Hints {
    groups: Vec<Group>,
    /// Index in `groups` of each word.
    places: HashMap<Word, usize>,
    rounds: u32,
}

impl Hints {
    /// Watches the word of one more queue. The next rounds look at the rings of all queues that may ring it.
    pub fn add(&mut self, hinted: Hinted) {
        let partition = &hinted.queue.partition;
        let word = word_of(partition.id(), hinted.at, hinted.ring.slot);
        let place = *self.places.entry(word).or_insert_with(|| {
            let (_, at, slot) = word;
            let mut group = Group {
                partition: Arc::clone(partition),
                at,
                slot,
                queues: Vec::new(),
                last: 0,
                next: 0,
                left: 0,
            };
            // The current value needs no look: the next rounds look at all queues.
            let _ = group.has_changed();
            self.groups.push(group);
            self.groups.len() - 1
        });
        let Some(group) = self.groups.get_mut(place) else { return };
        let before = |other: &Hinted| other.ring.slot < hinted.ring.slot;
        group.queues.insert(group.queues.partition_point(before), hinted);
        group.left = group.queues.len();
    }

    /// Stops watching the word for a queue, which rang it with the ring of this slot.
    pub fn remove(&mut self, queue: &Arc<HwQueue>, at: WatchedAt, slot: u32) {
        let word = word_of(queue.partition.id(), at, slot);
        let Some(place) = self.places.get(&word).copied() else { return };
        let Some(group) = self.groups.get_mut(place) else { return };
        let first = group.queues.partition_point(|other| other.ring.slot < slot);
        let is_it = |other: &&Hinted| Arc::ptr_eq(&other.queue, queue);
        if group.queues.get(first).filter(is_it).is_none() {
            return;
        }
        group.queues.remove(first);
        group.next -= usize::from(group.next > first);
        group.left = group.left.min(group.queues.len());
        if group.next >= group.queues.len() {
            group.next = 0;
        }
        if group.queues.is_empty() {
            self.groups.swap_remove(place);
            self.places.remove(&word);
            if let Some(moved) = self.groups.get(place) {
                #[cfg(test)]
                super::visits::note();
                let word = word_of(moved.partition.id(), moved.at, moved.slot);
                self.places.insert(word, place);
            }
        }
    }

    /// The number of queues that may ring its words.
    pub fn count(&self) -> usize {
        self.groups.iter().map(|group| group.queues.len()).sum()
    }

    /// Whether the engine watches no word.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether the next round looks at a ring because of a hint.
    #[inline]
    pub fn are_there(&self) -> bool {
        self.groups.iter().any(|group| group.left > 0 || group.has_news())
    }

    /// One round: calls `rang` for each guest that rang and `scan` for each queue that needs a look at its ring.
    #[inline]
    pub fn look(&mut self, mut rang: impl FnMut(&Partition), mut scan: impl FnMut(&Hinted)) {
        self.rounds += 1;
        let doubts = self.rounds >= ROUNDS_PER_DOUBT;
        if doubts {
            self.rounds = 0;
        }
        for group in &mut self.groups {
            if group.has_changed() {
                rang(&group.partition);
                group.left = group.queues.len();
                let (slot, queues) = (RingTag::slot_of(group.last), &group.queues);
                if let Ok(named) = queues.binary_search_by_key(&slot, |hinted| hinted.ring.slot) {
                    queues.get(named).map(&mut scan);
                }
            } else if doubts {
                group.left = group.left.max(1);
            }
            for _ in 0..group.left.min(SCANNED_IN_A_ROUND) {
                group.queues.get(group.next).map(&mut scan);
                group.next = if group.next + 1 < group.queues.len() { group.next + 1 } else { 0 };
                group.left -= 1;
            }
        }
    }

    /// Asks guests to notify, before the engine sleeps, except for the queue with this index on the run list.
    /// [`DoorbellWords::after_arming`] must follow, and [`Self::scan_all`] or [`Self::are_there`].
    pub fn arm(&self, except: Option<u32>) {
        let others = self.queues().filter(|hinted| Some(hinted.index) != except);
        others.filter_map(Hinted::armable).for_each(|doorbell| doorbell.words().arm());
    }

    /// Calls `scan` for every queue, after arming.
    pub fn scan_all(&mut self, scan: impl FnMut(&Hinted)) {
        self.groups.iter_mut().for_each(|group| group.left = 0);
        self.queues().for_each(scan);
    }

    fn queues(&self) -> impl Iterator<Item = &Hinted> {
        self.groups.iter().flat_map(|group| &group.queues)
    }

    /// The engine is awake: guests need not notify, except where pages settle.
    pub fn disarm(&self) {
        let settled = self.queues().filter(|hinted| !hinted.queue.is_settling());
        settled.filter_map(Hinted::armable).for_each(|doorbell| doorbell.words().disarm());
    }
}
