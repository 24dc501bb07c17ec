//! Page-table entries in the GPU's own format.

use bellhop_protocol::PAGE_SIZE;

/// Which memory a page is in (`DXGK_PTE::Segment`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Segment {
    /// The guest's own memory; addresses are guest-physical.
    System,
    /// The guest's CPU-visible local memory; addresses are offsets from its start.
    Local,
    /// The guest's local memory that no CPU of it sees; addresses are offsets from its start.
    Private,
    /// Memory of the host's where the guest's pages are that nothing else has room for; addresses are
    /// offsets from its start.
    Backing,
    /// Memory of the host's where values of native fences are, and logs; addresses are offsets from its
    /// start. For each fence slot there is a CurrentValue, behind all of these a MonitoredValue, and behind
    /// those room for two logs.
    Fence,
    /// Memory of the host's that all its adapters share, where CurrentValues are that several guests have:
    /// each alone in its page; addresses are offsets from its start.
    CrossAdapter,
}

/// A page of physical memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PhysicalPage {
    /// Which memory it is in.
    pub segment: Segment,
    /// Address of its first byte, a multiple of the page size.
    pub address: u64,
}

/// A byte of physical memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PhysicalAddress {
    /// Which memory it is in.
    pub segment: Segment,
    /// Its address.
    pub address: u64,
}

/// What a driver makes of a page-table entry beside what dxgkrnl does (`DriverProtection`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DriverProtection {
    /// Engines keep the page compressed: whoever reads it another way may see encoded bytes.
    pub compressed: bool,
}

/// A leaf page-table entry. Bit 0 valid, bit 3 read-only, bits 5 to 9 segment (0 system, 1
/// local, 2 private, 3 backing, 4 fence, 5 cross-adapter), bit 11 compressed, bits 12 to 51 page number, bit 52
/// accessed; all others zero. The bits have the places that `DXGK_PTE` gives them, but for bits 11 and 52, which are
/// this GPU's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Pte(u64);

const VALID: u64 = 1 << 0;
const READ_ONLY: u64 = 1 << 3;
const SEGMENT_SHIFT: u32 = 5;
const SEGMENT_MASK: u64 = 0x1F << SEGMENT_SHIFT;
const COMPRESSED: u64 = 1 << 11;
/// Set by engines when they walk page tables and are about to remember the entry.
pub const ACCESSED: u64 = 1 << 52;
const ADDRESS_MASK: u64 = (1 << 52) - PAGE_SIZE;

impl Pte {
    /// The entry of a page that is not mapped.
    pub const INVALID: Self = Self(0);

    /// The entry of a mapped page. Address bits from 52 on, and those below the page size, are
    /// cut off.
    #[must_use]
    pub const fn new(page: PhysicalPage, writable: bool) -> Self {
        let segment = match page.segment {
            Segment::System => 0,
            Segment::Local => 1 << SEGMENT_SHIFT,
            Segment::Private => 2 << SEGMENT_SHIFT,
            Segment::Backing => 3 << SEGMENT_SHIFT,
            Segment::Fence => 4 << SEGMENT_SHIFT,
            Segment::CrossAdapter => 5 << SEGMENT_SHIFT,
        };
        let protection = if writable { 0 } else { READ_ONLY };
        Self(VALID | protection | segment | page.address & ADDRESS_MASK)
    }

    /// The same with what the driver adds.
    #[must_use]
    pub const fn protected(self, protection: DriverProtection) -> Self {
        Self(if protection.compressed { self.0 | COMPRESSED } else { self.0 })
    }

    /// Whether engines keep the page compressed.
    #[must_use]
    pub const fn is_compressed(self) -> bool {
        self.0 & COMPRESSED != 0
    }

    /// The entry with these bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The entry's bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The page, or `None` when the entry is not valid or names a segment that does not exist.
    #[must_use]
    pub const fn page(self) -> Option<PhysicalPage> {
        if self.0 & VALID == 0 {
            return None;
        }
        let segment = match (self.0 & SEGMENT_MASK) >> SEGMENT_SHIFT {
            0 => Segment::System,
            1 => Segment::Local,
            2 => Segment::Private,
            3 => Segment::Backing,
            4 => Segment::Fence,
            5 => Segment::CrossAdapter,
            _ => return None,
        };
        Some(PhysicalPage { segment, address: self.0 & ADDRESS_MASK })
    }

    /// Whether packets may write the page.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.0 & READ_ONLY == 0
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
                assert!(!entry.is_compressed());
                assert_eq!(entry.protected(DriverProtection::default()), entry);
                let compressed = entry.protected(DriverProtection { compressed: true });
                assert!(compressed.is_compressed());
                assert_eq!(compressed.page(), Some(page));
                assert_eq!(compressed.is_writable(), writable);
            }
        }
        assert_eq!(Pte::INVALID.page(), None);
        assert_eq!(Pte::from_bits(VALID | 7 << SEGMENT_SHIFT).page(), None);
    }
}
