// SPDX-License-Identifier: MIT OR Apache-2.0

//! Engines: their progress, power and resets, and what they have forgotten.

use super::{Fault, GuestId, HwQueueId, Ticket, UnknownId};
use bellhop_protocol::control::power::EnginePowerState;

/// State that an engine reports (`DXGK_ENGINE_STATE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineState {
    /// The engine has work, and did not go to F1 as requested.
    Active {
        /// The number of the transition that it refused: see [`Engines::set_engine_power`].
        transition: u64,
    },
    /// The engine has been idle for so long that powering it down is worthwhile.
    TransitionToF1,
    /// `DXGK_INTERRUPT_GPU_ENGINE_TIMEOUT`: it has executed this queue for longer than the limit while neither the
    /// queue's read pointer nor its progress fence moved. The engine keeps executing the queue in turn, and reports
    /// again after the limit.
    Hung {
        /// The queue.
        queue: HwQueueId,
        /// The queue's position; the reason is `ENGINE_TIMEOUT`.
        fault: Fault,
    },
}

/// The progress of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineProgress {
    /// Whether it sleeps, and so executes nothing. A just-woken engine may still count as asleep.
    pub is_asleep: bool,
    /// Number of turns begun.
    pub turns: u64,
    /// The queue with the current turn. `None` between turns, while the engine does everything else.
    pub executing: Option<HwQueueId>,
    /// Whether it waits for the host's memory, and nothing can interrupt that: a guest's VMM can have it wait, by
    /// punching a hole where the engine reads or writes. No reset helps, and the engine goes on by itself.
    pub stands: bool,
}

/// Engines, by node.
pub trait Engines {
    /// The progress of a node's engine.
    ///
    /// # Errors
    /// Fails for a node that does not exist.
    fn engine_progress(&self, node: u32) -> Result<EngineProgress, UnknownId>;

    /// Resets a node's engine: the engine abandons the packet that it is stuck in, if any, and continues with the
    /// other queues, which lose nothing. [`Interrupt::EngineReset`](super::Interrupt::EngineReset) tells when it has;
    /// it never comes if the packet withstands the reset.
    ///
    /// # Errors
    /// Fails for a node that does not exist.
    fn reset_engine(&self, node: u32) -> Result<(), UnknownId>;

    /// Resets all engines so that none stays stuck. [`Interrupt::EngineReset`](super::Interrupt::EngineReset) follows
    /// for each.
    fn reset_adapter(&self);

    /// Takes a node's power or gives it back. Without power the engine executes nothing and uses no CPU time. An
    /// engine that has work when it loses power keeps it, and reports that by an interrupt.
    ///
    /// `transition` grows with each call for a node, and a refusal names it: by the time the refusal is read, another
    /// state may have been requested.
    ///
    /// # Errors
    /// Fails for a node that does not exist.
    fn set_engine_power(
        &self,
        node: u32,
        state: EnginePowerState,
        transition: u64,
    ) -> Result<(), UnknownId>;
}

/// What engines may still touch.
pub trait Quiescence {
    /// Drops what a HW queue has begun. The queue is in error and suspended, and is never resumed. An engine may execute
    /// it until a later [`Self::quiesce`] has passed.
    ///
    /// # Errors
    /// Fails for a queue that does not exist.
    fn lose_hw_queue(&self, queue: HwQueueId) -> Result<(), UnknownId>;

    /// Asks every engine to forget the guest's translations, or those of all guests, and all destroyed queues. The
    /// ticket has passed once [`Self::quiesced`] has reached it; an interrupt tells when that advances.
    fn quiesce(&self, guest: Option<GuestId>) -> Ticket;

    /// The latest ticket that every engine has passed.
    fn quiesced(&self) -> Ticket;

    /// The guests for which only earlier tickets have passed, each with the latest of them: something of the guest's own
    /// may still reach its memory, as a process that takes long to end does. Read after [`Self::quiesced`]. Nothing else
    /// waits for that: nobody but the guest has this memory.
    fn withheld(&self) -> Vec<(GuestId, Ticket)>;
}
