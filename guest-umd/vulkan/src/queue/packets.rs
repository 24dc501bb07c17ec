// SPDX-License-Identifier: MIT OR Apache-2.0

//! The packets of a submission.

use crate::command::Chunk;
use bellhop_protocol::packet::commands::ExecuteCommands;
use bellhop_protocol::packet::fence::{SignalFence, WaitFence};
use zerocopy::transmute;

/// Words of a packet: all of them have as many.
pub(super) const PACKET: usize = 2;

/// Packets in the order of their execution.
#[derive(Debug, Default)]
pub(super) struct Packets(Vec<u64>);

impl Packets {
    /// Removes all of them, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// All words.
    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }

    fn push(&mut self, packet: [u64; PACKET]) {
        self.0.extend_from_slice(&packet);
    }

    /// Holds the queue until the fence in a slot has a value.
    pub(super) fn wait(&mut self, slot: u32, value: u64) {
        self.push(transmute!(WaitFence::new(slot, value)));
    }

    /// Executes commands.
    pub(super) fn execute(&mut self, chunk: &Chunk) {
        self.push(transmute!(ExecuteCommands::new(chunk.gpu_va, chunk.length)));
    }

    /// Gives the fence in a slot a value.
    pub(super) fn signal(&mut self, slot: u32, value: u64) {
        self.push(transmute!(SignalFence::new(slot, value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::packet::Packet;
    use zerocopy::IntoBytes;

    #[test]
    fn an_engine_reads_what_was_appended() {
        let mut all = Packets::default();
        all.signal(9, 9);
        all.clear();
        all.wait(3, 7);
        all.execute(&Chunk { gpu_va: 0x1000, length: 64 });
        all.signal(4, 8);
        let read: Vec<_> = all
            .words()
            .as_chunks::<PACKET>()
            .0
            .iter()
            .map(|packet| Packet::decode(packet.as_bytes()).unwrap().0)
            .collect();
        assert!(matches!(
            read[..],
            [
                Packet::WaitFence(WaitFence { value: 7, .. }),
                Packet::ExecuteCommands(ExecuteCommands { gpu_va: 0x1000, .. }),
                Packet::SignalFence(SignalFence { value: 8, .. }),
            ]
        ));
    }
}
