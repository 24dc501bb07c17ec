// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets on native fences: the context management processor's part.
//!
//! Source: native GPU fence object, "Conditional interrupt notification" and "Synchronization
//! issues".

use super::context::{Before, Context, Wait};
use crate::gpu::memory::violation::Violation;
use crate::gpu::shared::chip::Chip;
use crate::gpu::shared::fence::handle::FenceHandle;
use crate::gpu::shared::fence::table::Fence;
use crate::gpu::shared::partition::Partition;
use crate::gpu::shared::statistics::Tally;
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::fence_log::{FenceLogEntry, FenceLogOperation};
use bellhop_protocol::handoff::fence::{SignalRule, WentBackwards};
use bellhop_protocol::packet::fence::{
    ConditionalInterrupt, LogFence, LoggedSignal, WaitFence, WriteFence,
};

/// What the signals of a queue's turn reach, and the last of these signals.
#[derive(Debug)]
pub struct Signals<'a> {
    /// The rest of the GPU.
    pub chip: &'a Chip,
    /// The guest of the queue.
    pub partition: &'a Partition,
    /// The fence that the queue's packets named last.
    pub fence: &'a mut FenceHandle,
    /// The turn's counts.
    pub tally: &'a mut Tally,
    last: LastSignal,
}

impl<'a> Signals<'a> {
    /// The state before the first signal of a turn.
    #[inline]
    pub fn new(
        chip: &'a Chip,
        partition: &'a Partition,
        fence: &'a mut FenceHandle,
        tally: &'a mut Tally,
    ) -> Self {
        Self { chip, partition, fence, tally, last: LastSignal::NONE }
    }

    /// Sets a fence's CurrentValue to `value`. Returns whether later signals of the fence may be held back.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED` or `FENCE_WENT_BACKWARDS`.
    #[inline(always)]
    fn make(&mut self, slot: u32, value: u64) -> Result<bool, Violation> {
        let fence = self.fence.owned(slot)?;
        if let Some(signaled) = change(fence, || fence.cell.signal(fence.published(), value))? {
            self.chip.deliver(self.partition, fence, signaled, self.tally);
        }
        // Each signal of a monitored fence interrupts, a rewindable fence takes each of its values, and other
        // guests signal a shared fence too.
        Ok(fence.is_native && !fence.is_shared && fence.cell.rule == SignalRule::Monotonic)
    }

    /// `SIGNAL_FENCE`: holds the signal back if the packets before signaled this fence too. Returns false if the
    /// signal must be made with [`Self::signal`].
    #[inline]
    pub fn hold(&mut self, slot: u32, value: u64) -> bool {
        let last = &mut self.last;
        if last.slot != slot || last.value > value || last.room == 0 {
            return false;
        }
        (last.value, last.room, last.is_held) = (value, last.room - 1, true);
        true
    }

    /// `SIGNAL_FENCE`, of a signal that is not held back.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED` or `FENCE_WENT_BACKWARDS`.
    #[inline(never)]
    pub fn signal(&mut self, slot: u32, value: u64) -> Result<(), Violation> {
        self.make_held()?;
        self.last = LastSignal::NONE;
        if self.make(slot, value)? {
            self.last = LastSignal { slot, room: SIGNALS_AT_ONCE - 1, value, is_held: false };
        }
        Ok(())
    }

    /// Makes the signal that [`Self::hold`] has held back, if there is one. The next signal is not held back.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED` if the process closed the fence meanwhile.
    #[inline]
    pub fn make_held(&mut self) -> Result<(), Violation> {
        if self.last.is_held { self.make_accepted() } else { Ok(()) }
    }

    #[inline(never)]
    fn make_accepted(&mut self) -> Result<(), Violation> {
        let LastSignal { slot, value, .. } = std::mem::replace(&mut self.last, LastSignal::NONE);
        let fence = self.fence.owned(slot)?;
        // Another queue may have signaled it further since the engine accepted this value.
        if let Ok(signaled) = fence.cell.signal(fence.published(), value) {
            self.chip.deliver(self.partition, fence, signaled, self.tally);
        }
        Ok(())
    }
}

/// Changes a CurrentValue. A fence that is always signaled stays as it is. So does a fence that another guest, with
/// a view of it, signaled further: the greater value stands, and no guest loses a queue over what another guest
/// does.
///
/// # Errors
/// `FENCE_WENT_BACKWARDS`.
#[inline]
fn change<T>(
    fence: &Fence<'_>,
    change: impl FnOnce() -> Result<T, WentBackwards>,
) -> Result<Option<T>, Violation> {
    // If it is always signaled for this guest alone, the value that others see does not show it.
    if fence.is_shared && fence.cell.is_always_signaled() {
        return Ok(None);
    }
    match change() {
        Ok(done) => Ok(Some(done)),
        Err(_) if fence.is_shared || fence.cell.is_always_signaled() => Ok(None),
        Err(error) => Err(Violation::new(FaultReason::FENCE_WENT_BACKWARDS, error.value)),
    }
}

