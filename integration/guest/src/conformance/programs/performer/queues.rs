// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program's queues, and what it submits to them.

use super::{Perform, Performer, nth};
use crate::conformance::programs::wire::{
    CreateQueue, Failure, Finish, Progress, QueryStatus, QueueAt, Step, Submit,
};
use crate::conformance::scene::TIMEOUT;
use bellhop_guest_umd::{CommandBuffer, Context, Error, Fence, UserModeQueue};
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::{Opcode, PacketHeader};
use zerocopy::IntoBytes;

/// Bytes of the longest step.
const STEP: usize = 64;
/// Bytes of a ring: room for what the longest behaviour submits at once.
const RING: u64 = 32 << 10;

/// A queue in a context of its own, with what it executes.
pub(super) struct Lane {
    // Dropped in this order.
    queue: UserModeQueue,
    buffers: Vec<CommandBuffer>,
    _context: Context,
}

impl Performer {
    /// The lane of this number; 0 is there without being created.
    fn lane(&mut self, number: usize) -> Result<&mut Lane, Failure> {
        if self.lanes.is_empty() {
            self.create_lane(0)?;
        }
        let missing = || Failure::Other(format!("there is no queue {number}"));
        self.lanes.get_mut(number).ok_or_else(missing)
    }

    fn create_lane(&mut self, node: u32) -> Result<(), Error> {
        let context = self.client()?.device.create_context(node)?;
        let queue = context.create_user_mode_queue(RING)?;
        self.lanes.push(Lane { queue, buffers: Vec::new(), _context: context });
        Ok(())
    }

    /// Commands of these steps.
    fn commands(&mut self, steps: &[Step]) -> Result<CommandBuffer, Failure> {
        let memory = self.client()?.va(0);
        let mut commands = CommandBuffer::new(&self.client()?.device, STEP * steps.len().max(1))?;
        for step in steps {
            append(&mut commands, &self.fences, memory, step)?;
        }
        Ok(commands)
    }
}

fn append(
    commands: &mut CommandBuffer,
    fences: &[Option<Fence>],
    memory: u64,
    step: &Step,
) -> Result<(), Failure> {
    match *step {
        Step::Nothing => commands.nop()?,
        Step::Fill { to, length, pattern } => commands.fill(to, length, pattern)?,
        Step::Copy { from, to, length } => commands.copy(from, to, length)?,
        Step::Store { to, word } => commands.write_data(to, &word.to_le_bytes())?,
        Step::Signal { fence, value } => commands.signal_fence(nth(fences, fence)?, value)?,
        Step::Wait { fence, value } => commands.wait_fence(nth(fences, fence)?, value)?,
        Step::SignalSlot { slot, value } => {
            commands.raw(SignalFence::new(slot, value).as_bytes())?
        }
        Step::Unknown => {
            let header = PacketHeader::new(Opcode(0x3F), size_of::<PacketHeader>(), 0);
            commands.raw(header.as_bytes())?
        }
        // The word that ends it goes to the end of the program's memory.
        Step::Spin { until } => {
            let end = memory + crate::conformance::scene::MEMORY - 8;
            commands.dispatch(Kernel::SPIN_UNTIL, until, end, 8, 1)?
        }
    };
    Ok(())
}

impl Perform for CreateQueue {
    fn perform(self, performer: &mut Performer) -> Result<QueueAt, Failure> {
        performer.lane(0)?;
        performer.create_lane(self.node)?;
        let queue = performer.lanes.len() - 1;
        Ok(QueueAt { queue, handle: performer.lane(queue)?.queue.handle().0 })
    }
}

impl Perform for Submit {
    fn perform(self, performer: &mut Performer) -> Result<u64, Failure> {
        let mut last = 0;
        for _ in 0..self.times {
            let mut commands = performer.commands(&self.steps)?;
            let lane = performer.lane(self.queue)?;
            last = lane.queue.submit(&mut commands)?;
            lane.buffers.push(commands);
        }
        Ok(last)
    }
}

impl Perform for Finish {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        let lane = performer.lane(self.queue)?;
        lane.queue.progress_fence().poll(self.value, TIMEOUT)?;
        if lane.queue.last_value() == self.value {
            lane.buffers.clear();
        }
        Ok(())
    }
}

impl Perform for Progress {
    fn perform(self, performer: &mut Performer) -> Result<u64, Failure> {
        Ok(performer.lane(self.queue)?.queue.progress_fence().current_value()?)
    }
}

impl Perform for QueryStatus {
    fn perform(self, performer: &mut Performer) -> Result<u32, Failure> {
        Ok(performer.lane(self.queue)?.queue.status().0)
    }
}
