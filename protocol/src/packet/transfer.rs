// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that move, produce or examine bytes. Every node executes them.
//!
//! Addresses are GPU virtual addresses of the queue's process. Any alignment is allowed unless a field says
//! otherwise. A length of 0 is allowed, and has no effect except as a result field says.

use super::header::{Opcode, PacketHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `FILL`: repeats a 32-bit pattern over a range.
#[derive(
    Debug, Clone, ::core::marker::Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Fill {
    /// `argument` is the pattern.
    pub header: PacketHeader,
    /// First byte of the range, a multiple of 4.
    pub destination: u64,
    /// Length of the range in bytes, a multiple of 4.
    pub length: u64,
}
crate::assert_layout!(Fill, 24, header at 0, destination at 8, length at 16);

impl Fill {
    /// Fills `length` bytes from `destination` with `pattern`.
    #[must_use]
    pub const fn new(destination: u64, length: u64, pattern: u32) -> Self {
        let header = PacketHeader::new(Opcode::FILL, size_of::<Self>(), pattern);
        Self { header, destination, length }
    }
}

/// `COPY`: copies a range. Overlapping ranges give unspecified bytes in the overlap.
#[derive(
    Debug, Clone, ::core::marker::Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Copy {
    /// `argument` is 0.
    pub header: PacketHeader,
    /// First byte to read.
    pub source: u64,
    /// First byte to write.
    pub destination: u64,
    /// Bytes to copy.
    pub length: u64,
}
crate::assert_layout!(Copy, 32, header at 0, source at 8, destination at 16, length at 24);

impl Copy {
    /// Copies `length` bytes from `source` to `destination`.
    #[must_use]
    pub const fn new(source: u64, destination: u64, length: u64) -> Self {
        let header = PacketHeader::new(Opcode::COPY, size_of::<Self>(), 0);
        Self { header, source, destination, length }
    }
}

/// Maximum number of bytes that one `WRITE_DATA` carries.
pub const WRITE_DATA_MAX: usize = 256;

/// `WRITE_DATA`: writes the bytes that follow these 16, padded with zeroes to a multiple of 8.
#[derive(
    Debug, Clone, ::core::marker::Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct WriteData {
    /// `argument` is the number of bytes to write, 1 to [`WRITE_DATA_MAX`].
    pub header: PacketHeader,
    /// First byte to write.
    pub destination: u64,
}
crate::assert_layout!(WriteData, 16, header at 0, destination at 8);

impl WriteData {
    /// The fixed part of a packet that writes `count` bytes; `None` if a packet cannot carry that many.
    #[must_use]
    pub const fn new(destination: u64, count: usize) -> Option<Self> {
        match Self::size_with(count) {
            Some(size) => {
                let header = PacketHeader::new(Opcode::WRITE_DATA, size, count as u32);
                Some(Self { header, destination })
            }
            None => None,
        }
    }

    /// Size in bytes of a packet with `count` bytes of data.
    #[must_use]
    pub const fn size_with(count: usize) -> Option<usize> {
        if count == 0 || count > WRITE_DATA_MAX {
            return None;
        }
        Some(size_of::<Self>() + count.next_multiple_of(super::header::UNIT))
    }
}

/// The result of `COMPARE` for equal ranges; otherwise the result is the offset in bytes of the first difference.
pub const COMPARE_EQUAL: u64 = u64::MAX;

/// `COMPARE`: compares two ranges and writes the offset of their first difference.
#[derive(
    Debug, Clone, ::core::marker::Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Compare {
    /// `argument` is 0.
    pub header: PacketHeader,
    /// First byte of one range.
    pub left: u64,
    /// First byte of the other range.
    pub right: u64,
    /// Bytes to compare.
    pub length: u64,
    /// Address of the 64-bit result, a multiple of 8: see [`COMPARE_EQUAL`].
    pub result: u64,
}
crate::assert_layout!(Compare, 40, header at 0, left at 8, right at 16, length at 24, result at 32);

impl Compare {
    /// Compares `length` bytes at `left` and `right`.
    #[must_use]
    pub const fn new(left: u64, right: u64, length: u64, result: u64) -> Self {
        let header = PacketHeader::new(Opcode::COMPARE, size_of::<Self>(), 0);
        Self { header, left, right, length, result }
    }
}

/// `HASH`: writes the XXH64 digest of a range.
#[derive(
    Debug, Clone, ::core::marker::Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Hash {
    /// `argument` is 0.
    pub header: PacketHeader,
    /// First byte to hash.
    pub source: u64,
    /// Bytes to hash.
    pub length: u64,
    /// The seed of XXH64.
    pub seed: u64,
    /// Address of the 64-bit digest, a multiple of 8.
    pub result: u64,
}
crate::assert_layout!(Hash, 40, header at 0, source at 8, length at 16, seed at 24, result at 32);

impl Hash {
    /// Hashes `length` bytes at `source`.
    #[must_use]
    pub const fn new(source: u64, length: u64, seed: u64, result: u64) -> Self {
        let header = PacketHeader::new(Opcode::HASH, size_of::<Self>(), 0);
        Self { header, source, length, seed, result }
    }
}

/// `TIMESTAMP`: writes the adapter's clock in nanoseconds; it is monotonic.
#[derive(
    Debug, Clone, ::core::marker::Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Timestamp {
    /// `argument` is 0.
    pub header: PacketHeader,
    /// Address of the 64-bit time, a multiple of 8.
    pub destination: u64,
}
crate::assert_layout!(Timestamp, 16, header at 0, destination at 8);

impl Timestamp {
    /// Writes the time to `destination`.
    #[must_use]
    pub const fn new(destination: u64) -> Self {
        Self { header: PacketHeader::new(Opcode::TIMESTAMP, size_of::<Self>(), 0), destination }
    }
}
