// SPDX-License-Identifier: MIT OR Apache-2.0

//! Open and name, close and wait.
//!
//! A process's packets name a fence through a slot that the process owns. The control plane fills the slot
//! and then opens it to the process; an engine that finds the process to be the owner finds the slot filled.
//!
//! Each opening has a ticket that no other opening of the slot has. An engine that remembers what it found
//! under a ticket need only compare the ticket: while that stands, the slot is open to the process that it was
//! open to, and means what it meant. What is found while the slot is closed and filled anew may be of both
//! openings; the engine looks at the ticket once more then, and finds another.
//!
//! A queue may begin to wait for the fence while the control plane closes the slot. The engine stores that it
//! waits and then looks at the ticket; the control plane takes the ticket away and then looks who waits. The
//! full fences of [`FenceCell::wait`](super::fence::FenceCell::wait) and
//! [`FenceCell::evaluate`](super::fence::FenceCell::evaluate) stand between, so either the engine sees that
//! the slot is closed, or the control plane sees that the engine waits.

use super::sync::{AtomicU64, Ordering, fence};

/// The ticket of a slot that is closed.
const CLOSED: u64 = 0;

/// One opening of a slot to one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening(u64);

/// The process that owns a slot.
#[derive(Debug)]
pub struct Owner {
    /// The ticket of the opening; [`CLOSED`] between two.
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
    /// The slot is closed.
    #[must_use]
    pub fn new() -> Self {
        let [ticket, process, last] = [CLOSED; 3].map(AtomicU64::new);
        Self { ticket, process, last }
    }

    /// Control plane, after it filled the slot, which is closed: opens it to a process. Releases the slot's
    /// content to [`Self::find`].
    pub fn open(&self, id: u64) {
        let ticket = self.last.load(Ordering::Relaxed) + 1;
        self.last.store(ticket, Ordering::Relaxed);
        self.process.store(id, Ordering::Relaxed);
        self.ticket.store(ticket, Ordering::Release);
    }

    /// Engine: the opening, if the slot is open to a process. Acquires the slot's content. What the engine then
    /// finds in the slot is that content if [`Self::confirm`] says so afterwards.
    #[must_use]
    #[inline]
    pub fn find(&self, id: u64) -> Option<Opening> {
        let ticket = self.ticket.load(Ordering::Acquire);
        let is_open = ticket != CLOSED && self.process.load(Ordering::Relaxed) == id;
        is_open.then_some(Opening(ticket))
    }

    /// Engine, after it read the slot's content: whether that is the opening's. The fence pairs with the one in
    /// [`Self::close`]: an engine that has read what was stored after the slot was closed sees that it was.
    #[must_use]
    #[inline]
    pub fn confirm(&self, opening: Opening) -> bool {
        fence(Ordering::Acquire);
        self.is_open(opening)
    }

    /// Engine: whether an opening stands. Relaxed: the engine has acquired what it remembers of the opening, and
    /// finds nothing else by this. An engine that holds a queue asks after
    /// [`FenceCell::wait`](super::fence::FenceCell::wait).
    #[must_use]
    #[inline]
    pub fn is_open(&self, opening: Opening) -> bool {
        self.ticket.load(Ordering::Relaxed) == opening.0
    }

    /// Control plane: closes the slot, which it may fill anew after this.
    /// [`FenceCell::evaluate`](super::fence::FenceCell::evaluate) must follow, and names the engines that hold a
    /// queue for the fence.
    ///
    /// An engine that finds the slot closed reads nothing of it. The fence pairs with the one in
    /// [`Self::confirm`].
    pub fn close(&self) {
        self.ticket.store(CLOSED, Ordering::Relaxed);
        fence(Ordering::Release);
    }
}
