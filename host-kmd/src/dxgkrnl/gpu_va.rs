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
use crate::vidmm::step;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, GPU_VA_END, GPU_VA_START, MapGpuVirtualAddress,
    MapGpuVirtualAddressReply, Protection, ReserveGpuVirtualAddress, UpdateGpuVirtualAddress,
};
use std::collections::BTreeMap;

/// Bytes above [`GPU_VA_END`] in which the host maps rings: more than all doorbells of a guest
/// can need.
const HOST_VA_SIZE: u64 = 1 << 38;

/// Entries written at once: a leaf page table of the usual size.
const CHUNK: usize = 512;
const CHUNK_BYTES: u64 = CHUNK as u64 * PAGE_SIZE;

/// Addresses that the guest mapped or reserved together.
#[derive(Debug, Clone, Copy)]
struct Taken {
    length: u64,
    /// They stay taken when nothing is mapped there any more.
    reserved: bool,
    /// Whether an allocation that is not paged is mapped there.
    fixed: bool,
    /// How many mappings lie there.
    mappings: u64,
}

impl Taken {
    /// How many mappings the guest's quota was charged for.
    fn charged(self) -> u64 {
        self.mappings.max(1)
    }
}

/// A mapping that the guest made.
#[derive(Debug, Clone, Copy)]
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
    /// What the guest has of them, by the first byte.
    taken: BTreeMap<u64, Taken>,
    /// The guest's mappings by their first byte. Each lies inside of what is taken.
    mappings: BTreeMap<u64, Mapping>,
}

