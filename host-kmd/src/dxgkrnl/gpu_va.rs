//! A process's GPU virtual addresses.

use super::allocation::Allocation;
use super::error::RequestError;
use super::pool::{PagePool, PageRange, is_whole_pages};
use super::request::{Answer, Handled, zero};
use super::retire::Resource;
use super::scope::Scope;
use crate::ddi::Miniport;
use crate::ddi::paging::PageSize;
use crate::hardware::{AddressSpaceId, HardwareFull, Pte};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, GPU_VA_END, GPU_VA_START, MapGpuVirtualAddress,
    MapGpuVirtualAddressReply, Protection,
};
use std::collections::BTreeMap;

/// Bytes above [`GPU_VA_END`] in which the host maps rings: more than all doorbells of a guest
/// can need.
const HOST_VA_SIZE: u64 = 1 << 38;

/// Entries written at once: a leaf page table of the usual size.
const CHUNK: usize = 512;
const CHUNK_BYTES: u64 = CHUNK as u64 * PAGE_SIZE;

/// A mapping that the guest made.
#[derive(Debug)]
struct Mapping {
    length: u64,
    allocation: Handle,
    offset: u64,
    protection: Protection,
}

/// The GPU virtual addresses of a process.
#[derive(Debug)]
pub(super) struct GpuVa {
    /// Those that the guest can map.
    guest: PagePool,
    /// Those that only the host can map.
    host: PagePool,
    /// The guest's mappings by their first byte.
    mappings: BTreeMap<u64, Mapping>,
}

impl GpuVa {
    /// Nothing mapped.
    pub(super) fn new() -> Self {
        Self {
            guest: PagePool::new(GPU_VA_START, GPU_VA_END - GPU_VA_START),
            host: PagePool::new(GPU_VA_END, HOST_VA_SIZE),
            mappings: BTreeMap::new(),
        }
    }

    /// How many mappings the guest made.
    pub(super) fn mapping_count(&self) -> usize {
        self.mappings.len()
    }

    /// Takes addresses that the guest cannot free.
    pub(super) fn take_for_host(&mut self, length: u64) -> Option<PageRange> {
        self.host.take(length)
    }

    /// Takes back a range of either kind.
    pub(super) fn give_back(&mut self, range: PageRange) {
        if range.start < GPU_VA_END {
            self.guest.give_back(range);
        } else {
            self.host.give_back(range);
        }
    }

    /// The range of the guest's mapping at `start`.
    pub(super) fn mapped_range(&self, start: u64) -> Option<PageRange> {
        self.mapping(start).map(|(range, ..)| range)
    }

    /// The guest's mapping at `start`: its range, its offset in its allocation, and what it allows.
    pub(super) fn mapping(&self, start: u64) -> Option<(PageRange, u64, Protection)> {
        let Mapping { length, offset, protection, .. } = *self.mappings.get(&start)?;
        Some((PageRange { start, length }, offset, protection))
    }

    /// Forgets the mapping at `start`; its addresses stay taken.
    pub(super) fn remove_mapping(&mut self, start: u64) -> Option<PageRange> {
        self.mappings.remove(&start).map(|Mapping { length, .. }| PageRange { start, length })
    }
}

