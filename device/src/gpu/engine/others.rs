// SPDX-License-Identifier: MIT OR Apache-2.0

//! What else an engine may have to do while a queue has it alone.

use super::hints::Hints;
use super::watches::Watches;
use crate::gpu::shared::chip::EnginePort;
use crate::gpu::shared::wake::Woken;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// The most doorbells with which an engine naps: it asks each guest to notify before a nap, and not to afterwards.
const MOST_DOORBELLS: usize = 1024;

/// Where an engine's other work appears.
#[derive(Debug, Clone, Copy)]
pub struct Others<'a> {
    /// The engine's port.
    pub port: &'a EnginePort,
    /// The doorbells that the engine watches one by one.
    pub watches: &'a Watches,
    /// The doorbells that the engine watches as hints.
    pub hints: &'a Hints,
    /// Index on the run list of the queue that has the engine.
    pub index: u32,
    /// Whether the engine may poll: no thread that it waits for needs its processor.
    pub may_poll: bool,
    /// The longest nap, after which the queue's turn ends.
    pub longest_nap: Duration,
}

/// What ended a nap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nap {
    /// What the engine waits for is there, or the time is over.
    Over,
    /// There may be other work, or it cannot nap.
    Disturbed,
}

impl Others<'_> {
    /// Whether the engine may have other work: raised attention, or a queue that rang. The next round of the engine
    /// sees it too. Rings of the queue that has the engine do not count, because an earlier turn gains it nothing. Rings
    /// of doorbells that have not rung lately do not count either: they wait until the engine stops polling.
    #[inline]
    pub fn want_the_engine(&self) -> bool {
        self.port.attention.is_raised()
            || self.watches.has_rung_beside(self.index)
            || self.hints.are_there()
    }

    /// Sleeps in the middle of a turn, until a socket can be read, the engine may have other work, or the time is over.
    ///
    /// The hand-offs are those of an engine that falls asleep between two turns ([`DoorbellWords::arm`] with its last look,
    /// and [`Attention::try_sleep`]), so it misses neither a ring nor a call. The doorbell of the queue that has the engine
    /// is left alone: the engine looks at it after the turn.
    ///
    /// [`Attention::try_sleep`]: bellhop_protocol::handoff::attention::Attention::try_sleep
    pub fn nap(&self, socket: BorrowedFd<'_>, until: Instant) -> Nap {
        let Self { port, watches, hints, index, .. } = *self;
        if watches.len() + hints.count() > MOST_DOORBELLS {
            return Nap::Disturbed;
        }
        watches.arm(Some(index));
        hints.arm(Some(index));
        DoorbellWords::after_arming();
        let nap = if !self.have_rung() && port.attention.try_sleep() {
            self.sleep(socket, until)
        } else {
            Nap::Disturbed
        };
        watches.disarm();
        hints.disarm();
        nap
    }

    /// Whether any doorbell but the queue's may have rung since the last look. The next rounds see it too.
    fn have_rung(&self) -> bool {
        self.watches.have_rung_beside(self.index) || self.hints.are_there()
    }

    /// Sleeps with its doorbells armed, and is awake when this returns. What was raised meanwhile is left for the next
    /// round.
    fn sleep(&self, socket: BorrowedFd<'_>, until: Instant) -> Nap {
        loop {
            let woken = self.port.wake.wait_beside(socket, until);
            match woken {
                // Some guest kicked that has not rung: to sleep on costs less than to disarm.
                Woken::Kicked if !self.have_rung() => continue,
                Woken::Signaled => return Nap::Disturbed,
                Woken::Kicked | Woken::Readable | Woken::TimedOut => {}
            }
            if !self.port.attention.try_wake() {
                // Who raised its attention is about to signal.
                while self.port.wake.wait(None) != Woken::Signaled {}
                return Nap::Disturbed;
            }
            return if woken == Woken::Kicked { Nap::Disturbed } else { Nap::Over };
        }
    }
}
