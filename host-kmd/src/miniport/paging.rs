// SPDX-License-Identifier: MIT OR Apache-2.0

//! `DxgkDdiBuildPagingBuffer`: operations become packets.
//!
//! The copy engine moves bytes, writes page-table entries when it reaches the packet, and flushes TLBs. The control
//! plane only makes sure that the tables exist.

use crate::ddi::paging::{APERTURE_START, AllocationNotification, PageSize, PagingOperation};
use crate::hardware::{AddressSpaceId, Gpu, HardwareError, Pte, Reported as _};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::packet::paging::{
    ALL_ADDRESS_SPACES, ClearMetadata, Decompress, FlushTlb, WritePageTable,
};
use bellhop_protocol::packet::transfer::{Copy, Fill};
use zerocopy::{Immutable, IntoBytes};

/// Maximum bytes that one packet moves: an engine takes a packet that runs too long for a hang, which a large move is
/// not.
const CHUNK: u64 = 64 << 20;

/// Builds the packets of one operation. `system` is the address space that contains the aperture.
pub(super) fn build(
    gpu: &dyn Gpu,
    system: AddressSpaceId,
    operation: &PagingOperation<'_>,
) -> Result<Vec<u8>, HardwareError> {
    let mut packets = Packets::default();
    match *operation {
        // An address's segment makes no difference to the engine.
        PagingOperation::Fill { destination, length, pattern }
        | PagingOperation::VirtualFill { destination, length, pattern } => {
            for (at, length) in chunks(length) {
                packets.push(&Fill::new(destination.saturating_add(at), length, pattern));
            }
        }
        PagingOperation::Transfer { source, destination, length }
        | PagingOperation::VirtualTransfer { source, destination, length } => {
            for (at, length) in chunks(length) {
                let (from, to) = (source.saturating_add(at), destination.saturating_add(at));
                packets.push(&Copy::new(from, to, length));
            }
        }
        // The GPU keeps no state about an address for which it would need its content.
        PagingOperation::Discard { .. } | PagingOperation::NotifyResidency { .. } => {}
        PagingOperation::MapApertureSegment { offset, pages } => {
            let entries: Vec<_> = pages.iter().map(|page| Pte::new(*page, true)).collect();
            let gpu_va = APERTURE_START.saturating_add(offset);
            packets.write_entries(gpu, system, gpu_va, PageSize::Small, &entries)?;
        }
        PagingOperation::UnmapApertureSegment { offset, length } => {
            let gpu_va = APERTURE_START.saturating_add(offset);
            let pages = length / PAGE_SIZE;
            let ranges = gpu.locate_page_table(system, gpu_va, PageSize::Small, pages, false)?;
            for range in ranges {
                if let Some(address) = range.address {
                    packets.push(&WritePageTable::new(address, range.entries, 0, 0));
                }
            }
            // The pages may be mapped again without a flush.
            packets.flush(gpu, system);
        }
        PagingOperation::UpdatePageTable { space, gpu_va, page_size, entries, .. } => {
            packets.write_entries(gpu, space, gpu_va, page_size, entries)?;
        }
        PagingOperation::FlushTlb { space } => packets.flush(gpu, space),
        PagingOperation::NotifyAlloc { notification, gpu_va, length, pages, .. } => {
            match notification {
                // "An allocation might be compressed when it's under device access. When that allocation
                // is being evicted, KMD must first decompress it before the actual eviction."
                AllocationNotification::Eviction => {
                    for (at, length) in chunks(length) {
                        packets.push(&Decompress::new(gpu_va.saturating_add(at), length));
                    }
                }
                // "The driver has the chance to clear internal caches." Engines cache which pages they have encoded,
                // and translations.
                AllocationNotification::IoMmuUnmap => {
                    for Extent { address, length } in pages {
                        for (at, length) in chunks(*length) {
                            packets.push(&ClearMetadata::new(address.saturating_add(at), length));
                        }
                    }
                    packets.push(&FlushTlb::new(ALL_ADDRESS_SPACES));
                }
            }
        }
    }
    Ok(packets.0)
}

/// Splits a length into chunks: offset and length of each.
fn chunks(length: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..length.div_ceil(CHUNK)).map(move |chunk| {
        let at = chunk * CHUNK;
        (at, CHUNK.min(length - at))
    })
}

#[derive(Default)]
struct Packets(Vec<u8>);

impl Packets {
    fn push<T: IntoBytes + Immutable>(&mut self, packet: &T) {
        self.0.extend_from_slice(packet.as_bytes());
    }

