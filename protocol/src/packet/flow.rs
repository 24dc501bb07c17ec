// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that steer the command processor.

use super::header::{Opcode, PacketHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A packet of one unit that does nothing.
pub const NOP: PacketHeader = PacketHeader::new(Opcode::NOP, 8, 0);

/// Largest indirect buffer in bytes.
pub const MAX_INDIRECT_BUFFER_SIZE: u32 = 1 << 20;
/// Maximum nesting depth of indirect buffers: a ring's packet is at depth 0, a packet in a buffer that the ring
/// names at depth 1. An `INDIRECT_BUFFER` at this depth is refused, so the execution of a buffer that contains
/// itself ends.
pub const MAX_INDIRECT_DEPTH: usize = 4;

/// `INDIRECT_BUFFER`: executes the packets of another buffer, then continues after itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct IndirectBuffer {
    /// `argument` is the buffer's size in bytes: a multiple of 8, at most
    /// [`MAX_INDIRECT_BUFFER_SIZE`].
    pub header: PacketHeader,
    /// GPU virtual address of the buffer, a multiple of 8.
    pub gpu_va: u64,
}
crate::assert_layout!(IndirectBuffer, 16, header at 0, gpu_va at 8);

impl IndirectBuffer {
    /// Executes the `size` bytes of packets at `gpu_va`.
    #[must_use]
    pub const fn new(gpu_va: u64, size: u32) -> Self {
        Self { header: PacketHeader::new(Opcode::INDIRECT_BUFFER, size_of::<Self>(), size), gpu_va }
    }

    /// The buffer's size in bytes.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.header.argument
    }
}
