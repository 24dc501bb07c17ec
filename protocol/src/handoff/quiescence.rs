// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tickets: when no engine uses a thing any more.
//!
//! The control plane changes something that engines may cache, draws a ticket and calls every engine
//! ([`Attention`](super::attention::Attention)). A called engine reads the latest ticket between two turns,
//! flushes, and passes the ticket. Once all engines have passed it, none uses the old state.
//!
//! Each engine stores that it passed and then loads what the others stored. With a full fence between the two, at
//! least one of the engines that pass concurrently sees that all have passed, and reports it.

use super::publication;
use super::sync::{AtomicU64, Ordering, fence};

/// The drawn tickets, numbered from 1.
#[derive(Debug)]
pub struct Tickets(AtomicU64);

impl Default for Tickets {
    fn default() -> Self {
        Self::new()
    }
}

impl Tickets {
    /// No ticket is drawn.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Control plane, after a change: draws a ticket. Every engine must then be called. Releases the change to
    /// [`Self::latest`], also to an engine that reads the ticket before it is called.
    #[must_use = "the change is over when every engine has passed the ticket"]
    pub fn draw(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Release) + 1
    }

    /// Engine, before it flushes: the latest ticket. Acquires the changes before each ticket up to this one.
    #[must_use]
    pub fn latest(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The latest ticket that one engine has passed.
#[derive(Debug)]
pub struct Passed(AtomicU64);

impl Default for Passed {
    fn default() -> Self {
        Self::new()
    }
}

impl Passed {
    /// No ticket is passed.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Engine: reports that it has flushed everything up to `ticket`. Returns the ticket that `all` engines have
    /// passed if it is this one or a later one: the engine then notifies the waiters. Releases the engine's last
    /// use to [`Self::on_all`].
    #[must_use = "those that wait for the ticket must be told"]
    pub fn pass<'a>(&self, ticket: u64, all: impl Iterator<Item = &'a Self>) -> Option<u64> {
        publication::publish(&self.0, ticket);
        fence(Ordering::SeqCst);
        let passed = Self::on_all(all);
        (passed >= ticket).then_some(passed)
    }

    /// The latest ticket that `all` engines have passed. Acquires each engine's last use of the state before the
    /// ticket's change.
    #[must_use]
    pub fn on_all<'a>(all: impl Iterator<Item = &'a Self>) -> u64 {
        all.map(|engine| publication::read(&engine.0)).min().unwrap_or(0)
    }
}
