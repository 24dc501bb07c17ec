// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rotating the pages of one guest's doorbells between a dummy page and the pages of physical doorbells.
//!
//! The control plane sets the page that each logical doorbell should show. A thread that may wait for the VMM moves
//! the pages one by one, and interrupts when a page is in place. The wanted page is state, not a list of commands:
//! however often it changes, nothing grows, and the thread executes only the last change. No engine takes the lock,
//! and no thread calls the VMM while it holds the lock.
//!
//! A doorbell that was just connected *settles* for a while: a VMM may show the new page to a running guest some
//! time after it acknowledged the change. No ring would be lost (the word is a hint, see
//! [`crate::gpu::engine::hints`]), but an unseen ring would wait until the engine next doubts its hints or sleeps.
//!
//! Source: user-mode work submission, "Victimizing doorbell pseudocode in KMD" ("Dxgkrnl rotates the UMD-visible
//! CPUVA of this doorbell to a dummy page").

use super::interrupt::Interrupts;
use crate::gpu::memory::bar::Page;
use bellhop_host_kmd::hardware::{HwQueueId, RotationOutcome};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a doorbell settles after it was connected: three times the longest time for which an old page still
/// received stores after QEMU had acknowledged its removal.
pub const SETTLING: Duration = Duration::from_millis(50);

/// A page to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The logical doorbell.
    pub slot: u32,
    /// Whether a page is mapped there, which must be unmapped first.
    pub is_mapped: bool,
    /// The page to show.
    pub to: Page,
    /// The page to show in the end.
    wanted: Page,
}

/// The outcome of a [`Move`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The page is mapped.
    Done,
    /// The VMM did not unmap the old page.
    StillMapped,
    /// The VMM unmapped the old page, and mapped nothing.
    NothingMapped,
}

/// The progress of connecting a doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Everything was reported.
    Told,
    /// The control plane waits for the page.
    Connecting,
    /// The page is mapped, and the doorbell settles until this time.
    Settling(Instant),
}

#[derive(Debug)]
struct Slot {
    wanted: Page,
    /// The page that the VMM has mapped.
    shown: Option<Page>,
    /// Whether the VMM refused the wanted page; it is asked again only for another page.
    refused: bool,
    phase: Phase,
    queue: HwQueueId,
    /// The outcome for the wanted page that the control plane has not yet taken.
    report: Option<RotationOutcome>,
}

impl Slot {
    fn want(&mut self, page: Page, phase: Phase) {
        self.wanted = page;
        self.refused = false;
        self.phase = phase;
        // An earlier report concerned the previous page.
        self.report = None;
    }

    fn needs_a_move(&self) -> bool {
        !self.refused && self.shown != Some(self.wanted)
    }

    /// The outcome to report at this time, if there is one.
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
    /// The next page to move. No two doorbells ever show one physical doorbell.
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
            // A page that the VMM refuses to move blocks no other one.
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

    /// No code panics while it holds the lock, so the state behind a poisoned lock is consistent.
    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, slot: u32, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.lock().slots.get_mut(slot as usize) {
            change(slot);
        }
        self.changed.notify_one();
    }

    /// Control plane: makes a doorbell show a physical one. A later report tells its queue's outcome.
    pub(in crate::gpu) fn connect(&self, slot: u32, doorbell: u32, queue: HwQueueId) {
        self.change(slot, |slot| {
            slot.want(Page::Physical(doorbell), Phase::Connecting);
            slot.queue = queue;
        });
    }

    /// Control plane: makes a doorbell show the dummy page.
    pub(in crate::gpu) fn disconnect(&self, slot: u32) {
        self.change(slot, |slot| slot.want(Page::Dummy, Phase::Told));
    }

    /// Control plane: takes the outcomes. They are current, since only this thread changes the wanted pages.
    pub(in crate::gpu) fn take_reports(&self) -> Vec<(HwQueueId, RotationOutcome)> {
        let mut state = self.lock();
        let reports = state.slots.iter_mut();
        reports.filter_map(|slot| Some((slot.queue, slot.report.take()?))).collect()
    }

    /// Any thread: stops requests to the VMM. One request may be in flight.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Returns whether [`Self::stop`] was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// The thread that talks to the VMM: waits for a page to move; returns `None` once stopped.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the thread that talks to one guest's VMM, which has nothing else to do"
    )]
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
            // If another page is wanted by now, that page was not refused.
            slot.refused = moved != Moved::Done && slot.wanted == wanted;
        });
    }
}
