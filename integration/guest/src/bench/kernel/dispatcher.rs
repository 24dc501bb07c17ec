// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process that has a worker and a kernel that does nothing.

use super::work::NULL;
use crate::bench::set_up::{TIMEOUT, context};
use bellhop_guest_umd::{Adapter, Arguments, CommandBuffer, Error, UserModeQueue};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;

/// A process with a worker.
pub struct Dispatcher {
    // Dropped in this order.
    queue: UserModeQueue,
    commands: CommandBuffer,
    _process: Adapter,
}

impl Dispatcher {
    /// Has a process dispatch its kernel once, which starts its worker.
    ///
    /// # Errors
    /// When the device has no kernels, or no worker for this process.
    pub fn start(process: Adapter) -> anyhow::Result<Self> {
        let context = context(&process, EngineType::THREE_D)?;
        let mut commands = CommandBuffer::new(context.device(), PAGE_SIZE as usize)?;
        let kernel = NULL.create(context.device())?;
        commands.dispatch_kernel(&kernel, [1; 3], &Arguments::new())?;
        let queue = context.create_user_mode_queue(PAGE_SIZE)?;
        let mut dispatcher = Self { queue, commands, _process: process };
        dispatcher.submit()?;
        dispatcher.finish()?;
        Ok(dispatcher)
    }

    /// Dispatches the kernel.
    ///
    /// # Errors
    /// When the queue is lost.
    pub fn submit(&mut self) -> Result<(), Error> {
        self.queue.submit(&mut self.commands).map(drop)
    }

    /// Waits until it has run.
    ///
    /// # Errors
    /// When it does not.
    pub fn finish(&self) -> Result<(), Error> {
        self.queue.progress_fence().poll(self.queue.last_value(), TIMEOUT)
    }
}