/// Signals the queue's progress fence. A kernel-mode submission has no packets for that signal and its log entry,
/// so the engine logs the signal at logging level `VERBOSE`.
///
/// # Errors
/// `FENCE_NOT_OWNED` or `FENCE_WENT_BACKWARDS`.
pub fn signal_progress(context: &mut Context<'_>, slot: u32, value: u64) -> Result<(), Violation> {
    if context.chip.logging_level() != LoggingLevel::VERBOSE {
        return context.signals.make(slot, value).map(drop);
    }
    let logged = LoggedSignal::new(slot, value);
    write_fence(context, &logged.write)?;
    log_fence(context, &logged.log, Before::Other)?;
    let before = std::mem::take(&mut context.before);
    conditional_interrupt(context, &logged.interrupt, before)
}

/// Writes an entry. A guest can log anything about an operation: it misleads only readers of its own logs. Returns
/// what the next packet must know.
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
    // A queue without a log logs nothing.
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

/// The most signals of a fence that the engine makes as one: when a guest signals after each of many short command
/// buffers, the cache line changes hands once for all of them.
const SIGNALS_AT_ONCE: u32 = 16;

/// The fence that the last packets of a turn signaled, and a signal of it that the engine has accepted but not
/// made.
///
/// A held signal comes later and never earlier: the engine makes it before any packet that reads memory or a fence,
/// and before the turn ends. The first signal of a fence in a turn is made at once.
#[derive(Debug, Clone, Copy)]
struct LastSignal {
    slot: u32,
    /// The number of signals that the engine may still hold back.
    room: u32,
    /// The last packet's value. CurrentValue was at most this when the engine saw the packet.
    value: u64,
    /// Whether the signal is not made yet.
    is_held: bool,
}

impl LastSignal {
    /// No signal may be held back.
    const NONE: Self = Self { slot: 0, room: 0, value: 0, is_held: false };
}

/// `WAIT_FENCE`: returns what holds the queue, if anything does. Two engines that wait for each other poll here,
/// and continue as soon as each other's cache lines have moved.
pub fn wait_fence(
    context: &mut Context<'_>,
    packet: &WaitFence,
) -> Result<Option<Wait>, Violation> {
    let wait = Wait { slot: packet.slot(), value: packet.value, since: 0 };
    if wait.has_reached(context)? {
        return Ok(None);
    }
    let wait = Wait { since: context.chip.now(), ..wait };
    if wait.poll(context)? {
        context.before = Before::Held(wait);
        return Ok(None);
    }
    Ok(Some(wait))
}

/// `WRITE_FENCE`.
#[inline]
pub fn write_fence(context: &mut Context<'_>, packet: &WriteFence) -> Result<(), Violation> {
    let fence = context.signals.fence.owned(packet.slot())?;
    change(fence, || fence.cell.write(packet.value))?;
    Ok(())
}

/// `LOG_FENCE`.
#[inline]
pub fn log_fence(
    context: &mut Context<'_>,
    packet: &LogFence,
    before: Before,
) -> Result<(), Violation> {
    // After a wait, the log names the fence that was waited for. The handle of signaled fences keeps the fence that
    // the next packets signal.
    let handle = match packet.operation {
        FenceLogOperation::WAIT_UNBLOCKED => &mut *context.waited,
        _ => &mut *context.signals.fence,
    };
    handle.owned(packet.slot())?;
    let observed = match (packet.operation, before) {
        (FenceLogOperation::WAIT_UNBLOCKED, Before::Held(Wait { slot, value, since }))
            if (slot, value) == (packet.slot(), packet.value) =>
        {
            since
        }
        _ => 0,
    };
    context.before = log(context, packet, observed)?;
    Ok(())
}

/// `CONDITIONAL_INTERRUPT`.
pub fn conditional_interrupt(
    context: &mut Context<'_>,
    packet: &ConditionalInterrupt,
    before: Before,
) -> Result<(), Violation> {
    let fence = context.signals.fence.owned(packet.slot())?;
    if fence.is_shared && fence.cell.is_always_signaled() {
        return Ok(());
    }
    let signaled = fence.cell.evaluate(fence.published());
    // If the log does not show that this fence was signaled, the interrupt must.
    let is_logged = before == Before::Logged(packet.slot()) && fence.is_native;
    if context.chip.optimized_fence_interrupt && is_logged {
        context.chip.deliver_logged(context.queue, signaled, context.signals.tally);
    } else {
        context.chip.deliver(context.partition, fence, signaled, context.signals.tally);
    }
    Ok(())
}
