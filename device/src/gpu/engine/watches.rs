// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbells that an engine watches.
//!
//! In each round, the engine looks at the doorbells that rang lately and at a few of the others. A round stays
//! short however many doorbells are connected, and the engine sees every ring after a number of rounds that grows
//! with the number of doorbells. After a turn, the number of others depends on the turn's length
//! ([`scans`](super::scans)). Before the engine sleeps, it looks at all doorbells.

use crate::gpu::memory::words::Words;
use crate::gpu::shared::hw_queue::HwQueue;
use bellhop_host_kmd::hardware::RingBinding;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use bellhop_protocol::handoff::doorbell_line::DoorbellLine;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Doorbells that the engine looks at in every round.
const RECENT: usize = 16;
/// Other doorbells that the engine looks at in a round.
const OTHERS_IN_A_ROUND: usize = 8;

/// A doorbell that the engine watches.
#[derive(Debug)]
pub struct Watch {
    /// The queue's ring when the engine began to watch.
    pub ring: Arc<RingBinding>,
    /// The queue's index on the run list.
    pub index: u32,
    /// The doorbell's value at the last look.
    pub last_rung: u64,
    /// The doorbell's line.
    line: Words,
    status: Words,
}

impl Watch {
    /// Watches a queue's doorbell, which last held this value. Returns `None` if the guest has no such doorbell.
    pub fn new(
        queue: &HwQueue,
        ring: Arc<RingBinding>,
        index: u32,
        last_rung: u64,
    ) -> Option<Self> {
        let (line, status) = queue.partition.bar().doorbell_to_watch(ring.slot)?;
        Some(Self { ring, index, last_rung, line, status })
    }

    #[inline]
    fn word(&self) -> Option<&AtomicU64> {
        self.line.get().first()
    }

    /// The doorbell's line, if the guest copies packets there.
    #[inline]
    pub fn line(&self) -> Option<DoorbellLine<'_>> {
        if !self.ring.has_line {
            return None;
        }
        self.line.get().try_into().ok().map(DoorbellLine::new)
    }

    /// The doorbell's words, if the engine changes the status when it falls asleep and when it wakes.
    fn armable(&self) -> Option<DoorbellWords<'_>> {
        if self.ring.notify_each { None } else { self.words() }
    }

    #[inline]
    fn words(&self) -> Option<DoorbellWords<'_>> {
        Some(DoorbellWords::new(self.word()?, self.status.get().first()?))
    }

    /// Whether the doorbell's value changed since the last look. Relaxed: it only predicts that a look will find
    /// something.
    #[inline]
    fn has_rung(&self) -> bool {
        self.word().is_some_and(|word| word.load(Ordering::Relaxed) != self.last_rung)
    }

    /// The doorbell's value, if it changed since the last look.
    #[inline]
    fn look(&mut self) -> Option<u64> {
        // Most doorbells are quiet: only one that has changed is read again, with acquire ordering.
        let word = self.word()?;
        if word.load(Ordering::Relaxed) == self.last_rung {
            return None;
        }
        let rung = DoorbellWords::look_at(word);
        self.last_rung = rung;
        Some(rung)
    }
}

/// The place of a queue without a watched doorbell.
const NOWHERE: u32 = u32::MAX;

/// All doorbells that an engine watches one by one.
#[derive(Debug, Default)]
pub struct Watches {
    /// The first [`RECENT`] are those that rang lately.
    list: Vec<Watch>,
    /// Index in the list of each queue's doorbell, by the queue's index on the run list.
    places: Vec<u32>,
    /// Index, among the first, of the one that the next ringing doorbell replaces.
    oldest: usize,
    /// Index, among the others, of the one that the engine looks at next.
    next: usize,
}

impl Watches {
    /// Watches one more doorbell, of a queue that has none here.
    pub fn add(&mut self, watch: Watch) {
        let index = watch.index as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, NOWHERE);
        }
        self.list.push(watch);
        self.note_place(self.list.len() - 1);
    }

    /// Stops watching a queue's doorbell.
    pub fn remove(&mut self, index: u32) -> Option<Watch> {
        let place = std::mem::replace(self.places.get_mut(index as usize)?, NOWHERE) as usize;
        if place >= self.list.len() {
            return None;
        }
        let removed = self.list.swap_remove(place);
        self.note_place(place);
        Some(removed)
    }

    /// Records which doorbell is at a place now.
    fn note_place(&mut self, place: usize) {
        let Some(watch) = self.list.get(place) else { return };
        #[cfg(test)]
        super::visits::note();
        if let Some(known) = self.places.get_mut(watch.index as usize) {
            *known = place as u32;
        }
    }

    /// The number of doorbells.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The number of doorbells that it does not look at in every round.
    #[inline]
    pub fn others(&self) -> usize {
        self.list.len().saturating_sub(RECENT)
    }

    /// Asks guests to notify, except for the queue with this index on the run list. [`DoorbellWords::after_arming`] and a
    /// look at all follow.
    pub fn arm(&self, except: Option<u32>) {
        let others = self.list.iter().filter(|watch| Some(watch.index) != except);
        others.filter_map(Watch::armable).for_each(|words| words.arm());
    }

    /// Guests need not notify.
    pub fn disarm(&self) {
        self.list.iter().filter_map(Watch::armable).for_each(|words| words.disarm());
    }

    /// One round: calls `rang` with the value for each doorbell that was rung. `due` is called with the number of
    /// doorbells that have not rung lately, if there are any, and returns how many of them to look at.
    #[inline]
    pub fn look(&mut self, due: impl FnOnce(usize) -> usize, mut rang: impl FnMut(&Watch, u64)) {
        for watch in self.list.iter_mut().take(RECENT) {
            if let Some(rung) = watch.look() {
                rang(watch, rung);
            }
        }
        if self.list.len() > RECENT {
            self.look_at_others(due(self.others()), rang);
        }
    }

    /// Whether a doorbell that rang lately has rung since the last look, except this queue's. The next round sees
    /// it too.
    #[inline]
    pub fn has_rung_beside(&self, index: u32) -> bool {
        let recent = self.list.iter().take(RECENT).filter(|watch| watch.index != index);
        recent.into_iter().any(Watch::has_rung)
    }

    /// As [`Self::has_rung_beside`], of all doorbells.
    pub fn have_rung_beside(&self, index: u32) -> bool {
        self.list.iter().any(|watch| watch.index != index && watch.has_rung())
    }

    /// Looks at `due` of the doorbells that have not rung lately, and at a few in any case.
    #[inline(never)]
    fn look_at_others(&mut self, due: usize, mut rang: impl FnMut(&Watch, u64)) {
        let others = self.others();
        for _ in 0..others.min(due.max(OTHERS_IN_A_ROUND)) {
            if self.next >= others {
                // Doorbells were removed since.
                self.next = 0;
            }
            let place = RECENT + self.next;
            self.next += 1;
            let Some(watch) = self.list.get_mut(place) else { break };
            if let Some(rung) = watch.look() {
                rang(watch, rung);
                self.list.swap(place, self.oldest);
                self.note_place(place);
                self.note_place(self.oldest);
                self.oldest = (self.oldest + 1) % RECENT;
            }
        }
    }

    /// A round over all doorbells.
    #[inline(never)]
    pub fn look_at_all(&mut self, mut rang: impl FnMut(&Watch, u64)) {
        for watch in &mut self.list {
            if let Some(rung) = watch.look() {
                rang(watch, rung);
            }
        }
    }
}
