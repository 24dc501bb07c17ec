// SPDX-License-Identifier: MIT OR Apache-2.0

//! Addresses and lengths that a hostile guest chooses, most of them with an effect.

use crate::rig::{FREE, LOCAL, SIZE, SYSTEM};
use arbitrary::Arbitrary;
use bellhop_protocol::PAGE_SIZE;
use std::ops::Range;

/// Bytes that the guest cannot write, at the end of the part of each memory that tests may use: first unmapped
/// pages, then read-only ones.
pub const KEPT: u64 = 4 * PAGE_SIZE;
/// The offset of those bytes in either memory.
pub const KEPT_AT: u64 = FREE - KEPT;
/// Mapped pages at the start of either memory: more would take packets long to fill.
pub const PAGES: u64 = 8;
/// Where a guest has its rings in local memory: two pages for each of four.
pub const RINGS: Range<u64> = FREE..FREE + 8 * PAGE_SIZE;
/// What packets can write in either memory. In local memory they can write rings, too.
pub const WRITABLE: [Range<u64>; 3] =
    [0..PAGES * PAGE_SIZE, KEPT_AT - PAGE_SIZE..KEPT_AT, SIZE - PAGE_SIZE..SIZE];

/// A GPU virtual address.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Address {
    /// In local memory.
    Local(u16),
    /// In local memory, further in.
    LocalPage(u8, u16),
    /// In the guest's own memory.
    System(u16),
    /// In the guest's own memory, further in.
    SystemPage(u8, u16),
    /// Around memory that the guest cannot write.
    Kept(bool, u16),
    /// Around the end of mapped memory.
    End(bool, u8),
    /// One bit.
    Bit(u8),
    /// Anything.
    Any(u64),
}

impl Address {
    /// The address.
    pub fn get(self) -> u64 {
        let memory = |is_system| if is_system { SYSTEM } else { LOCAL };
        match self {
            Self::Local(offset) => LOCAL + u64::from(offset),
            Self::LocalPage(page, offset) => LOCAL + in_pages(page, offset),
            Self::System(offset) => SYSTEM + u64::from(offset),
            Self::SystemPage(page, offset) => SYSTEM + in_pages(page, offset),
            Self::Kept(is_system, offset) => {
                memory(is_system) + KEPT_AT - PAGE_SIZE + u64::from(offset)
            }
            Self::End(is_system, before) => memory(is_system) + SIZE - u64::from(before),
            Self::Bit(bit) => 1 << (bit % 64),
            Self::Any(address) => address,
        }
    }

    /// The address of a word.
    pub fn aligned(self) -> u64 {
        self.get() & !7
    }
}

fn in_pages(page: u8, offset: u16) -> u64 {
    // Some are beyond what is mapped.
    u64::from(page) % (PAGES + 4) * PAGE_SIZE + u64::from(offset) % PAGE_SIZE
}

/// A length in bytes.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Length {
    /// Less than a page.
    Short(u8),
    /// Some pages at most.
    Pages(u16),
    /// One bit.
    Bit(u8),
    /// Anything.
    Any(u64),
}

impl Length {
    /// The length.
    pub fn get(self) -> u64 {
        match self {
            Self::Short(length) => length.into(),
            Self::Pages(length) => length.into(),
            Self::Bit(bit) => 1 << (bit % 64),
            Self::Any(length) => length,
        }
    }
}
