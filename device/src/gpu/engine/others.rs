// SPDX-License-Identifier: MIT OR Apache-2.0

//! What else an engine may have to do while it polls for a queue.

use super::hints::Hints;
use super::watches::Watches;
use crate::gpu::shared::chip::EnginePort;

/// Where an engine's other work appears.
#[derive(Debug, Clone, Copy)]
pub struct Others<'a> {
    /// The engine's port.
    pub port: &'a EnginePort,
    /// The doorbells that the engine watches one by one.
    pub watches: &'a Watches,
    /// The doorbells that the engine watches as hints.
    pub hints: &'a Hints,
    /// Index on the run list of the queue that the engine polls for.
    pub index: u32,
}

impl Others<'_> {
    /// Whether the engine may have other work: raised attention, or a queue that rang. The next round of the engine
    /// sees it too. Rings of the polled-for queue do not count, because an earlier turn gains it nothing. Rings of
    /// doorbells that have not rung lately do not count either: they wait until the engine stops polling.
    #[inline]
    pub fn want_the_engine(&self) -> bool {
        self.port.attention.is_raised()
            || self.watches.has_rung_beside(self.index)
            || self.hints.are_there()
    }
}
