// SPDX-License-Identifier: MIT OR Apache-2.0

//! Privileged packets, which only a guest's system context executes. In any other queue they are unknown packets; a
//! guest's driver needs none of them.
//!
//! Source: "BuildPagingBuffer" of the Windows KMD overview.

use super::header::{Opcode, PacketHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum number of entries that one [`WritePageTable`] writes: those of a page table.
pub const PAGE_TABLE_ENTRIES: u32 = 512;

/// `WRITE_PAGE_TABLE`: writes consecutive entries of one page table, each a fixed amount more than the previous
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WritePageTable {
    /// `argument` is the number of entries, 1 to [`PAGE_TABLE_ENTRIES`].
    pub header: PacketHeader,
    /// Address of the first entry, in bytes from the start of page-table memory, a multiple of 8.
    pub address: u64,
    /// The first entry.
    pub first: u64,
    /// Difference between consecutive entries, modulo 2^64.
    pub increment: u64,
}
crate::assert_layout!(
    WritePageTable, 32, header at 0, address at 8, first at 16, increment at 24,
);

impl WritePageTable {
    /// Writes `count` entries from `address` on.
    #[must_use]
    pub const fn new(address: u64, count: u32, first: u64, increment: u64) -> Self {
        let header = PacketHeader::new(Opcode::WRITE_PAGE_TABLE, size_of::<Self>(), count);
        Self { header, address, first, increment }
    }

    /// The number of entries.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.header.argument
    }
}

/// `DECOMPRESS`: decompresses pages that engines have compressed, for readers that cannot decompress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Decompress {
    /// `argument` is 0.
    pub header: PacketHeader,
    /// First byte, a multiple of the page size.
    pub address: u64,
    /// Bytes, a multiple of the page size.
    pub length: u64,
}
crate::assert_layout!(Decompress, 24, header at 0, address at 8, length at 16);

impl Decompress {
    /// Decompresses `length` bytes from `address` on.
    #[must_use]
    pub const fn new(address: u64, length: u64) -> Self {
        let header = PacketHeader::new(Opcode::DECOMPRESS, size_of::<Self>(), 0);
        Self { header, address, length }
    }
}

/// `CLEAR_METADATA`: engines forget that they have compressed pages of the guest's own memory. The bytes stay, and
/// count as uncompressed from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ClearMetadata {
    /// `argument` is 0.
    pub header: PacketHeader,
    /// Guest-physical address of the first byte, a multiple of the page size.
    pub address: u64,
    /// Bytes, a multiple of the page size.
    pub length: u64,
}
crate::assert_layout!(ClearMetadata, 24, header at 0, address at 8, length at 16);

impl ClearMetadata {
    /// Clears the metadata of `length` bytes from the guest-physical `address` on.
    #[must_use]
    pub const fn new(address: u64, length: u64) -> Self {
        let header = PacketHeader::new(Opcode::CLEAR_METADATA, size_of::<Self>(), 0);
        Self { header, address, length }
    }
}

/// [`FlushTlb`] of all address spaces.
pub const ALL_ADDRESS_SPACES: u64 = u64::MAX;

/// `FLUSH_TLB`: holds the queue until no engine caches old translations of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct FlushTlb {
    /// `argument` is 0.
    pub header: PacketHeader,
    /// Address of the root page table, in bytes from the start of page-table memory; or [`ALL_ADDRESS_SPACES`].
    pub root: u64,
}
crate::assert_layout!(FlushTlb, 16, header at 0, root at 8);

impl FlushTlb {
    /// Flushes the address space with this root.
    #[must_use]
    pub const fn new(root: u64) -> Self {
        let header = PacketHeader::new(Opcode::FLUSH_TLB, size_of::<Self>(), 0);
        Self { header, root }
    }
}
