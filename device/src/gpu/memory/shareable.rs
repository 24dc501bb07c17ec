// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that kernels may reach: engines share it with the processes that execute them.
//!
//! Not fences and their logs, whose words engines read and write whole, wherever their values are; not memory that several
//! guests share; not pages that are mapped as compressed, which only engines can decode; and no protected pages: a kernel
//! could store their bytes anywhere.

use super::address_map::AddressMap;
use super::mmu::{Access, protected};
use super::page_table::AddressSpace;
use super::violation::Violation;
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{PhysicalPage, Pte};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::event::FaultReason;
use std::fs::File;
use std::ops::Range;

/// The most bytes of an extent: it lies in one block of this size.
const BLOCK: u64 = 2 << 20;

/// A page of an address space that kernels may reach.
#[derive(Debug, Clone, Copy)]
pub struct ShareablePage {
    /// The page.
    pub page: PhysicalPage,
    /// Its size.
    pub size: PageSize,
    /// Whether kernels may store there.
    pub writable: bool,
}

impl ShareablePage {
    fn new((pte, size): (Pte, PageSize)) -> Option<Self> {
        let page = pte.page().filter(|_| !pte.compressed() && !pte.is_protected())?;
        Some(Self { page, size, writable: pte.is_writable() })
    }
}

impl AddressSpace {
    /// The page that contains an address, for a caller that does not keep it.
    pub fn shareable(&self, gpu_va: u64) -> Option<ShareablePage> {
        if self.window(gpu_va).is_some() {
            return None;
        }
        ShareablePage::new(self.walk(gpu_va))
    }

    /// Engine `engine`: the page that contains an address. The engine may keep it until it is asked to flush.
    fn shareable_to_remember(&self, gpu_va: u64, engine: u32) -> Option<ShareablePage> {
        ShareablePage::new(self.walk_to_remember(gpu_va, engine))
    }
}

/// A range of addresses whose memory is contiguous in a file.
#[derive(Debug, Clone, Copy)]
pub struct Extent<'m> {
    /// The first address.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The file.
    pub file: &'m File,
    /// Offset in the file of the first byte.
    pub offset: u64,
    /// Whether kernels may store there.
    pub writable: bool,
}

/// Engine `engine`: the largest extent around an address that lies in one block and in the addresses `within`.
///
/// # Errors
/// A page fault or `WRITE_PROTECTION_FAULT`.
pub fn extent<'m>(
    space: &AddressSpace,
    memory: &'m AddressMap,
    engine: u32,
    (gpu_va, access): (u64, Access),
    within: &Range<u64>,
) -> Result<Extent<'m>, Violation> {
    let fault = access.page_fault(gpu_va);
    if space.window(gpu_va).is_some() {
        return Err(fault);
    }
    let find = |gpu_va| {
        let found = space.shareable_to_remember(gpu_va, engine)?;
        Some((found, memory.locate_shareable(found.page, found.size)?))
    };
    let Some((page, place)) = find(gpu_va) else {
        return Err(if space.walk(gpu_va).0.is_protected() { protected(gpu_va) } else { fault });
    };
    let writable = page.writable;
    if access == Access::Write && !writable {
        return Err(Violation::new(FaultReason::WRITE_PROTECTION_FAULT, gpu_va));
    }
    let bytes = page.size.bytes();
    let block = gpu_va - gpu_va % BLOCK;
    let block = block.max(within.start)..block.saturating_add(BLOCK).min(within.end);
    let (mut start, mut first) = (gpu_va - gpu_va % bytes, place);
    let mut end = start.saturating_add(bytes);
    while end < block.end
        && let Some((next, found)) = find(end)
        && next.writable == writable
        && found == place.plus(end - (gpu_va - gpu_va % bytes))
    {
        end = end.saturating_add(next.size.bytes());
    }
    while start > block.start
        && let Some((next, found)) = find(start - PAGE_SIZE)
        && next.writable == writable
        && found.plus(next.size.bytes()) == first
    {
        (start, first) = (start - next.size.bytes(), found);
    }
    if start < block.start || end > block.end {
        return Err(fault);
    }
    let (file, offset) = memory.file_at(first).ok_or(fault)?;
    Ok(Extent { address: start, length: end - start, file, offset, writable })
}

#[cfg(test)]
mod tests {
    use super::super::address_map::tests::shared_map;
    use super::super::page_table::NodePool;
    use super::*;
    use bellhop_host_kmd::hardware::{AddressSpaceId, DriverProtection, Segment};
    use std::sync::Arc;

    const SMALL: PageSize = PageSize::Small;
    const AT: u64 = 0x4000_0000;
    const WITHIN: Range<u64> = 0x10_0000..1 << 40;

