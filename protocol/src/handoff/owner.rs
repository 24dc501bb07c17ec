// SPDX-License-Identifier: MIT OR Apache-2.0

//! Open and name, close and wait.
//!
//! A process's packets name a fence through a slot that the process owns. The control plane fills the slot and then
//! opens it to the process; an engine that finds the process to be the owner finds the slot filled.
//!
//! Each opening has a ticket, unique in the slot. An engine that caches the slot's content under a ticket need only
//! compare the ticket: while it is current, the slot is open to that process and its content is unchanged. An
//! engine that reads the slot while it is closed and filled anew may see a mix of both openings; its second look at
//! the ticket then finds another one.
//!
//! A queue may begin to wait for the fence while the control plane closes the slot. The engine stores that it waits
//! and then loads the ticket; the control plane clears the ticket and then loads the waiters. The full fences of
//! [`FenceCell::wait`](super::fence::FenceCell::wait) and
//! [`FenceCell::evaluate`](super::fence::FenceCell::evaluate) stand between, so either the engine sees that the
//! slot is closed, or the control plane sees that the engine waits.

use super::sync::{AtomicU64, Ordering, fence};

/// The ticket of a closed slot.
const CLOSED: u64 = 0;

/// One opening of a slot to one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening(u64);

/// The process that owns a slot.
#[derive(Debug)]
pub struct Owner {
    /// The ticket of the present opening; [`CLOSED`] between openings.
    ticket: AtomicU64,
    process: AtomicU64,
    /// The ticket of the last opening. Only the control plane uses it.
    last: AtomicU64,
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

impl Owner {
    /// A closed slot.
    #[must_use]
    pub fn new() -> Self {
        let [ticket, process, last] = [CLOSED; 3].map(AtomicU64::new);
        Self { ticket, process, last }
    }

    /// Control plane, after it filled the closed slot: opens it to a process. Releases the slot's content to
    /// [`Self::find`].
    pub fn open(&self, id: u64) {
        let ticket = self.last.load(Ordering::Relaxed) + 1;
        self.last.store(ticket, Ordering::Relaxed);
        self.process.store(id, Ordering::Relaxed);
        self.ticket.store(ticket, Ordering::Release);
    }

    /// Engine: the opening, if the slot is open to this process. Acquires the slot's content. What the engine then
    /// reads from the slot is valid if [`Self::confirm`] returns true afterwards.
    #[must_use]
    #[inline]
    pub fn find(&self, id: u64) -> Option<Opening> {
        let ticket = self.ticket.load(Ordering::Acquire);
        let is_open = ticket != CLOSED && self.process.load(Ordering::Relaxed) == id;
        is_open.then_some(Opening(ticket))
    }

    /// Engine, after it read the slot's content: returns whether that content belongs to the opening. The fence
    /// pairs with the one in [`Self::close`]: an engine that has read a store made after the slot was closed sees
    /// that it was closed.
    #[must_use]
    #[inline]
    pub fn confirm(&self, opening: Opening) -> bool {
        fence(Ordering::Acquire);
        self.is_open(opening)
    }

    /// Engine: returns whether an opening is current. Relaxed: the engine has acquired the content that it caches
    /// for the opening, and this load hands over nothing else. An engine that holds a queue calls this after
    /// [`FenceCell::wait`](super::fence::FenceCell::wait).
    #[must_use]
    #[inline]
    pub fn is_open(&self, opening: Opening) -> bool {
        self.ticket.load(Ordering::Relaxed) == opening.0
    }

    /// Control plane: closes the slot, which it may then fill anew.
    /// [`FenceCell::evaluate`](super::fence::FenceCell::evaluate) must follow, and names the engines that hold a
    /// queue for the fence.
    ///
    /// An engine that finds the slot closed reads nothing from it. The fence pairs with the one in
    /// [`Self::confirm`].
    pub fn close(&self) {
        self.ticket.store(CLOSED, Ordering::Relaxed);
        fence(Ordering::Release);
    }
}
