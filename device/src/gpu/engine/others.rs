// SPDX-License-Identifier: MIT OR Apache-2.0

//! What else an engine may have to do while it polls for one queue.

use super::hints::Hints;
use super::watches::Watches;
use crate::gpu::shared::chip::EnginePort;

/// Where other work of an engine shows itself.
#[derive(Debug, Clone, Copy)]
pub struct Others<'a> {
    /// The engine's port.
    pub port: &'a EnginePort,
    /// The doorbells that it watches one by one.
    pub watches: &'a Watches,
    /// The doorbells that it watches as hints.
    pub hints: &'a Hints,
    /// Index on the run list of the queue that the engine polls for.
    pub index: u32,
}

impl Others<'_> {
    /// Whether somebody may want the engine: one of its attention, or a queue that rang. What this sees stays
    /// for the engine's next round. It sees no ring of the polled-for queue itself, which gains nothing by a turn
    /// sooner, and none of a doorbell that has not rung lately, which waits until the engine polls no more.
    #[inline]
    pub fn want_the_engine(&self) -> bool {
        self.port.attention.is_raised()
            || self.watches.has_rung_beside(self.index)
            || self.hints.are_there()
    }
}
