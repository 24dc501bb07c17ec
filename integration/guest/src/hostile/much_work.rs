// SPDX-License-Identifier: MIT OR Apache-2.0

//! Valid requests, far too many: as much work as fits, at the highest priority, and paging for it.

use crate::client::{Client, Shape};
use bellhop_guest_umd::{Adapter, CommandBuffer, Error};
use std::time::Duration;

/// A process that works.
pub(super) struct MuchWork {
    client: Client,
    commands: Vec<CommandBuffer>,
}

impl MuchWork {
    /// Work that writes so many bytes with each command: better more than an engine writes in a turn.
    pub(super) fn new(process: Adapter, memory: u64) -> Result<Self, Error> {
        let client = Client::new(process, Shape { memory, ..Shape::default() })?;
        client.context.set_scheduling_priority(7)?;
        let fill = |_| {
            let mut commands = CommandBuffer::new(&client.device, 256)?;
            commands.fill(client.memory.gpu_va(), memory, 0)?;
            Ok(commands)
        };
        let commands = (0..16).map(fill).collect::<Result<_, Error>>()?;
        Ok(Self { client, commands })
    }

    /// Submits it once, and waits for it so long.
    pub(super) fn round(&mut self, timeout: Duration) -> Result<(), Error> {
        let queue = &mut self.client.queue;
        for commands in &mut self.commands {
            queue.submit(commands)?;
        }
        queue.progress_fence().wait(queue.last_value(), timeout)
    }
}
