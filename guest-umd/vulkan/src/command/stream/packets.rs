// SPDX-License-Identifier: MIT OR Apache-2.0

//! Copies at the beginning of a chunk are packets, as the engine executes them itself: no other thread of the host has to be woken
//! for them. The first command that is more than that begins a chunk of commands.

use super::Stream;
use crate::heap::Heap;
use ash::vk;
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::packet::commands::ExecuteCommands;
use bellhop_protocol::packet::flow::IndirectBuffer;
use zerocopy::transmute;

impl Stream {
    /// Whether what comes next may be a packet.
    pub(in super::super) const fn takes_packets(&self) -> bool {
        let begins = self.at == self.start && self.is_primary && !self.is_held() && !self.meets;
        self.packets_end.is_some() || begins
    }

    /// Appends a packet, and behind it data, padded to 8 bytes. The stream takes packets, which are executed one after the other.
    pub(in super::super) fn push_packet(
        &mut self,
        heap: &Heap,
        packet: &[u8],
        data: &[u8],
    ) -> Result<(), vk::Result> {
        let size = packet.len() + data.len().next_multiple_of(UNIT);
        if let Some(end) = self.packets_end {
            self.end = end;
        }
        let piece = self.room(heap, size)?;
        let piece = self.pieces.get(piece).ok_or(vk::Result::ERROR_UNKNOWN)?;
        piece.write(self.at, packet);
        piece.write(self.at + packet.len(), data);
        self.at += size;
        self.packets_end = Some(self.end);
        self.end = self.at;
        self.uses.add_unknown();
        Ok(())
    }
}

/// The packet that executes packets, or commands.
pub(super) fn executes(gpu_va: u64, length: u32, has_packets: bool) -> [u64; 2] {
    if has_packets {
        transmute!(IndirectBuffer::new(gpu_va, length))
    } else {
        transmute!(ExecuteCommands::new(gpu_va, length))
    }
}
