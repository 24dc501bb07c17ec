// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a packet can reach, and what the packet before it was.

use super::fence::Signals;
use crate::gpu::engine::others::Others;
use crate::gpu::engine::workers::Workers;
use crate::gpu::memory::mmu::Mmu;
use crate::gpu::memory::violation::Violation;
use crate::gpu::security;
use crate::gpu::shared::chip::Chip;
use crate::gpu::shared::fence::handle::FenceHandle;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::hardware::AddressSpaceId;
use bellhop_protocol::control::adapter::EngineType;
use std::sync::Arc;

/// The size of each of an engine's buffers: small enough for two to stay in its L1 cache.
pub const BUFFER: usize = 8192;

/// An engine's own buffers, for computing.
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
    /// The engine that executes the packet.
    pub engine: u32,
    /// The engine's type.
    pub engine_type: EngineType,
    /// The guest that submitted the packet.
    pub partition: &'a Partition,
    /// The process that submitted the packet.
    pub space: AddressSpaceId,
    /// Whether the packet is the host's own, in the guest's system context.
    pub is_system: bool,
    /// The packet's queue.
    pub queue: &'a Arc<HwQueue>,
    /// What the packet before was.
    pub before: Before,
    /// What the packet's signals reach.
    pub signals: Signals<'a>,
    /// The fence that the queue's packets waited for last.
    pub waited: &'a mut FenceHandle,
    /// What else the engine may have to do, if it knows of no other work.
    pub others: Option<Others<'a>>,
    /// What is known of the turn's time.
    pub timing: Timing,
    /// The process's memory.
    pub mmu: Mmu<'a>,
    /// The engine's buffers.
    pub scratch: &'a mut Scratch,
    /// The processes that execute kernels, if the engine has any.
    pub workers: Option<&'a mut Workers>,
    /// The way to the worker with the keys, if the engine is a security node's.
    pub security: Option<&'a mut security::unit::SecurityUnit>,
}

/// What is known of the time of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// When the turn began on the adapter's clock, if the clock was read.
    pub began: Option<u64>,
    /// Whether the turn has executed nothing that may take long.
    pub is_short: bool,
}

impl Context<'_> {
    /// Called before work that may take long: times the turn from here on, unless it is already timed.
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
    /// It logged a signal of the fence in this slot.
    Logged(u32),
}

/// A queue's wait for a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The fence's slot.
    pub slot: u32,
    /// The value that the queue waits for.
    pub value: u64,
    /// The time on the adapter's clock when the engine saw that the queue must wait.
    pub since: u64,
}

/// Nanoseconds for which an engine without other work polls a fence before it registers as a waiter: the cost of
/// registering and of the wake-up by another engine. If the signal comes within this time, it costs the move of one
/// cache line.
const POLL: u64 = 3_000;
/// Looks at a fence between two reads of the clock.
const LOOKS_PER_CLOCK: u32 = 8;

impl Wait {
    /// Whether the fence has reached the value. Does not register the engine as a waiter.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED` or `FENCE_NOT_NATIVE`.
    #[inline]
    pub fn has_reached(&self, context: &mut Context<'_>) -> Result<bool, Violation> {
        context.waited.has_reached(self.slot, self.value)
    }

    /// Polls the fence briefly, as long as the engine has no other work. Returns whether the fence has reached the
    /// value. If not, [`Self::is_over`] must follow: only that registers the engine as a waiter, and looks once
    /// more.
    ///
    /// # Errors
    /// As [`Self::has_reached`].
    pub fn poll(&self, context: &mut Context<'_>) -> Result<bool, Violation> {
        let Some(others) = context.others.filter(|others| others.may_poll) else {
            return Ok(false);
        };
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
    /// `FENCE_NOT_OWNED`, also if the fence was destroyed while the queue waited.
    pub fn is_over(&self, context: &Context<'_>) -> Result<bool, Violation> {
        let (fences, bar) = (context.partition.fences(), context.partition.bar());
        fences.wait(self.slot, context.space, bar, context.engine, self.value)
    }
}
