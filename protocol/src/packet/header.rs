// SPDX-License-Identifier: MIT OR Apache-2.0

//! The header of every packet.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes in the unit that packets, rings and buffers are measured in.
pub const UNIT: usize = 8;
open_enum! {
    /// The operation of a packet.
    pub struct Opcode: u16 {
        /// Nothing.
        NOP = 0x00;
        /// Executes the packets of another buffer.
        INDIRECT_BUFFER = 0x01;
        /// Repeats a 32-bit pattern.
        FILL = 0x10;
        /// Copies a range.
        COPY = 0x11;
        /// Writes bytes that the packet carries.
        WRITE_DATA = 0x12;
        /// Compares two ranges.
        COMPARE = 0x13;
        /// Hashes a range.
        HASH = 0x14;
        /// Writes the adapter's time.
        TIMESTAMP = 0x15;
        /// Copies a rectangle.
        COPY_RECT = 0x16;
        /// Repeats a 32-bit pattern over the rows of a rectangle.
        FILL_RECT = 0x17;
        /// Scales a rectangle of pixels.
        STRETCH_RECT = 0x18;
        /// Sets a fence's CurrentValue and interrupts if a CPU waits for it.
        SIGNAL_FENCE = 0x20;
        /// Holds the queue until a fence reaches a value.
        WAIT_FENCE = 0x21;
        /// Interrupts if a CPU waits for a value that the fence has passed.
        CONDITIONAL_INTERRUPT = 0x22;
        /// Sets a fence's CurrentValue and wakes no waiter.
        WRITE_FENCE = 0x23;
        /// Records an operation on a fence in one of the queue's logs.
        LOG_FENCE = 0x24;
        /// Runs a built-in kernel of the compute node.
        DISPATCH = 0x30;
        /// Runs a kernel that the process created.
        DISPATCH_KERNEL = 0x31;
        /// Decodes a part of a bitstream for a video session.
        VIDEO_DECODE = 0x32;
        /// Encodes a picture for a video session.
        VIDEO_ENCODE = 0x33;
        /// Has the host's Vulkan execute a stream of commands.
        EXECUTE_COMMANDS = 0x34;
        /// Encrypts a range for this guest on this adapter.
        SEAL = 0x38;
        /// Decrypts what was sealed.
        OPEN = 0x39;
        /// Writes a signed statement about the device.
        ATTEST = 0x3A;
        /// Writes page-table entries; privileged.
        WRITE_PAGE_TABLE = 0x40;
        /// Flushes an address space from the TLBs of all engines; privileged.
        FLUSH_TLB = 0x41;
        /// Decompresses pages; privileged.
        DECOMPRESS = 0x42;
        /// Forgets that pages of the guest's own memory are compressed; privileged.
        CLEAR_METADATA = 0x43;
    }
}

impl Opcode {
    /// Returns whether only a guest's system context may execute the packet.
    #[must_use]
    #[inline]
    pub const fn is_privileged(self) -> bool {
        matches!(self.0, 0x40..=0x4F)
    }
}

/// The first 8 bytes of every packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct PacketHeader {
    /// The packet's operation.
    pub opcode: Opcode,
    /// The packet's length in 8-byte units, including this header; at least 1.
    pub units: u16,
    /// The opcode's argument; 0 if the opcode has none.
    pub argument: u32,
}
crate::assert_layout!(PacketHeader, 8, opcode at 0, units at 2, argument at 4);

impl PacketHeader {
    /// The header of a packet of `bytes` bytes.
    #[must_use]
    pub const fn new(opcode: Opcode, bytes: usize, argument: u32) -> Self {
        Self { opcode, units: (bytes / UNIT) as u16, argument }
    }

    /// The packet's length in bytes.
    #[must_use]
    #[inline]
    pub const fn size(self) -> usize {
        self.units as usize * UNIT
    }
}
