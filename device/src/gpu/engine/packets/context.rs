// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a packet can reach, and what the packet before it was.

use super::fence::Signals;
use crate::gpu::engine::others::Others;
use crate::gpu::memory::mmu::Mmu;
use crate::gpu::memory::violation::Violation;
use crate::gpu::shared::chip::Chip;
use crate::gpu::shared::fence_handle::FenceHandle;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::hardware::AddressSpaceId;
use bellhop_protocol::control::adapter::EngineType;

/// Bytes of one of an engine's buffers: small enough for two to stay in its L1 cache.
pub const BUFFER: usize = 8192;

/// An engine's own buffers, for bytes that it computes with.
#[derive(Debug)]
pub struct Scratch {
    /// The first buffer.
    pub first: Box<[u8; BUFFER]>,
    /// The second buffer.
    pub second: Box<[u8; BUFFER]>,
}

impl Scratch {
    /// Two buffers.
    pub fn new() -> Self {
        Self { first: Box::new([0; BUFFER]), second: Box::new([0; BUFFER]) }
    }
}

/// What a packet can reach.
pub struct Context<'a> {
    /// The rest of the GPU.
    pub chip: &'a Chip,
    /// The engine that executes it.
    pub engine: u32,
    /// What that engine is made for.
    pub engine_type: EngineType,
    /// The guest whose packet it is.
    pub partition: &'a Partition,
    /// The process whose packet it is.
    pub space: AddressSpaceId,
    /// Whether it is the host's own, in the guest's system context.
    pub is_system: bool,
    /// Its queue.
    pub queue: &'a HwQueue,
    /// What the packet before was.
    pub before: Before,
    /// What its signals reach.
    pub signals: Signals<'a>,
    /// The fence that the queue's packets waited for last.
    pub waited: &'a mut FenceHandle,
    /// What else the engine may have to do, if it has nothing to do that it knows of, and may poll.
    pub others: Option<Others<'a>>,
    /// What is known of the time of the queue's turn.
    pub timing: Timing,
    /// The process's memory.
    pub mmu: Mmu<'a>,
    /// The engine's buffers.
    pub scratch: &'a mut Scratch,
}

/// What is known of the time of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// When it began on the adapter's clock, as far as the clock was looked at.
    pub began: Option<u64>,
    /// It has executed nothing that may take long.
    pub is_short: bool,
}

impl Context<'_> {
    /// The turn is about to do what may take long: it is timed from here on, unless it is timed already.
    #[inline]
    pub fn time_turn(&mut self) {
        if std::mem::take(&mut self.timing.is_short) && self.timing.began.is_none() {
            self.begin_timing();
        }
    }

    #[cold]
    fn begin_timing(&mut self) {
        let now = self.chip.now();
        if let Some(port) = self.chip.engines.get(self.engine as usize) {
            port.turns.time(self.queue, now);
        }
        self.timing.began = Some(now);
    }
}

/// What the next packet must know of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    #[default]
    Other,
    /// A wait that held the queue.
    Held(Wait),
    /// It has logged a signal of the fence in this slot.
    Logged(u32),
}

/// What holds a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The fence's slot.
    pub slot: u32,
    /// The value that it waits for.
    pub value: u64,
    /// When the engine saw that the queue must wait, on the adapter's clock.
    pub since: u64,
}

/// Nanoseconds for which an engine that has nothing else to do polls a fence before it asks to be called: what
/// that takes, and another engine's call. Who signals at once is seen for a line that moves instead.
const POLL: u64 = 3_000;
/// Looks at a fence between two looks at the clock.
const LOOKS_PER_CLOCK: u32 = 8;

impl Wait {
    /// Whether the fence is at the value. Nobody calls the engine when it is.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED` or `FENCE_NOT_NATIVE`.
    #[inline]
    pub fn has_reached(&self, context: &mut Context<'_>) -> Result<bool, Violation> {
        context.waited.has_reached(self.slot, self.value)
    }

    /// Polls the fence for a moment, as long as the engine has nothing else to do; whether the fence came to be at
    /// the value. If not, [`Self::is_over`] must follow: only that asks to be called, and looks once more then.
    ///
    /// # Errors
    /// As [`Self::has_reached`].
    pub fn poll(&self, context: &mut Context<'_>) -> Result<bool, Violation> {
        let Some(others) = context.others else { return Ok(false) };
        let end = self.since.saturating_add(POLL);
        loop {
            for _ in 0..LOOKS_PER_CLOCK {
                if self.has_reached(context)? {
                    return Ok(true);
                }
                if others.want_the_engine() {
                    return Ok(false);
                }
            }
            if context.chip.now() >= end {
                return Ok(false);
            }
        }
    }

    /// Whether the wait is over. If not, a signal of the fence will raise the engine's attention.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED`, also when the fence went while the queue waited.
    pub fn is_over(&self, context: &Context<'_>) -> Result<bool, Violation> {
        let (fences, bar) = (context.partition.fences(), context.partition.bar());
        fences.wait(self.slot, context.space, bar, context.engine, self.value)
    }
}