    /// Holds later packets until no engine caches translations of an address space from before.
    fn flush(&mut self, gpu: &dyn Gpu, space: AddressSpaceId) {
        let root = gpu.page_table_root(space).reported_or(ALL_ADDRESS_SPACES);
        self.push(&FlushTlb::new(root));
    }

    /// Writes the entries of consecutive pages.
    fn write_entries(
        &mut self,
        gpu: &dyn Gpu,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareError> {
        // A missing table has no entry to invalidate.
        let create = entries.iter().any(|entry| entry.page().is_some());
        let pages = entries.len() as u64;
        let mut rest = entries;
        for range in gpu.locate_page_table(space, gpu_va, page_size, pages, create)? {
            let (table, behind) = rest.split_at(rest.len().min(range.entries as usize));
            rest = behind;
            if let Some(address) = range.address {
                self.write_table(address, table);
            }
        }
        Ok(())
    }

    /// Writes consecutive entries of one table: one packet for each run with a constant increment, so adjacent pages
    /// take one packet.
    fn write_table(&mut self, mut address: u64, mut entries: &[Pte]) {
        while let Some((first, rest)) = entries.split_first() {
            let step = |from: &Pte, to: &Pte| to.bits().wrapping_sub(from.bits());
            let increment = rest.first().map_or(0, |second| step(first, second));
            let steps = entries
                .windows(2)
                .take_while(|pair| matches!(pair, [from, to] if step(from, to) == increment));
            let count = 1 + steps.count();
            let entries_in_table = u32::try_from(count).unwrap_or(u32::MAX);
            let first = first.bits();
            self.push(&WritePageTable::new(address, entries_in_table, first, increment));
            address += count as u64 * size_of::<Pte>() as u64;
            entries = entries.get(count..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddi::paging::{MAX_LENGTH, MAX_PAGES, PAGING_BUFFER_SIZE};
    use crate::hardware::{PhysicalPage, Segment};
    use bellhop_protocol::packet::Packet;
    use proptest::prelude::*;

    fn entry(page: u64) -> Pte {
        match page {
            0 => Pte::INVALID,
            page => {
                let page = PhysicalPage { segment: Segment::System, address: page * PAGE_SIZE };
                Pte::new(page, true)
            }
        }
    }

    /// The contents of a table after the packets.
    fn execute(packets: &[u8]) -> Vec<u64> {
        let mut rest = packets;
        let mut table = Vec::new();
        while !rest.is_empty() {
            let (packet, size) = Packet::decode(rest).unwrap();
            let Packet::WritePageTable(write) = packet else { panic!("{packet:?}") };
            assert_eq!(write.address, 0x1000 + table.len() as u64 * 8);
            let entry = |index| write.first.wrapping_add(write.increment.wrapping_mul(index));
            table.extend((0..u64::from(write.count())).map(entry));
            rest = &rest[size..];
        }
        table
    }

    #[test]
    fn pages_that_lie_together_take_one_packet_and_those_that_do_not_still_fit() {
        let mut packets = Packets::default();
        packets.write_table(0x1000, &[0; 512].map(entry));
        let together: Vec<_> = (7..519).map(entry).collect();
        packets.write_table(0x1000, &together);
        assert_eq!(packets.0.len(), 2 * size_of::<WritePageTable>());
        let mut scattered = Packets::default();
        let pages: Vec<_> = (0..MAX_PAGES as u64).map(|page| entry(1 + page * page)).collect();
        scattered.write_table(0x1000, &pages);
        assert!(scattered.0.len() <= PAGING_BUFFER_SIZE, "{}", scattered.0.len());
    }

    #[test]
    fn an_operation_of_the_greatest_length_fits_and_leaves_no_byte_out() {
        let all: Vec<_> = chunks(MAX_LENGTH).collect();
        assert!(all.len() * size_of::<Copy>() <= PAGING_BUFFER_SIZE);
        let odd = chunks(CHUNK + 4096).collect::<Vec<_>>();
        assert_eq!(odd, [(0, CHUNK), (CHUNK, 4096)]);
        assert_eq!(chunks(0).count(), 0);
    }

    proptest! {
        #[test]
        fn packets_write_exactly_the_entries(
            pages in proptest::collection::vec(
                prop_oneof![2 => 0u64..4, 1 => 0u64..1 << 30], 0..600,
            )
        ) {
            let entries: Vec<_> = pages.into_iter().map(entry).collect();
            let mut packets = Packets::default();
            packets.write_table(0x1000, &entries);
            let expected: Vec<_> = entries.iter().map(|entry| entry.bits()).collect();
            prop_assert_eq!(execute(&packets.0), expected);
        }
    }
}