impl GpuVa {
    /// Nothing mapped.
    pub(super) fn new() -> Self {
        Self {
            guest: PagePool::new(GPU_VA_START, GPU_VA_END - GPU_VA_START),
            host: PagePool::new(GPU_VA_END, HOST_VA_SIZE),
            taken: BTreeMap::new(),
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

    /// What was taken together and holds all of a range.
    fn taken_around(&self, start: u64, length: u64) -> Option<(PageRange, Taken)> {
        let (first, taken) = self.taken.range(..=start).next_back()?;
        let end = start.checked_add(length)?;
        let range = PageRange { start: *first, length: taken.length };
        (end <= first + taken.length).then_some((range, *taken))
    }

    /// First bytes of the mappings that have a byte in a range.
    fn overlapping(&self, range: PageRange) -> Vec<u64> {
        let end = range.start + range.length;
        let before = self.mappings.range(..range.start).next_back();
        let before = before.filter(|(start, mapping)| *start + mapping.length > range.start);
        let inside = self.mappings.range(range.start..end);
        before.into_iter().chain(inside).map(|(start, _)| *start).collect()
    }

    /// Forgets all that the guest has, of which nothing is mapped any more: as
    /// [`Self::remove_mapping`] does.
    pub(super) fn remove_all(&mut self) -> Vec<(PageRange, u64)> {
        let taken = std::mem::take(&mut self.taken).into_iter();
        taken
            .map(|(start, taken)| (PageRange { start, length: taken.length }, taken.charged() - 1))
            .collect()
    }

    /// Forgets the mapping at `start`. Returns the addresses that were taken for it and are nobody's
    /// now, though not yet to be given out again, and how many mappings are to be refunded.
    pub(super) fn remove_mapping(&mut self, start: u64) -> (Option<PageRange>, u64) {
        let Some(mapping) = self.mappings.remove(&start) else { return (None, 0) };
        let Some((range, taken)) = self.taken_around(start, mapping.length) else {
            return (None, 0);
        };
        let left = Taken { mappings: taken.mappings.saturating_sub(1), ..taken };
        if left.mappings == 0 && !taken.reserved {
            self.taken.remove(&range.start);
            return (Some(range), 0);
        }
        self.taken.insert(range.start, left);
        (None, taken.charged() - left.charged())
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
        check_part((request.offset, request.size), size)?;
        check_base(request.base, request.size)?;
        let paged = self.get::<Allocation>(request.allocation)?.paged();
        let range = self.take_guest_va(request.base, request.size)?;
        let space = self.process()?.space;
        let written = match paged {
            Some(_) => self.make_page_tables(space, range),
            None => self.write_mapping(request.allocation, range, request.offset, protection),
        };
        if let Err(error) = written {
            // Some entries may be valid already.
            let process = self.process_id;
            self.given_up.push(Resource::GpuVa { process, range, paged: paged.is_some() });
            return Err(error);
        }
        let MapGpuVirtualAddress { allocation, offset, .. } = request;
        let fixed = paged.is_none();
        let taken = Taken { length: range.length, reserved: false, fixed, mappings: 1 };
        self.process()?.gpu_va.taken.insert(range.start, taken);
        let mapping = Mapping { length: range.length, allocation, offset, protection };
        self.insert_mapping(range.start, mapping)?;
        Ok(Answer::AfterPaging(MapGpuVirtualAddressReply { gpu_va: range.start }))
    }

    /// Notes a mapping, and has VidMm map it if its allocation is paged.
    fn insert_mapping(&mut self, start: u64, mapping: Mapping) -> Result<(), RequestError> {
        let space = self.process()?.space;
        self.process()?.gpu_va.mappings.insert(start, mapping);
        let allocation = self.get_mut::<Allocation>(mapping.allocation)?;
        allocation.mappings.insert(start);
        if let Some(id) = allocation.paged() {
            let mapping = step::Mapping {
                space,
                gpu_va: start,
                length: mapping.length,
                offset: mapping.offset,
                writable: mapping.protection.contains(Protection::WRITE),
                driver: allocation.driver,
            };
            self.guest.vidmm.map(id, mapping)?;
        }
        Ok(())
    }

    /// Forgets a mapping that its addresses outlive, and has VidMm unmap it if its allocation is
    /// paged.
    fn forget_mapping(&mut self, start: u64) -> Result<Option<Mapping>, RequestError> {
        let process = self.process()?;
        let space = process.space;
        let Some(mapping) = process.gpu_va.mappings.remove(&start) else { return Ok(None) };
        let allocation = self.get_mut::<Allocation>(mapping.allocation)?;
        allocation.mappings.remove(&start);
        if let Some(id) = allocation.paged() {
            self.guest.vidmm.unmap(id, space, start)?;
        }
        Ok(Some(mapping))
    }

    /// Takes addresses for a mapping of the guest's, at `base` or, when that is 0, anywhere.
    fn take_guest_va(&mut self, base: u64, length: u64) -> Result<PageRange, RequestError> {
        self.guest.quotas.mappings.charge(1)?;
        if let Err(error) = self.guest.quotas.mapped_bytes.charge(length) {
            self.guest.quotas.mappings.refund(1);
            return Err(error);
        }
        let pool = &mut self.process()?.gpu_va.guest;
        let range = match base {
            0 => pool.take_for_large_pages(length),
            base => pool.take_at(base, length),
        };
        range.ok_or_else(|| {
            self.guest.quotas.mappings.refund(1);
            self.guest.quotas.mapped_bytes.refund(length);
            RequestError::ConflictingAddresses(base)
        })
    }

    /// `D3DKMTReserveGpuVirtualAddress`.
    pub(super) fn reserve_gpu_virtual_address(
        &mut self,
        request: ReserveGpuVirtualAddress,
    ) -> Handled<MapGpuVirtualAddressReply> {
        let ReserveGpuVirtualAddress { base, size } = request;
        if !is_whole_pages(size) {
            return Err(RequestError::parameter("size", size));
        }
        check_base(base, size)?;
        let range = self.take_guest_va(base, size)?;
        let taken = Taken { length: range.length, reserved: true, fixed: false, mappings: 0 };
        self.process()?.gpu_va.taken.insert(range.start, taken);
        Ok(Answer::Done(MapGpuVirtualAddressReply { gpu_va: range.start }))
    }

    /// `D3DKMTUpdateGpuVirtualAddress`.
    pub(super) fn update_gpu_virtual_address(
        &mut self,
        request: UpdateGpuVirtualAddress,
    ) -> Handled<()> {
        zero("reserved", request.reserved)?;
        let UpdateGpuVirtualAddress { gpu_va, size, allocation, offset, protection, .. } = request;
        if !gpu_va.is_multiple_of(PAGE_SIZE) {
            return Err(RequestError::parameter("gpu_va", gpu_va));
        }
        if !is_whole_pages(size) {
            return Err(RequestError::parameter("size", size));
        }
        let new = match allocation {
            Handle(0) => {
                zero("offset", offset)?;
                zero("protection", protection)?;
                None
            }
            allocation => {
                let protection = Protection::from_bits(protection)
                    .ok_or(RequestError::parameter("protection", protection.into()))?;
                let state = self.get::<Allocation>(allocation)?;
                state.must_be_paged()?;
                check_part((offset, size), state.size)?;
                Some(Mapping { length: size, allocation, offset, protection })
            }
        };
        let conflict = RequestError::ConflictingAddresses(gpu_va);
        let (range, taken) = self.process()?.gpu_va.taken_around(gpu_va, size).ok_or(conflict)?;
        if taken.fixed {
            return Err(RequestError::NotSupported(
                "an allocation that is not paged is mapped there",
            ));
        }
        let part = PageRange { start: gpu_va, length: size };
        if new.is_some() {
            let space = self.process()?.space;
            self.make_page_tables(space, part)?;
        }
        self.replace_mappings(part, new, (range, taken))?;
        Ok(Answer::AfterPaging(()))
    }

    /// Maps a part of what was taken to something else. What is left of mappings beside it stays.
    fn replace_mappings(
        &mut self,
        part: PageRange,
        new: Option<Mapping>,
        (range, taken): (PageRange, Taken),
    ) -> Result<(), RequestError> {
        let gpu_va = &self.process()?.gpu_va;
        let end = part.start + part.length;
        let old = gpu_va.overlapping(part);
        let mut pieces: Vec<(u64, Mapping)> = Vec::with_capacity(3);
        for start in &old {
            let Some(mapping) = gpu_va.mappings.get(start).copied() else { continue };
            let before = part.start.saturating_sub(*start);
            if before > 0 {
                pieces.push((*start, Mapping { length: before, ..mapping }));
            }
            let after = (start + mapping.length).saturating_sub(end);
            if after > 0 {
                let offset = mapping.offset + (mapping.length - after);
                pieces.push((end, Mapping { length: after, offset, ..mapping }));
            }
        }
        let is_split = !pieces.is_empty();
        pieces.extend(new.map(|mapping| (part.start, mapping)));
        let mappings = taken.mappings + pieces.len() as u64 - old.len() as u64;
        let (before, after) = (taken.charged(), Taken { mappings, ..taken }.charged());
        self.guest.quotas.mappings.charge(after.saturating_sub(before))?;
        self.guest.quotas.mappings.refund(before.saturating_sub(after));
        self.process()?.gpu_va.taken.insert(range.start, Taken { mappings, ..taken });
        if is_split {
            // What stays is mapped anew, because large pages may have to become small ones.
            self.guest.vidmm.hold(self.process_id);
        }
        for start in old {
            self.forget_mapping(start)?;
        }
        for (start, mapping) in pieces {
            self.insert_mapping(start, mapping)?;
        }
        Ok(())
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
        if !self.get::<Allocation>(allocation)?.resident {
            return Ok(());
        }
        let memory = self.memory(allocation)?;
        let writable = protection.contains(Protection::WRITE);
        let entries = memory.pages(offset, range.length).map(|page| Pte::new(page, writable));
        Ok(write(self.miniport, space, range.start, entries)?)
    }

    /// `D3DKMTFreeGpuVirtualAddress`.
    pub(super) fn free_gpu_virtual_address(
        &mut self,
        request: FreeGpuVirtualAddress,
    ) -> Handled<()> {
        let FreeGpuVirtualAddress { gpu_va: start, size: length } = request;
        let gpu_va = &mut self.process()?.gpu_va;
        let taken = match gpu_va.taken.get(&start) {
            Some(taken) if taken.length == length => *taken,
            _ => return Err(RequestError::ConflictingAddresses(start)),
        };
        gpu_va.taken.remove(&start);
        let range = PageRange { start, length };
        for start in gpu_va.overlapping(range) {
            self.forget_mapping(start)?;
        }
        self.guest.quotas.mappings.refund(taken.charged() - 1);
        let process = self.process_id;
        self.given_up.push(Resource::GpuVa { process, range, paged: !taken.fixed });
        Ok(Answer::AfterQuiesce)
    }
}

/// Refuses what is not whole pages of an allocation of `length` bytes: the offset where no page begins
/// there, and otherwise the size.
fn check_part((offset, size): (u64, u64), length: u64) -> Result<(), RequestError> {
    if !offset.is_multiple_of(PAGE_SIZE) || offset >= length {
        return Err(RequestError::parameter("offset", offset));
    }
    if !is_whole_pages(size) || size > length - offset {
        return Err(RequestError::parameter("size", size));
    }
    Ok(())
}

/// Refuses addresses that the guest cannot have: the base where none begins there, and otherwise the
/// size. 0 is anywhere.
fn check_base(base: u64, size: u64) -> Result<(), RequestError> {
    if base == 0 {
        return Ok(());
    }
    if !base.is_multiple_of(PAGE_SIZE) || !(GPU_VA_START..GPU_VA_END).contains(&base) {
        return Err(RequestError::parameter("base", base));
    }
    if size > GPU_VA_END - base {
        return Err(RequestError::parameter("size", size));
    }
    Ok(())
}
