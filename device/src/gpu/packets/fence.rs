//! Packets on native fences: the context management processor's part.
//!
//! Source: native GPU fence object, "Conditional interrupt notification" and "Synchronization
//! issues".

use super::{Context, Hold, Outcome};
use crate::gpu::fence_table::Fence;
use crate::gpu::violation::Violation;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::fence::{ConditionalInterrupt, SignalFence, WaitFence};

/// What holds a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    slot: u32,
    value: u64,
}

impl Wait {
    /// Whether the queue can go on. If not, a signal of the fence will raise the engine's
    /// attention.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED`, also when the fence went while the queue waited.
    pub fn is_over(&self, context: &Context<'_>) -> Result<bool, Violation> {
        let (fences, bar) = (context.partition.fences(), context.partition.bar());
        fences.wait(self.slot, context.space, bar, context.engine, self.value)
    }
}

/// Makes `value` a fence's CurrentValue.
///
/// # Errors
/// `FENCE_NOT_OWNED` or `FENCE_WENT_BACKWARDS`.
#[inline]
pub fn signal(context: &mut Context<'_>, slot: u32, value: u64) -> Result<(), Violation> {
    let fence = owned(context, slot)?;
    let signaled = match fence.cell.signal(fence.published, value) {
        Ok(signaled) => signaled,
        Err(_) if fence.is_always_signaled() => return Ok(()),
        Err(error) => {
            return Err(Violation::new(FaultReason::FENCE_WENT_BACKWARDS, error.value));
        }
    };
    context.chip.deliver(context.partition, fence, signaled, context.tally);
    Ok(())
}

#[inline]
fn owned<'a>(context: &Context<'a>, slot: u32) -> Result<Fence<'a>, Violation> {
    context.partition.fences().owned(slot, context.space, context.partition.bar())
}

/// `SIGNAL_FENCE`.
#[inline]
pub fn signal_fence(context: &mut Context<'_>, packet: &SignalFence) -> Result<Outcome, Violation> {
    signal(context, packet.slot(), packet.value)?;
    Ok(Outcome::Done)
}

/// `WAIT_FENCE`.
pub fn wait_fence(context: &mut Context<'_>, packet: &WaitFence) -> Result<Outcome, Violation> {
    let wait = Wait { slot: packet.slot(), value: packet.value };
    Ok(if wait.is_over(context)? { Outcome::Done } else { Outcome::Hold(Hold::Fence(wait)) })
}

/// `CONDITIONAL_INTERRUPT`.
pub fn conditional_interrupt(
    context: &mut Context<'_>,
    packet: &ConditionalInterrupt,
) -> Result<Outcome, Violation> {
    let fence = owned(context, packet.slot())?;
    let signaled = fence.cell.evaluate(fence.published);
    context.chip.deliver(context.partition, fence, signaled, context.tally);
    Ok(Outcome::Done)
}
