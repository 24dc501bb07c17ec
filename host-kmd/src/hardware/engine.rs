// SPDX-License-Identifier: MIT OR Apache-2.0

//! Engines: where they are, their power, their resets, and what they have forgotten.

use super::{Fault, GuestId, HwQueueId, Ticket, UnknownId};
use bellhop_protocol::control::power::EnginePowerState;

/// What an engine tells of itself (`DXGK_ENGINE_STATE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineState {
    /// It has work, and did not go to F1 when it was told to.
    Active {
        /// The number of the transition that it refused: see [`Engines::set_engine_power`].
        transition: u64,
    },
    /// It has had nothing to do for so long that it is worthwhile to take its power.
    TransitionToF1,
    /// `DXGK_INTERRUPT_GPU_ENGINE_TIMEOUT`: it has executed this queue for longer than it may while
    /// neither the queue's read pointer nor its progress fence moved. The engine keeps
    /// executing the queue in turn, and tells again after as long.
    Hung {
        /// The queue.
        queue: HwQueueId,
        /// Where the queue stands; the reason is `ENGINE_TIMEOUT`.
        fault: Fault,
    },
}

/// Where an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineProgress {
    /// It sleeps, and so executes nothing. One that was just called may still count as asleep.
    pub is_asleep: bool,
    /// Turns that it began to give to queues.
    pub turns: u64,
    /// The queue that has its turn now. `None` between turns, while the engine does everything else.
    pub executing: Option<HwQueueId>,
}

/// Engines, by their nodes.
pub trait Engines {
    /// Where a node's engine is.
    ///
    /// # Errors
    /// For a node that does not exist.
    fn engine_progress(&self, node: u32) -> Result<EngineProgress, UnknownId>;

    /// Resets a node's engine: the engine gives up the packet that it is stuck in, if it is stuck, and continues with
    /// the other queues, which lose nothing. [`Interrupt::EngineReset`](super::Interrupt::EngineReset) tells when it
    /// has; a packet may be stuck so that this never comes.
    ///
    /// # Errors
    /// For a node that does not exist.
    fn reset_engine(&self, node: u32) -> Result<(), UnknownId>;

    /// Resets all engines so that nothing stays stuck. [`Interrupt::EngineReset`](super::Interrupt::EngineReset)
    /// follows for each.
    fn reset_adapter(&self);

    /// Takes a node's power or gives it back. Without it the engine executes nothing, whatever it is
    /// given, and uses no CPU time. An engine that has work when it loses power keeps it, and says so
    /// by an interrupt.
    ///
    /// `transition` is greater for each call of a node's, and a refusal names it: when that is read, the
    /// engine may have been asked for something else.
    ///
    /// # Errors
    /// For a node that does not exist.
    fn set_engine_power(
        &self,
        node: u32,
        state: EnginePowerState,
        transition: u64,
    ) -> Result<(), UnknownId>;

    /// Asks every engine to forget the guest's translations, or those of all guests, and all destroyed queues. The
    /// ticket has passed once [`Self::quiesced`] is not less; an interrupt tells when that advances.
    fn quiesce(&self, guest: Option<GuestId>) -> Ticket;

    /// The latest ticket that has passed on every engine.
    fn quiesced(&self) -> Ticket;
}