/// Writes the entries of consecutive pages from `gpu_va`.
pub(super) fn write(
    miniport: &mut dyn Miniport,
    space: AddressSpaceId,
    mut gpu_va: u64,
    mut entries: impl Iterator<Item = Pte>,
) -> Result<(), HardwareFull> {
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

/// Makes the entries of a range invalid.
pub(super) fn invalidate(miniport: &mut dyn Miniport, space: AddressSpaceId, range: PageRange) {
    let end = range.start.saturating_add(range.length);
    let mut start = range.start;
    while start < end {
        // No chunk crosses into another leaf page table.
        let next = (start / CHUNK_BYTES).saturating_add(1).saturating_mul(CHUNK_BYTES).min(end);
        let pages = usize::try_from((next - start) / PAGE_SIZE).unwrap_or(CHUNK).min(CHUNK);
        if let Some(entries) = [Pte::INVALID; CHUNK].get(..pages)
            && let Err(full) = miniport.update_page_table(space, start, PageSize::Small, entries)
        {
            // A table that there was no memory for has no valid entry to take away.
            tracing::debug!(%full, start, "no page table to invalidate");
        }
        start = next;
    }
}

impl Scope<'_> {
    /// `D3DKMTMapGpuVirtualAddress`.
    pub(super) fn map_gpu_virtual_address(
        &mut self,
        request: MapGpuVirtualAddress,
    ) -> Handled<MapGpuVirtualAddressReply> {
        zero("reserved", request.reserved)?;
        let protection = Protection::from_bits(request.protection)
            .ok_or(RequestError::parameter("protection", request.protection.into()))?;
        let size = self.get::<Allocation>(request.allocation)?.size;
        if !request.offset.is_multiple_of(PAGE_SIZE) {
            return Err(RequestError::parameter("offset", request.offset));
        }
        if !is_whole_pages(request.size) {
            return Err(RequestError::parameter("size", request.size));
        }
        if request.offset.checked_add(request.size).is_none_or(|end| end > size) {
            return Err(RequestError::parameter("offset + size", request.offset));
        }
        let end = request.base.checked_add(request.size);
        let is_guests = request.base >= GPU_VA_START && end.is_some_and(|end| end <= GPU_VA_END);
        if !request.base.is_multiple_of(PAGE_SIZE) || (request.base != 0 && !is_guests) {
            return Err(RequestError::parameter("base", request.base));
        }

        let range = self.take_guest_va(request.base, request.size)?;
        if let Err(error) =
            self.write_mapping(request.allocation, range, request.offset, protection)
        {
            // Some entries may be valid already.
            self.given_up.push(Resource::GpuVa { process: self.process_id, range });
            return Err(error);
        }
        let MapGpuVirtualAddress { allocation, offset, .. } = request;
        let mapping = Mapping { length: range.length, allocation, offset, protection };
        self.process()?.gpu_va.mappings.insert(range.start, mapping);
        self.get_mut::<Allocation>(request.allocation)?.mappings.insert(range.start);
        Ok(Answer::Done(MapGpuVirtualAddressReply { gpu_va: range.start }))
    }

    /// Takes addresses for a mapping of the guest's, at `base` or, when that is 0, anywhere.
    fn take_guest_va(&mut self, base: u64, length: u64) -> Result<PageRange, RequestError> {
        self.guest.quotas.mappings.charge(1)?;
        if let Err(error) = self.guest.quotas.mapped_bytes.charge(length) {
            self.guest.quotas.mappings.refund(1);
            return Err(error);
        }
        let pool = &mut self.process()?.gpu_va.guest;
        let range = if base == 0 { pool.take(length) } else { pool.take_at(base, length) };
        range.ok_or_else(|| {
            self.guest.quotas.mappings.refund(1);
            self.guest.quotas.mapped_bytes.refund(length);
            RequestError::ConflictingAddresses(base)
        })
    }

    /// Writes the entries that map `range` to an allocation from `offset` on, if it is resident.
    pub(super) fn write_mapping(
        &mut self,
        allocation: Handle,
        range: PageRange,
        offset: u64,
        protection: Protection,
    ) -> Result<(), RequestError> {
        let space = self.process()?.space;
        let allocation = self.guest.handles.get::<Allocation>(self.process_id, allocation)?;
        if !allocation.resident {
            return Ok(());
        }
        let writable = protection.contains(Protection::WRITE);
        let entries = allocation.pages(offset, range.length).map(|page| Pte::new(page, writable));
        Ok(write(self.miniport, space, range.start, entries)?)
    }

    /// `D3DKMTFreeGpuVirtualAddress`.
    pub(super) fn free_gpu_virtual_address(
        &mut self,
        request: FreeGpuVirtualAddress,
    ) -> Handled<()> {
        let process = self.process_id;
        let gpu_va = &mut self.process()?.gpu_va;
        let allocation = match gpu_va.mappings.get(&request.gpu_va) {
            Some(mapping) if mapping.length == request.size => mapping.allocation,
            _ => return Err(RequestError::ConflictingAddresses(request.gpu_va)),
        };
        if let Some(range) = gpu_va.remove_mapping(request.gpu_va) {
            self.given_up.push(Resource::GpuVa { process, range });
        }
        self.get_mut::<Allocation>(allocation)?.mappings.remove(&request.gpu_va);
        Ok(Answer::AfterQuiesce)
    }
}
