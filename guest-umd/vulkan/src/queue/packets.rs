// SPDX-License-Identifier: MIT OR Apache-2.0

//! The packets of a submission.

use crate::command::{Chunk, Uses};
use bellhop_guest_umd::{Error, SmallPackets, UserModeQueue};
use bellhop_protocol::packet::fence::{SignalFence, WaitFence};
use zerocopy::transmute;

/// The words of a packet: all have as many.
pub(super) type Words = [u64; 2];

/// Where the packets of submissions go, by device index.
pub(super) trait Places {
    /// Whether there are several GPUs. If not, everything is for the one.
    const ARE_SEVERAL: bool;

    /// Appends a packet for a GPU.
    fn put(&mut self, device: u32, packet: Words);

    /// Executes commands on those of these GPUs that the commands are for.
    fn execute(&mut self, devices: u32, chunk: &Chunk);

    /// Says what the commands write that come next.
    #[inline]
    fn begin(&mut self, _uses: &Uses) {}

    /// Appends a packet that tells that everything before it is done.
    #[inline]
    fn tell(&mut self, device: u32, packet: Words) {
        self.put(device, packet);
    }

    /// Says that a batch is complete.
    fn end_batch(&mut self);
}

/// Packets that go into a ring in the order of their execution. Nobody rings for them before the last.
pub(super) struct Packets<'q> {
    queue: &'q mut UserModeQueue,
    /// The last ones, which are not in the ring yet.
    last: SmallPackets,
    /// Why packets before them are not in the ring.
    failed: Option<Box<Error>>,
}

impl<'q> Packets<'q> {
    /// Those of a submission to this queue: none yet.
    pub(super) fn new(queue: &'q mut UserModeQueue) -> Self {
        Self { queue, last: SmallPackets::new(), failed: None }
    }

    /// Appends a packet.
    #[inline]
    pub(super) fn push(&mut self, packet: Words) {
        if !self.last.push(packet) {
            self.queue_last();
            self.last.push(packet);
        }
    }

    /// Puts the last ones into the ring, to be followed by others.
    fn queue_last(&mut self) {
        if self.failed.is_none() {
            self.failed = self.queue.queue_packets(&self.last).err().map(Box::new);
        }
        self.last.clear();
    }

    /// Submits all. Returns the value that the progress fence gets when they and everything before them are done.
    #[inline]
    pub(super) fn submit(self) -> Result<u64, Box<Error>> {
        match self.failed {
            Some(error) => Err(error),
            // Nothing is to be done but what was submitted before.
            None if self.last.is_empty() => Ok(self.queue.last_value()),
            None => self.queue.submit_packets(&self.last).map_err(Box::new),
        }
    }
}

impl Places for Packets<'_> {
    const ARE_SEVERAL: bool = false;

    #[inline]
    fn put(&mut self, _device: u32, packet: Words) {
        self.push(packet);
    }

    #[inline]
    fn execute(&mut self, _devices: u32, chunk: &Chunk) {
        self.push(chunk.packet);
    }

    #[inline]
    fn end_batch(&mut self) {}
}

/// Holds the queue until the fence in a slot has a value.
pub(super) fn wait(slot: u32, value: u64) -> Words {
    transmute!(WaitFence::new(slot, value))
}

/// Gives the fence in a slot a value.
pub(super) fn signal(slot: u32, value: u64) -> Words {
    transmute!(SignalFence::new(slot, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::packet::Packet;
    use zerocopy::IntoBytes;

    #[test]
    fn an_engine_reads_what_is_put_into_the_ring() {
        let packets = [wait(3, 7), signal(4, 8)];
        let read = packets.each_ref().map(|packet| Packet::decode(packet.as_bytes()).unwrap().0);
        assert!(matches!(
            read,
            [
                Packet::WaitFence(WaitFence { value: 7, .. }),
                Packet::SignalFence(SignalFence { value: 8, .. }),
            ]
        ));
    }
}
