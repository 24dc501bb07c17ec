// SPDX-License-Identifier: MIT OR Apache-2.0

//! The start of most work: a process with one of each object that a submission needs.

mod queue;
mod request;

pub use queue::{Mode, Queue};
pub use request::request;

use bellhop_guest_umd::{
    Adapter, CommandBuffer, Context, Device, Error, GpuMapping, UserModeQueue,
};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::time::Duration;

/// The longest that a submission may take before it counts as lost.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The parameters of a [`Client`].
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The node that its queue submits to.
    pub node: u32,
    /// Bytes of its queue's ring.
    pub ring: u64,
    /// Bytes of its command buffer.
    pub commands: usize,
    /// Where its memory is.
    pub kind: AllocationKind,
    /// Bytes of its memory.
    pub memory: u64,
}

impl Default for Shape {
    fn default() -> Self {
        let kind = AllocationKind::SYSTEM;
        Self { node: 0, ring: 4096, commands: 4096 - 64, kind, memory: 4096 }
    }
}

/// A process with a device, a context, a queue, a command buffer and some memory.
pub struct Client {
    // Dropped in this order.
    /// A queue for user-mode submission.
    pub queue: UserModeQueue,
    /// The commands that the queue submits next.
    pub commands: CommandBuffer,
    /// Memory that the GPU may write.
    pub memory: GpuMapping,
    /// The queue's context.
    pub context: Context,
    /// The device of all of them.
    pub device: Device,
    /// The process.
    pub process: Adapter,
}

impl Client {
    /// Makes the objects that the shape describes in a process.
    ///
    /// # Errors
    /// When the device refuses, or does not answer.
    pub fn new(process: Adapter, shape: Shape) -> Result<Self, Error> {
        let device = process.create_device()?;
        Self::on(process, device, shape)
    }

    /// Makes the objects on a device of the process.
    ///
    /// # Errors
    /// When the device refuses, or does not answer.
    pub fn on(process: Adapter, device: Device, shape: Shape) -> Result<Self, Error> {
        let context = device.create_context(shape.node)?;
        let queue = context.create_user_mode_queue(shape.ring)?;
        let commands = CommandBuffer::new(&device, shape.commands)?;
        let memory = device.create_allocation(shape.kind, shape.memory)?;
        let memory = memory.map(Protection::WRITE)?;
        Ok(Self { queue, commands, memory, context, device, process })
    }

    /// GPU virtual address of a byte of the memory.
    #[must_use]
    pub fn va(&self, offset: u64) -> u64 {
        self.memory.gpu_va() + offset
    }

    /// Writes into the memory.
    ///
    /// # Errors
    /// When it has no such bytes, or no CPU reaches it.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.memory.allocation().write(offset, bytes)
    }

    /// Reads from the memory.
    ///
    /// # Errors
    /// When it has no such bytes, or no CPU reaches it.
    pub fn read(&self, offset: usize, length: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; length];
        self.memory.allocation().read(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a word of the memory.
    ///
    /// # Errors
    /// When it has no such bytes, or no CPU reaches it.
    pub fn word(&self, offset: usize) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.memory.allocation().read(offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Submits the commands; returns the value that the progress fence then gets.
    ///
    /// # Errors
    /// When the queue is lost, or its doorbell cannot be connected.
    pub fn submit(&mut self) -> Result<u64, Error> {
        self.queue.submit(&mut self.commands)
    }

    /// Waits for a submission by looking at the progress fence.
    ///
    /// # Errors
    /// When the queue is lost, or too much time passes.
    pub fn finish(&self, value: u64) -> Result<(), Error> {
        self.queue.progress_fence().poll(value, TIMEOUT)
    }

    /// Submits the commands, waits for them, and forgets them.
    ///
    /// # Errors
    /// As [`Self::submit`] and [`Self::finish`].
    pub fn run(&mut self) -> Result<(), Error> {
        let value = self.submit()?;
        self.finish(value)?;
        self.commands.reset();
        Ok(())
    }

    /// Another queue of the device, in a context of its own on this node.
    ///
    /// # Errors
    /// When the device refuses, or does not answer.
    pub fn queue_on(&self, node: u32) -> Result<UserModeQueue, Error> {
        self.device.create_context(node)?.create_user_mode_queue(4096)
    }

    /// As [`Self::run`], through another queue.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_on(&mut self, queue: &mut UserModeQueue) -> Result<(), Error> {
        let value = queue.submit(&mut self.commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
        self.commands.reset();
        Ok(())
    }

    /// A command buffer of the device, beside the client's own.
    ///
    /// # Errors
    /// When the device refuses, or does not answer.
    pub fn more_commands(&self, bytes: usize) -> Result<CommandBuffer, Error> {
        CommandBuffer::new(&self.device, bytes)
    }
}
