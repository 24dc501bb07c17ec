// SPDX-License-Identifier: MIT OR Apache-2.0

//! Page-table entries, written and invalidated through the driver.

use crate::ddi::Miniport;
use crate::ddi::paging::{BuildPagingBufferError, PageSize, PagingBuffer, PagingOperation};
use crate::hardware::{
    AddressSpaceId, GpuSet, GuestId, HardwareError, HardwareFull, PhysicalPage, Pte, Segment,
};
use crate::vidmm::pool::PageRange;
use bellhop_protocol::PAGE_SIZE;

/// Entries written at once: a leaf page table of the usual size.
pub(crate) const CHUNK: usize = 512;

pub(crate) const CHUNK_BYTES: u64 = CHUNK as u64 * PAGE_SIZE;

/// Writes the entries of consecutive pages from `gpu_va`.
pub(crate) fn write_entries(
    miniport: &mut dyn Miniport,
    space: AddressSpaceId,
    mut gpu_va: u64,
    mut entries: impl Iterator<Item = Pte>,
) -> Result<(), HardwareError> {
    let mut chunk = Vec::with_capacity(CHUNK);
    loop {
        chunk.clear();
        chunk.extend(entries.by_ref().take(CHUNK));
        if chunk.is_empty() {
            return Ok(());
        }
        miniport.update_page_table(space, gpu_va, PageSize::Small, &chunk)?;
        gpu_va += chunk.len() as u64 * PAGE_SIZE;
    }
}

/// Invalidates the entries of a range.
pub(crate) fn invalidate_entries(
    miniport: &mut dyn Miniport,
    space: AddressSpaceId,
    range: PageRange,
) {
    let end = range.start.saturating_add(range.length);
    let mut start = range.start;
    while start < end {
        // No chunk crosses into another leaf page table.
        let next = (start / CHUNK_BYTES).saturating_add(1).saturating_mul(CHUNK_BYTES).min(end);
        let pages = usize::try_from((next - start) / PAGE_SIZE).unwrap_or(CHUNK).min(CHUNK);
        if let Some(entries) = [Pte::INVALID; CHUNK].get(..pages)
            && let Err(error) = miniport.update_page_table(space, start, PageSize::Small, entries)
        {
            error.report();
            // If there was no memory for a table, it has no valid entry to invalidate.
            tracing::debug!(%error, start, "no page table to invalidate");
        }
        start = next;
    }
}

/// Makes the driver create the page tables for a range now, while a waiting request can still be refused for lack of
/// room. The tables stay as long as the address space.
pub(crate) fn make_page_tables(
    miniport: &mut dyn Miniport,
    guest: GuestId,
    space: AddressSpaceId,
    range: PageRange,
) -> Result<(), HardwareError> {
    let page = PhysicalPage { segment: Segment::System, address: 0 };
    let entries = [Pte::new(page, false); CHUNK];
    for page_size in [PageSize::Small, PageSize::Large] {
        let bytes = page_size.bytes();
        let mut start = range.start.next_multiple_of(bytes);
        let end = range.start.saturating_add(range.length);
        let end = end - end % bytes;
        while start < end {
            let count = usize::try_from((end - start) / bytes).unwrap_or(CHUNK).min(CHUNK);
            let update = PagingOperation::UpdatePageTable {
                gpus: GpuSet::ALL,
                space,
                gpu_va: start,
                page_size,
                entries: entries.get(..count).unwrap_or_default(),
            };
            // The buffer is discarded: only building it matters.
            let mut buffer = PagingBuffer::new();
            match miniport.build_paging_buffer(guest, &update, &mut buffer) {
                Ok(()) => {}
                Err(BuildPagingBufferError::Hardware(error)) => return Err(error),
                Err(BuildPagingBufferError::InsufficientDmaBuffer(_)) => {
                    return Err(HardwareFull("paging buffer").into());
                }
            }
            start += count as u64 * bytes;
        }
    }
    Ok(())
}
