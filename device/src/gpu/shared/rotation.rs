// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rotating the pages of one guest's doorbells between a dummy page and physical doorbells' pages.
//!
//! The control plane says which page each logical doorbell is to show. A thread that may wait for the VMM
//! moves the pages, one after the other, and reports by interrupt when a page is there. The wanted page is
//! state and not a list of commands: however often it changes, nothing grows, and the thread does only the
//! last change. No engine takes the lock, and no thread calls the VMM while it holds the lock.
//!
//! A doorbell that was just connected *settles* for a while: a VMM may show the new page to a
//! running guest only some time after it said so. No ring would be lost (the word is a hint, see
//! [`crate::gpu::engine::hints`]), but a ring that no engine sees would wait for the engine's next doubt or sleep.
//!
//! Source: user-mode work submission, "Victimizing doorbell pseudocode in KMD" ("Dxgkrnl rotates the
//! UMD-visible CPUVA of this doorbell to a dummy page").

use super::interrupt::Interrupts;
use crate::gpu::memory::bar::Page;
use bellhop_host_kmd::hardware::{HwQueueId, RotationOutcome};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a doorbell settles after it was connected: three times the longest time for which an old page
/// still got stores after QEMU had acknowledged its removal.
pub const SETTLING: Duration = Duration::from_millis(50);

/// A page to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Of which logical doorbell.
    pub slot: u32,
    /// Whether something is mapped there, which must be unmapped before.
    pub is_mapped: bool,
    /// What it is to show.
    pub to: Page,
    /// What it is to show in the end.
    wanted: Page,
}

/// The outcome of a [`Move`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The page is there.
    Done,
    /// The VMM did not unmap what was there.
    StillMapped,
    /// The VMM unmapped what was there, and mapped nothing.
    NothingMapped,
}

/// Where the connecting of a doorbell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Everything is reported.
    Told,
    /// The control plane waits for the page.
    Connecting,
    /// The page is there, and the doorbell settles until this time.
    Settling(Instant),
}

#[derive(Debug)]
struct Slot {
    wanted: Page,
    /// What the VMM has mapped.
    shown: Option<Page>,
    /// The VMM refused what is wanted; it is not asked again until something else is.
    refused: bool,
    phase: Phase,
    queue: HwQueueId,
    /// What the control plane has not taken yet. It is about what is wanted now.
    report: Option<RotationOutcome>,
}

impl Slot {
    fn want(&mut self, page: Page, phase: Phase) {
        self.wanted = page;
        self.refused = false;
        self.phase = phase;
        // What was reported was about what was wanted before.
        self.report = None;
    }

    fn needs_a_move(&self) -> bool {
        !self.refused && self.shown != Some(self.wanted)
    }

    /// What there is to report by now.
    fn outcome(&mut self, now: Instant) -> Option<RotationOutcome> {
        match self.phase {
            Phase::Connecting if self.shown == Some(self.wanted) => {
                self.phase = Phase::Settling(now + SETTLING);
                Some(RotationOutcome::Shown)
            }
            Phase::Connecting if self.refused => {
                self.phase = Phase::Told;
                Some(RotationOutcome::Refused)
            }
            Phase::Settling(until) if until <= now => {
                self.phase = Phase::Told;
                Some(RotationOutcome::Settled)
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
struct State {
    slots: Vec<Slot>,
    stopped: bool,
}

impl State {
    /// The next page to move, such that no two doorbells ever show one physical doorbell.
    fn next_move(&self) -> Option<Move> {
        let to = |slot: usize, to: Page| {
            let at = self.slots.get(slot)?;
            let is_mapped = at.shown.is_some();
            Some(Move { slot: slot.try_into().ok()?, is_mapped, to, wanted: at.wanted })
        };
        let (mut connecting, mut in_the_way) = (None, None);
        for (number, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.needs_a_move())
        {
            if slot.wanted == Page::Dummy {
                return to(number, Page::Dummy);
            }
            // One that the VMM does not move is not waited for.
            let is_free = |other: &Slot| other.refused || other.shown != Some(slot.wanted);
            if self.slots.iter().all(is_free) {
                connecting = Some(number);
            } else if slot.shown != Some(Page::Dummy) {
                in_the_way = Some(number);
            }
        }
        match connecting {
            Some(slot) => to(slot, self.slots.get(slot)?.wanted),
            // Several doorbells want each other's physical doorbells.
            None => to(in_the_way?, Page::Dummy),
        }
    }
}

/// The pages of one guest's doorbells.
#[derive(Debug)]
pub struct Rotation {
    interrupts: Arc<Interrupts>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Rotation {
    /// Doorbells that all show the dummy page.
    pub(in crate::gpu) fn new(interrupts: Arc<Interrupts>, slots: u32) -> Self {
        let slot = |_| Slot {
            wanted: Page::Dummy,
            shown: Some(Page::Dummy),
            refused: false,
            phase: Phase::Told,
            queue: HwQueueId(0),
            report: None,
        };
        let state = State { slots: (0..slots).map(slot).collect(), stopped: false };
        Self { interrupts, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// No code panics while it holds the lock, so a poisoned state is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, slot: u32, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.lock().slots.get_mut(slot as usize) {
            change(slot);
        }
        self.changed.notify_one();
    }

    /// Control plane: a doorbell is to show a physical one. Its queue is told of when it does.
    pub(in crate::gpu) fn connect(&self, slot: u32, doorbell: u32, queue: HwQueueId) {
        self.change(slot, |slot| {
            slot.want(Page::Physical(doorbell), Phase::Connecting);
            slot.queue = queue;
        });
    }

    /// Control plane: a doorbell is to show the dummy page.
    pub(in crate::gpu) fn disconnect(&self, slot: u32) {
        self.change(slot, |slot| slot.want(Page::Dummy, Phase::Told));
    }

    /// Control plane: what became of doorbells. What is told holds now: it is this thread that
    /// changes what is wanted.
    pub(in crate::gpu) fn take_reports(&self) -> Vec<(HwQueueId, RotationOutcome)> {
        let mut state = self.lock();
        let reports = state.slots.iter_mut();
        reports.filter_map(|slot| Some((slot.queue, slot.report.take()?))).collect()
    }

    /// Any thread: stops asking the VMM for moves. One request may be on its way.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Whether [`Self::stop`] was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// The thread that speaks with the VMM: waits for a page to move; none once stopped.
    #[must_use]
    pub fn next(&self) -> Option<Move> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            let now = Instant::now();
            let mut is_told = false;
            for slot in &mut state.slots {
                if let Some(outcome) = slot.outcome(now) {
                    slot.report = Some(outcome);
                    is_told = true;
                }
            }
            if is_told {
                self.interrupts.raise_rotated();
            }
            if let Some(next) = state.next_move() {
                return Some(next);
            }
            let settled = state.slots.iter().filter_map(|slot| match slot.phase {
                Phase::Settling(until) => Some(until.saturating_duration_since(now)),
                _ => None,
            });
            state = match settled.min() {
                Some(time) => {
                    let waited = self.changed.wait_timeout(state, time);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// The thread that called [`Self::next`]: reports the result of that move.
    pub fn moved(&self, Move { slot, to, wanted, .. }: Move, moved: Moved) {
        self.change(slot, |slot| {
            match moved {
                Moved::Done => slot.shown = Some(to),
                Moved::NothingMapped => slot.shown = None,
                Moved::StillMapped => {}
            }
            // If something else is wanted by now, that has not been refused.
            slot.refused = moved != Moved::Done && slot.wanted == wanted;
        });
    }
}
