//! Packets on native fences: the context management processor's part.
//!
//! Source: native GPU fence object, "Conditional interrupt notification" and "Synchronization
//! issues".

use super::{Before, Context, Hold, Outcome};
use crate::gpu::fence_table::Fence;
use crate::gpu::violation::Violation;
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::fence_log::{FenceLogEntry, FenceLogOperation};
use bellhop_protocol::handoff::fence::WentBackwards;
use bellhop_protocol::packet::fence::{
    ConditionalInterrupt, LogFence, LoggedSignal, SignalFence, WaitFence, WriteFence,
};

/// What holds a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    slot: u32,
    value: u64,
    /// When the engine saw that the queue must wait, on the adapter's clock.
    since: u64,
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
fn signal(context: &mut Context<'_>, slot: u32, value: u64) -> Result<(), Violation> {
    let fence = owned(context, slot)?;
    if let Some(signaled) = change(&fence, || fence.cell.signal(fence.published, value))? {
        context.chip.deliver(context.partition, fence, signaled, context.tally);
    }
    Ok(())
}

/// Changes a CurrentValue; not that of a fence that is always signaled, nor one of which another guest has
/// a view and got further: nobody loses a queue over what another guest does, and the greater value stands.
///
/// # Errors
/// `FENCE_WENT_BACKWARDS`.
#[inline]
fn change<T>(
    fence: &Fence<'_>,
    change: impl FnOnce() -> Result<T, WentBackwards>,
) -> Result<Option<T>, Violation> {
    // Where it is always signaled to this guest alone, the value of others does not tell.
    if fence.is_shared && fence.cell.is_always_signaled() {
        return Ok(None);
    }
    match change() {
        Ok(done) => Ok(Some(done)),
        Err(_) if fence.is_shared || fence.cell.is_always_signaled() => Ok(None),
        Err(error) => Err(Violation::new(FaultReason::FENCE_WENT_BACKWARDS, error.value)),
    }
}

/// Signals the queue's progress fence. Who submits in kernel mode puts no packet for that into the buffer,
/// and so not for the log either: the engine does, when everything is logged.
///
/// # Errors
/// As [`signal`].
pub fn signal_progress(context: &mut Context<'_>, slot: u32, value: u64) -> Result<(), Violation> {
    if context.chip.logging_level() != LoggingLevel::VERBOSE {
        return signal(context, slot, value);
    }
    let logged = LoggedSignal::new(slot, value);
    write_fence(context, &logged.write)?;
    log_fence(context, &logged.log, Before::Other)?;
    let before = std::mem::take(&mut context.before);
    conditional_interrupt(context, &logged.interrupt, before)?;
    Ok(())
}

/// Writes an entry. A guest can say of an operation what it likes: it misleads who looks at its own logs.
/// Returns what the packet is to the next.
///
/// # Errors
/// `BAD_LOG_OPERATION`.
#[inline]
fn log(
    context: &Context<'_>,
    packet: &LogFence,
    observed_timestamp: u64,
) -> Result<Before, Violation> {
    let operation = packet.operation;
    let bad = Violation::new(FaultReason::BAD_LOG_OPERATION, u64::from(operation.0));
    // A queue that was given no log logs nothing.
    let Some(log) = context.queue.logs.get(operation.log().ok_or(bad)?) else {
        return Ok(Before::Other);
    };
    let entry = FenceLogEntry {
        fence_value: packet.value,
        fence: packet.slot(),
        operation: operation.0,
        queued_timestamp: packet.queued_timestamp,
        observed_timestamp,
        reserved: 0,
        end_timestamp: context.chip.now(),
    };
    log.write_entry(entry);
    if context.chip.is_traced()
        && let Some(port) = context.chip.engines.get(context.engine as usize)
    {
        port.trace(FenceLogEntry { reserved: context.queue.id.0, ..entry });
    }
    Ok(match operation {
        FenceLogOperation::SIGNAL_EXECUTED => Before::Logged(packet.slot()),
        _ => Before::Other,
    })
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
    let wait = Wait { slot: packet.slot(), value: packet.value, since: 0 };
    if wait.is_over(context)? {
        return Ok(Outcome::Done);
    }
    Ok(Outcome::Hold(Hold::Fence(Wait { since: context.chip.now(), ..wait })))
}

/// `WRITE_FENCE`.
#[inline]
pub fn write_fence(context: &mut Context<'_>, packet: &WriteFence) -> Result<Outcome, Violation> {
    let fence = owned(context, packet.slot())?;
    change(&fence, || fence.cell.write(packet.value))?;
    Ok(Outcome::Done)
}

/// `LOG_FENCE`.
#[inline]
pub fn log_fence(
    context: &mut Context<'_>,
    packet: &LogFence,
    before: Before,
) -> Result<Outcome, Violation> {
    owned(context, packet.slot())?;
    let observed = match (packet.operation, before) {
        (FenceLogOperation::WAIT_UNBLOCKED, Before::Held(Wait { slot, value, since }))
            if (slot, value) == (packet.slot(), packet.value) =>
        {
            since
        }
        _ => 0,
    };
    context.before = log(context, packet, observed)?;
    Ok(Outcome::Done)
}

/// `CONDITIONAL_INTERRUPT`.
pub fn conditional_interrupt(
    context: &mut Context<'_>,
    packet: &ConditionalInterrupt,
    before: Before,
) -> Result<Outcome, Violation> {
    let fence = owned(context, packet.slot())?;
    if fence.is_shared && fence.cell.is_always_signaled() {
        return Ok(Outcome::Done);
    }
    let signaled = fence.cell.evaluate(fence.published);
    // Where the log does not say that this fence was signaled, the interrupt must.
    let is_logged = before == Before::Logged(packet.slot()) && fence.is_native;
    if context.chip.optimized_fence_interrupt && is_logged {
        context.chip.deliver_logged(context.queue, signaled, context.tally);
    } else {
        context.chip.deliver(context.partition, fence, signaled, context.tally);
    }
    Ok(Outcome::Done)
}