    fn space() -> AddressSpace {
        let pool = Arc::new(
            NodePool::new(bellhop_host_kmd::hardware::GpuOrdinal::MASTER, 64, 64).unwrap(),
        );
        AddressSpace::new(AddressSpaceId(1), &pool, &Arc::default()).unwrap()
    }

    fn pte(segment: Segment, address: u64, writable: bool) -> Pte {
        Pte::new(PhysicalPage { segment, address }, writable)
    }

    /// Address, length, offset in the file and whether it is writable.
    fn found(
        space: &AddressSpace,
        at: u64,
        access: Access,
    ) -> Result<(u64, u64, u64, bool), Violation> {
        let memory = shared_map();
        let extent = extent(space, &memory, 0, (at, access), &WITHIN)?;
        Ok((extent.address, extent.length, extent.offset, extent.writable))
    }

    #[test]
    fn an_extent_has_all_pages_around_an_address_that_follow_each_other_and_no_other() {
        let space = space();
        // Physical pages 1, 2, 3 and then 5, the last one read-only like none before.
        for (page, address) in [(1, 0x1000), (2, 0x2000), (3, 0x3000), (4, 0x5000)] {
            let entry = pte(Segment::Private, address, true);
            space.set(AT + page * PAGE_SIZE, SMALL, entry).unwrap();
        }
        space.set(AT + 5 * PAGE_SIZE, SMALL, pte(Segment::Private, 0x6000, false)).unwrap();
        for at in [AT + 0x1000, AT + 0x2abc, AT + 0x3fff] {
            assert_eq!(found(&space, at, Access::Write), Ok((AT + 0x1000, 0x3000, 0x9000, true)));
        }
        let fourth = found(&space, AT + 0x4000, Access::Read);
        assert_eq!(fourth, Ok((AT + 0x4000, 0x1000, 0xd000, true)));
        let last = found(&space, AT + 0x5008, Access::Read);
        assert_eq!(last, Ok((AT + 0x5000, 0x1000, 0xe000, false)));
        let protected = Violation::new(FaultReason::WRITE_PROTECTION_FAULT, AT + 0x5008);
        assert_eq!(found(&space, AT + 0x5008, Access::Write), Err(protected));
        for at in [AT + 0xfff, AT + 0x6000] {
            let missing = Violation::new(FaultReason::READ_PAGE_FAULT, at);
            assert_eq!(found(&space, at, Access::Read), Err(missing));
        }
    }

    #[test]
    fn an_extent_ends_with_its_block_and_with_the_window() {
        let space = space();
        for page in 0..1024 {
            let entry = pte(Segment::System, page * PAGE_SIZE, true);
            space.set(page * PAGE_SIZE, SMALL, entry).unwrap();
        }
        // The window begins in the middle of the first block.
        let first = found(&space, 0x12_3000, Access::Read).unwrap();
        assert_eq!((first.0, first.1), (0x10_0000, 0x10_0000));
        let second = found(&space, 0x20_0000, Access::Read).unwrap();
        assert_eq!((second.0, second.1), (0x20_0000, 0x20_0000));
    }

    #[test]
    fn large_and_small_pages_make_one_extent() {
        let space = space();
        let large = PageSize::Large;
        space.set(AT, large, pte(Segment::System, 0x1_0000, true)).unwrap();
        space.set(AT + 0x1_0000, SMALL, pte(Segment::System, 0x2_0000, true)).unwrap();
        let both = found(&space, AT + 0x1_0010, Access::Read).unwrap();
        assert_eq!((both.0, both.1), (AT, 0x1_1000));
    }

    /// The test's memory has them from 0x7000 on.
    #[test]
    fn a_page_of_private_memory_with_values_of_fences_is_no_kernels_nor_part_of_an_extent() {
        let space = space();
        for page in 5..8 {
            let entry = pte(Segment::Private, page * PAGE_SIZE, true);
            space.set(AT + page * PAGE_SIZE, SMALL, entry).unwrap();
        }
        let before = found(&space, AT + 0x6008, Access::Write);
        assert_eq!(before, Ok((AT + 0x5000, 0x2000, 0xd000, true)));
        let missing = Violation::new(FaultReason::WRITE_PAGE_FAULT, AT + 0x7008);
        assert_eq!(found(&space, AT + 0x7008, Access::Write), Err(missing));
    }

    #[test]
    fn what_several_guests_share_and_what_only_engines_decode_is_no_kernels() {
        let space = space();
        let compressed = DriverProtection { compressed: true, protected: false };
        for (page, entry) in (0..).zip([
            pte(Segment::Fence, 0, true),
            pte(Segment::CrossAdapter, 0, true),
            pte(Segment::Private, 0, true).protected(compressed),
        ]) {
            let at = AT + page * 0x10_0000;
            space.set(at, SMALL, entry).unwrap();
            let missing = Violation::new(FaultReason::WRITE_PAGE_FAULT, at);
            assert_eq!(found(&space, at, Access::Write), Err(missing));
        }
    }
}
