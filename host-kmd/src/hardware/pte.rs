// SPDX-License-Identifier: MIT OR Apache-2.0

//! Page-table entries in the GPU's own format.

use bellhop_protocol::PAGE_SIZE;
use bitfield_struct::bitfield;

/// The memory that a page is in (`DXGK_PTE::Segment`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Segment {
    /// The guest's own memory; addresses are guest-physical.
    System,
    /// The guest's CPU-visible local memory; addresses are offsets from its start.
    Local,
    /// The guest's local memory that its CPUs do not see; addresses are offsets from its start. In a chain it is that of
    /// all GPUs, one behind another: an entry of any GPU's page tables may name the memory of its peers.
    Private,
    /// Host memory for pages of the guest for which no other segment has room; addresses are offsets from its start.
    Backing,
    /// Host memory for values of native fences and for logs; addresses are offsets from its start. For each fence
    /// slot it holds a CurrentValue, behind all of these a MonitoredValue, and behind those room for two logs.
    Fence,
    /// Host memory that all adapters share, for CurrentValues of fences that several guests share, each alone in its
    /// page; addresses are offsets from its start.
    CrossAdapter,
}

impl Segment {
    /// The segment's number in a page-table entry.
    const fn number(self) -> u8 {
        match self {
            Self::System => 0,
            Self::Local => 1,
            Self::Private => 2,
            Self::Backing => 3,
            Self::Fence => 4,
            Self::CrossAdapter => 5,
        }
    }

    const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::System,
            1 => Self::Local,
            2 => Self::Private,
            3 => Self::Backing,
            4 => Self::Fence,
            5 => Self::CrossAdapter,
            _ => return None,
        })
    }
}

/// A page of physical memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PhysicalPage {
    /// The memory that it is in.
    pub segment: Segment,
    /// Address of its first byte, a multiple of the page size.
    pub address: u64,
}

/// A byte of physical memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PhysicalAddress {
    /// The memory that it is in.
    pub segment: Segment,
    /// Its address.
    pub address: u64,
}

/// What a driver adds to a page-table entry (`DriverProtection`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DriverProtection {
    /// Engines keep the page compressed: any other reader may see encoded bytes.
    pub compressed: bool,
    /// The page is protected: engines give its bytes to protected pages only.
    pub protected: bool,
}

/// A leaf page-table entry. Fields are where `DXGK_PTE` has them, except `compressed`, `accessed` and
/// `is_protected`, which are specific to this GPU.
#[bitfield(u64, new = false)]
#[derive(PartialEq, Eq)]
pub struct Pte {
    /// The page is mapped.
    pub valid: bool,
    #[bits(2)]
    __: u8,
    /// Packets may not write the page.
    pub read_only: bool,
    #[bits(1)]
    __: u8,
    /// The number of the page's [`Segment`], in declaration order.
    #[bits(5)]
    pub segment: u8,
    #[bits(1)]
    __: u8,
    /// Engines keep the page compressed.
    pub compressed: bool,
    /// The page's address in its segment, in pages of 4 KiB.
    #[bits(40)]
    pub page_number: u64,
    /// Engines set this when they walk page tables and are about to cache the entry.
    pub accessed: bool,
    /// Engines give the page's bytes to protected pages only.
    pub is_protected: bool,
    #[bits(10)]
    __: u16,
}

/// The bit that engines set in an entry when they walk page tables and are about to cache the entry.
pub const ACCESSED: u64 = Pte::INVALID.with_accessed(true).into_bits();

/// Number of page numbers that an entry can hold.
const PAGE_NUMBERS: u64 = 1 << 40;

impl Pte {
    /// The entry of an unmapped page.
    pub const INVALID: Self = Self::from_bits(0);

    /// Creates the entry of a mapped page. Drops address bits from 52 upwards, and those below the page size.
    #[must_use]
    pub const fn new(page: PhysicalPage, writable: bool) -> Self {
        Self::INVALID
            .with_valid(true)
            .with_read_only(!writable)
            .with_segment(page.segment.number())
            .with_page_number(page.address / PAGE_SIZE % PAGE_NUMBERS)
    }

    /// Adds the driver's protection to the entry.
    #[must_use]
    pub const fn protected(self, protection: DriverProtection) -> Self {
        self.with_compressed(self.compressed() || protection.compressed)
            .with_is_protected(self.is_protected() || protection.protected)
    }

    /// The entry's bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.into_bits()
    }

    /// The page, or `None` if the entry is invalid or names a segment that does not exist.
    #[must_use]
    pub const fn page(self) -> Option<PhysicalPage> {
        if !self.valid() {
            return None;
        }
        let address = self.page_number() * PAGE_SIZE;
        match Segment::from_number(self.segment()) {
            Some(segment) => Some(PhysicalPage { segment, address }),
            None => None,
        }
    }

    /// Whether packets may write the page.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        !self.read_only()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_gives_back_the_page_it_was_made_for() {
        let segments = [
            Segment::System,
            Segment::Local,
            Segment::Private,
            Segment::Backing,
            Segment::Fence,
            Segment::CrossAdapter,
        ];
        for segment in segments {
            for writable in [true, false] {
                let page = PhysicalPage { segment, address: 0xF_FFFF_FFFF_F000 };
                let entry = Pte::new(page, writable);
                assert_eq!(entry.page(), Some(page));
                assert_eq!(entry.is_writable(), writable);
                assert!(!entry.compressed());
                assert_eq!(entry.protected(DriverProtection::default()), entry);
                let compressed =
                    entry.protected(DriverProtection { compressed: true, protected: false });
                assert!(compressed.compressed());
                assert_eq!(compressed.page(), Some(page));
                assert_eq!(compressed.is_writable(), writable);
                let protection = DriverProtection { compressed: false, protected: true };
                let protected = entry.protected(protection);
                assert!(protected.is_protected() && !protected.compressed());
                assert!(!entry.is_protected() && !compressed.is_protected());
                assert_eq!((protected.page(), protected.is_writable()), (Some(page), writable));
            }
        }
        assert_eq!(Pte::INVALID.page(), None);
        assert_eq!(Pte::INVALID.with_valid(true).with_segment(7).page(), None);
    }

    #[test]
    fn fields_are_where_page_tables_have_them() {
        let page = PhysicalPage { segment: Segment::CrossAdapter, address: 0x9_8765_4321_0FFF };
        let entry = Pte::new(page, false)
            .protected(DriverProtection { compressed: true, protected: false });
        assert_eq!(entry.bits(), 1 | 1 << 3 | 5 << 5 | 1 << 11 | 0x9_8765_4321_0000);
        assert_eq!(ACCESSED, 1 << 52);
        let protection = DriverProtection { compressed: false, protected: true };
        let entry = Pte::new(page, true).protected(protection);
        assert_eq!(entry.bits(), 1 | 5 << 5 | 1 << 53 | 0x9_8765_4321_0000);
        // Bits outside all fields stay.
        assert_eq!(Pte::from_bits(u64::MAX).bits(), u64::MAX);
    }
}
