// SPDX-License-Identifier: MIT OR Apache-2.0

//! Privileged packets: only a guest's system context executes them. Those of any other queue are
//! unknown packets; a guest's driver needs none of this.
//!
//! Source: "BuildPagingBuffer" of the Windows KMD overview.

use super::header::{Opcode, PacketHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most entries that one [`WritePageTable`] writes: a page table's.
pub const PAGE_TABLE_ENTRIES: u32 = 512;

/// `WRITE_PAGE_TABLE`: writes consecutive entries of one page table, each a fixed amount more than
/// the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WritePageTable {
    /// `argument` is the number of entries, 1 to [`PAGE_TABLE_ENTRIES`].
    pub header: PacketHeader,
    /// Where the first is, in bytes from the start of page-table memory, a multiple of 8.
    pub address: u64,
    /// The first entry.
    pub first: u64,
    /// What each entry is more than the one before, modulo 2^64.
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

/// `DECOMPRESS`: decodes pages that engines have encoded, for readers that do not decode.
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
    /// Makes `length` bytes from `address` on plain.
    #[must_use]
    pub const fn new(address: u64, length: u64) -> Self {
        let header = PacketHeader::new(Opcode::DECOMPRESS, size_of::<Self>(), 0);
        Self { header, address, length }
    }
}

/// `CLEAR_METADATA`: engines forget that they have encoded pages of the guest's own memory. The pages'
/// bytes stay, and are plain from here on.
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
    /// Makes engines forget about `length` bytes from the guest-physical `address` on.
    #[must_use]
    pub const fn new(address: u64, length: u64) -> Self {
        let header = PacketHeader::new(Opcode::CLEAR_METADATA, size_of::<Self>(), 0);
        Self { header, address, length }
    }
}

/// [`FlushTlb`] of all address spaces.
pub const ALL_ADDRESS_SPACES: u64 = u64::MAX;

/// `FLUSH_TLB`: holds the queue until no engine remembers what it knew of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct FlushTlb {
    /// `argument` is 0.
    pub header: PacketHeader,
    /// Where the root of its page tables is, in bytes from the start of page-table memory; or
    /// [`ALL_ADDRESS_SPACES`].
    pub root: u64,
}
crate::assert_layout!(FlushTlb, 16, header at 0, root at 8);

impl FlushTlb {
    /// Flushes what engines remember of the address space with its page tables' root there.
    #[must_use]
    pub const fn new(root: u64) -> Self {
        let header = PacketHeader::new(Opcode::FLUSH_TLB, size_of::<Self>(), 0);
        Self { header, root }
    }
}
