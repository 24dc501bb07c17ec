// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests whose kernels run for long, and a guest beside them whose commands are short.

use crate::bench::set_up::{TIMEOUT, context, null_commands};
use crate::own_kernels::modules::{Module, module};
use crate::timing::{Latency, time};
use bellhop_guest_umd::{Adapter, Arguments, CommandBuffer, GpuMapping, UserModeQueue};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Loops as often as its push constant says, in one invocation.
const LOOP: Module = module!("loop", push constants 4, descriptors 1);
/// Iterations of a long kernel: tens of milliseconds, many turns of an engine.
const ITERATIONS: u32 = 20_000_000;
/// Submissions in flight, so that the engine always has one to execute.
const IN_FLIGHT: usize = 2;

/// A guest that always has long kernels to run.
pub struct LongKernels {
    // Dropped in this order.
    queue: UserModeQueue,
    commands: Vec<CommandBuffer>,
    _results: Vec<GpuMapping>,
    adapter: Arc<Adapter>,
}

impl LongKernels {
    /// Prepares a guest, and has it run kernels once.
    ///
    /// # Errors
    /// When the device refuses something, or has no kernels.
    pub fn new(adapter: Adapter) -> anyhow::Result<Self> {
        let context = context(&adapter, EngineType::THREE_D)?;
        let device = context.device();
        let kernel = LOOP.create(device)?;
        let (mut commands, mut results) = (Vec::new(), Vec::new());
        for _ in 0..IN_FLIGHT {
            let result = device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
            let result = result.map(Protection::WRITE)?;
            let mut arguments = Arguments::new();
            arguments.u32(ITERATIONS).descriptor(result.gpu_va(), PAGE_SIZE);
            let mut buffer = CommandBuffer::new(device, PAGE_SIZE as usize)?;
            buffer.dispatch_kernel(&kernel, [1; 3], &arguments)?;
            commands.push(buffer);
            results.push(result);
        }
        let mut queue = context.create_user_mode_queue(PAGE_SIZE)?;
        // Starting a worker takes longer than many kernels.
        for buffer in &mut commands {
            queue.submit(buffer)?;
        }
        queue.progress_fence().wait(queue.last_value(), TIMEOUT)?;
        Ok(Self { queue, commands, _results: results, adapter: Arc::new(adapter) })
    }

    /// Keeps kernels in flight until `stop` is set and the last is done.
    ///
    /// # Errors
    /// When a kernel fails.
    pub fn run(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let Self { queue, commands, .. } = self;
        while !stop.load(Ordering::Relaxed) {
            for buffer in &mut *commands {
                let value = queue.submit(buffer)?;
                let before = value.saturating_sub(IN_FLIGHT as u64 - 1);
                queue.progress_fence().wait(before, TIMEOUT)?;
            }
        }
        Ok(queue.progress_fence().wait(queue.last_value(), TIMEOUT)?)
    }

    /// The guest as others see it.
    #[must_use]
    pub fn adapter(&self) -> Arc<Adapter> {
        Arc::clone(&self.adapter)
    }
}

/// A guest with short commands of built-in packets on the same engine.
pub struct Neighbour {
    // Dropped in this order.
    queue: UserModeQueue,
    commands: CommandBuffer,
    _adapter: Adapter,
}

impl Neighbour {
    /// Prepares a guest.
    ///
    /// # Errors
    /// When the device refuses something.
    pub fn new(adapter: Adapter) -> anyhow::Result<Self> {
        let context = context(&adapter, EngineType::THREE_D)?;
        let commands = null_commands(context.device())?;
        let queue = context.create_user_mode_queue(PAGE_SIZE)?;
        Ok(Self { queue, commands, _adapter: adapter })
    }

    /// Times round trips from submission to fence, one after the other.
    ///
    /// # Errors
    /// When one does not end.
    pub fn round_trips(&mut self, samples: u64) -> anyhow::Result<Latency> {
        let Self { queue, commands, .. } = self;
        time(samples, || {
            let value = queue.submit(commands)?;
            queue.progress_fence().poll(value, TIMEOUT)
        })
    }
}
