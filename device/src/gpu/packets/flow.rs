//! Packets that steer the command processor.

use super::Outcome;
use crate::gpu::fetch::Stream;
use crate::gpu::violation::Violation;
use bellhop_protocol::packet::flow::IndirectBuffer;

/// `INDIRECT_BUFFER`. How deep it nests is the command processor's to check.
#[inline]
pub fn indirect_buffer(packet: &IndirectBuffer) -> Result<Outcome, Violation> {
    Stream::indirect_buffer(packet.gpu_va, packet.size()).map(Outcome::Enter)
}
