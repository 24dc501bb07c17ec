// SPDX-License-Identifier: MIT OR Apache-2.0

//! The doorbells of an engine: those that it watches one by one, and those whose words are hints.
//!
//! The control plane reports changes one queue at a time. The cost to other guests, when a guest connects or
//! destroys queues, does not grow with the number of their doorbells.

use super::executor::Core;
use super::hints::{Hinted, Hints};
use super::run_list::RunList;
use super::watches::{Watch, Watches};
use crate::gpu::shared::chip::EnginePort;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::statistics::Tally;
use crate::gpu::shared::wake::Kicking;
use crate::gpu::shared::watching::WatchedAt;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use std::sync::Arc;

/// All doorbells of an engine.
#[derive(Debug, Default)]
pub struct Doorbells {
    /// The doorbells that the engine watches one by one.
    pub watches: Watches,
    /// The words that several queues may ring, or that move.
    pub hints: Hints,
    kicking: Kicking,
}

impl Doorbells {
    /// Takes over the control plane's changes.
    pub fn take_changes(&mut self, port: &EnginePort, run_list: &mut RunList) {
        while let Some(queue) = port.watch_changes.pop() {
            let at = queue.watching.take();
            let Some(index) = run_list.enlist(&queue) else { continue };
            self.remove(port, run_list, index);
            if let Some(at) = at {
                self.add(port, run_list, queue, index, at);
            }
        }
    }

    fn add(
        &mut self,
        port: &EnginePort,
        run_list: &mut RunList,
        queue: Arc<HwQueue>,
        index: u32,
        at: WatchedAt,
    ) {
        let Some(entry) = run_list.get(index) else { return };
        entry.refresh_ring();
        let Some(ring) = entry.execution.ring.as_ref().map(|ring| Arc::clone(&ring.binding)) else {
            return;
        };
        entry.watched = Some((at, Arc::clone(&ring)));
        self.kicking.add(&port.wake, &queue.partition);
        match at {
            WatchedAt::OwnPage => {
                let watch = Watch::new(&queue, ring, index, entry.last_rung);
                watch.into_iter().for_each(|watch| self.watches.add(watch));
            }
            WatchedAt::Physical(_) | WatchedAt::Global => {
                self.hints.add(Hinted { queue, ring, index, at });
            }
        }
    }

    /// For tests: the number of queues with a doorbell here.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.watches.len() + self.hints.count()
    }

    /// Stops watching the doorbell of a queue on the run list. Called before the list forgets the queue, so that
    /// each watched queue is on the list.
    pub fn remove(&mut self, port: &EnginePort, run_list: &mut RunList, index: u32) {
        let Some(entry) = run_list.get(index) else { return };
        let Some((at, ring)) = entry.watched.take() else { return };
        self.kicking.remove(&port.wake, &entry.queue.partition);
        match at {
            WatchedAt::OwnPage => {
                if let Some(watch) = self.watches.remove(index)
                    && entry.has_ring(&watch.ring)
                {
                    entry.last_rung = watch.last_rung;
                }
            }
            WatchedAt::Physical(_) | WatchedAt::Global => {
                self.hints.remove(&entry.queue, at, ring.slot);
            }
        }
    }

    /// Puts queues in line that rang their doorbells: looks at the doorbells that rang lately and at some of the
    /// others, how many of which `due` returns for their number. Always within the engine's loop.
    #[inline(always)]
    pub fn look(
        &mut self,
        core: &mut Core,
        run_list: &mut RunList,
        last_served: u32,
        due: impl FnOnce(usize) -> usize,
    ) {
        self.watches.look(due, |watch, rung| see_ring(core, run_list, last_served, watch, rung));
        if !self.hints.is_empty() {
            self.look_at_hints(core, run_list);
        }
    }

    /// Of the queues that doorbells hint at, lines up those that have work in their rings.
    #[inline(never)]
    fn look_at_hints(&mut self, core: &mut Core, run_list: &mut RunList) {
        let engine = core.index;
        self.hints.look(
            |guest| guest.counters().add(engine, Tally { doorbells: 1, ..Tally::default() }),
            |hinted| look_at_hinted(core, run_list, hinted),
        );
    }

    /// Looks at all doorbells, and at all rings that they hint at.
    pub fn look_at_all(&mut self, core: &mut Core, run_list: &mut RunList, last_served: u32) {
        self.watches.look_at_all(|watch, rung| see_ring(core, run_list, last_served, watch, rung));
        self.hints.scan_all(|hinted| look_at_hinted(core, run_list, hinted));
    }

    /// Asks guests to notify, before the engine sleeps. [`Self::look_at_all`] follows.
    pub fn arm(&self) {
        self.watches.arm(None);
        self.hints.arm(None);
        DoorbellWords::after_arming();
    }

    /// The engine is awake: guests need not notify.
    pub fn disarm(&self) {
        self.watches.disarm();
        self.hints.disarm();
    }
}

/// A doorbell rang with this value. The queue's entry is looked up once.
#[inline(never)]
fn see_ring(core: &mut Core, run_list: &mut RunList, last_served: u32, watch: &Watch, rung: u64) {
    let waits = run_list.ring(watch.index, |entry| {
        entry.doorbells += 1;
        core.note_use(&entry.queue);
        match entry.execution.rung(rung, watch.line()) {
            Ok(true) => {
                if watch.index != last_served {
                    core.prefetch(entry);
                }
                true
            }
            idle => {
                core.rung_in_vain(entry, idle.err());
                false
            }
        }
    });
    if let Some(entry) = waits {
        entry.count_doorbells(core.index);
    }
}

/// Looks at the ring of a queue that may have rung, unless the queue is off the run list: the control plane kicks
/// it when it puts it back.
fn look_at_hinted(core: &mut Core, run_list: &mut RunList, hinted: &Hinted) {
    if hinted.queue.membership.may_run() {
        core.look_at_ring(run_list, hinted.index);
    }
}
