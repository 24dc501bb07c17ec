// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that steer the command processor.

use crate::gpu::engine::fetch::Stream;
use crate::gpu::memory::violation::Violation;
use bellhop_protocol::packet::flow::IndirectBuffer;

/// `INDIRECT_BUFFER`. The command processor checks the nesting depth.
#[inline]
pub fn indirect_buffer(packet: &IndirectBuffer) -> Result<Stream, Violation> {
    Stream::indirect_buffer(packet.gpu_va, packet.size())
}
