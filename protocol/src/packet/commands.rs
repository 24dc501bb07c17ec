// SPDX-License-Identifier: MIT OR Apache-2.0

//! The packet that has the host's Vulkan execute commands.

use super::header::{Opcode, PacketHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `EXECUTE_COMMANDS`: executes a stream of [commands](crate::vulkan), on 3D nodes, and those that do not draw on Compute nodes. Every other packet, and the end of the
/// buffer, waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ExecuteCommands {
    /// `argument` is the stream's length in bytes: a multiple of 8, at most [`MAX_STREAM`](crate::vulkan::MAX_STREAM).
    pub header: PacketHeader,
    /// GPU virtual address of the stream, a multiple of 8.
    pub gpu_va: u64,
}
crate::assert_layout!(ExecuteCommands, 16, header at 0, gpu_va at 8);

impl ExecuteCommands {
    /// Executes `length` bytes of commands.
    #[must_use]
    pub const fn new(gpu_va: u64, length: u32) -> Self {
        let header = PacketHeader::new(Opcode::EXECUTE_COMMANDS, size_of::<Self>(), length);
        Self { header, gpu_va }
    }

    /// Bytes of the stream.
    #[must_use]
    pub const fn length(&self) -> u32 {
        self.header.argument
    }
}
