// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about GPU virtual addresses.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::memory::allocation::Allocation;
use crate::dxgkrnl::memory::gpu_va::{GuestMapping, Taken};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::resource::Resource;
use crate::hardware::GpuSet;
use crate::vidmm::pool::{PageRange, is_whole_pages};
use crate::vidmm::step;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, GPU_VA_END, GPU_VA_START, MapGpuVirtualAddress,
    MapGpuVirtualAddressReply, Protection, ReserveGpuVirtualAddress, UpdateGpuVirtualAddress,
};

impl ProcessAccess<'_> {
    /// `D3DKMTMapGpuVirtualAddress`.
    pub(crate) fn map_gpu_virtual_address(
        &mut self,
        request: MapGpuVirtualAddress,
    ) -> Handled<MapGpuVirtualAddressReply> {
        zero("reserved", request.reserved)?;
        let protection = Protection::from_bits(request.protection)
            .ok_or(RequestError::parameter("protection", request.protection.into()))?;
        let size = self.get::<Allocation>(request.allocation)?.size();
        check_part((request.offset, request.size), size)?;
        check_base(request.base, request.size)?;
        let paged = self.get::<Allocation>(request.allocation)?.paged();
        let range = self.take_guest_va(request.base, request.size)?;
        let space = self.process()?.space();
        let written = match paged {
            Some(_) => self.make_page_tables(space, range),
            None => self.write_mapping(request.allocation, range, request.offset, protection),
        };
        if let Err(error) = written {
            // Some entries may be valid already.
            let process = self.process_id;
            self.give_up(Resource::GpuVa { process, range, paged: paged.is_some() });
            return Err(error);
        }
        let MapGpuVirtualAddress { allocation, offset, .. } = request;
        let fixed = paged.is_none();
        let taken = Taken { length: range.length, reserved: false, fixed, mappings: 1 };
        self.process()?.gpu_va.set_taken(range.start, taken);
        let mapping = GuestMapping { length: range.length, allocation, offset, protection };
        self.insert_mapping(range.start, mapping)?;
        Ok(Answer::AfterPaging(MapGpuVirtualAddressReply { gpu_va: range.start }))
    }

    /// Records a mapping, and makes VidMm map it if its allocation is paged.
    fn insert_mapping(&mut self, start: u64, mapping: GuestMapping) -> Result<(), RequestError> {
        let space = self.process()?.space();
        self.process()?.gpu_va.insert_mapping(start, mapping);
        let allocation = self.get_mut::<Allocation>(mapping.allocation)?;
        allocation.add_mapping(start);
        if let Some(id) = allocation.paged() {
            let mapping = step::Mapping {
                gpus: GpuSet::ALL,
                space,
                gpu_va: start,
                length: mapping.length,
                offset: mapping.offset,
                writable: mapping.protection.contains(Protection::WRITE),
                driver: allocation.driver(),
            };
            self.guest.vidmm.map(id, mapping)?;
        }
        Ok(())
    }

    /// Drops a mapping but keeps its addresses, and makes VidMm unmap it if its allocation is paged.
    fn forget_mapping(&mut self, start: u64) -> Result<Option<GuestMapping>, RequestError> {
        let process = self.process()?;
        let space = process.space();
        let Some(mapping) = process.gpu_va.forget_mapping(start) else { return Ok(None) };
        let allocation = self.get_mut::<Allocation>(mapping.allocation)?;
        allocation.remove_mapping(start);
        if let Some(id) = allocation.paged() {
            self.guest.vidmm.unmap(id, space, start)?;
        }
        Ok(Some(mapping))
    }

    /// Takes addresses for a mapping of the guest at `base`, or anywhere if `base` is 0.
    fn take_guest_va(&mut self, base: u64, length: u64) -> Result<PageRange, RequestError> {
        self.guest.quotas.charge(Limited::Mappings, 1)?;
        if let Err(error) = self.guest.quotas.charge(Limited::MappedBytes, length) {
            self.guest.quotas.refund(Limited::Mappings, 1);
            return Err(error);
        }
        let range = self.process()?.gpu_va.take_for_guest(base, length);
        range.ok_or_else(|| {
            self.guest.quotas.refund(Limited::Mappings, 1);
            self.guest.quotas.refund(Limited::MappedBytes, length);
            RequestError::ConflictingAddresses(base)
        })
    }

    /// `D3DKMTReserveGpuVirtualAddress`.
    pub(crate) fn reserve_gpu_virtual_address(
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
        self.process()?.gpu_va.set_taken(range.start, taken);
        Ok(Answer::Done(MapGpuVirtualAddressReply { gpu_va: range.start }))
    }

    /// `D3DKMTUpdateGpuVirtualAddress`.
    pub(crate) fn update_gpu_virtual_address(
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
                check_part((offset, size), state.size())?;
                Some(GuestMapping { length: size, allocation, offset, protection })
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
            let space = self.process()?.space();
            self.make_page_tables(space, part)?;
        }
        self.replace_mappings(part, new, (range, taken))?;
        Ok(Answer::AfterPaging(()))
    }

    /// Maps a part of a taken range to something else. The remaining parts of old mappings stay.
    fn replace_mappings(
        &mut self,
        part: PageRange,
        new: Option<GuestMapping>,
        (range, taken): (PageRange, Taken),
    ) -> Result<(), RequestError> {
        let gpu_va = &self.process()?.gpu_va;
        let end = part.start + part.length;
        let old = gpu_va.overlapping(part);
        let mut pieces: Vec<(u64, GuestMapping)> = Vec::with_capacity(3);
        for start in &old {
            let Some(mapping) = gpu_va.mapping_at(*start) else { continue };
            let before = part.start.saturating_sub(*start);
            if before > 0 {
                pieces.push((*start, GuestMapping { length: before, ..mapping }));
            }
            let after = (start + mapping.length).saturating_sub(end);
            if after > 0 {
                let offset = mapping.offset + (mapping.length - after);
                pieces.push((end, GuestMapping { length: after, offset, ..mapping }));
            }
        }
        let is_split = !pieces.is_empty();
        pieces.extend(new.map(|mapping| (part.start, mapping)));
        let mappings = taken.mappings + pieces.len() as u64 - old.len() as u64;
        let (before, after) = (taken.charged(), Taken { mappings, ..taken }.charged());
        self.guest.quotas.charge(Limited::Mappings, after.saturating_sub(before))?;
        self.guest.quotas.refund(Limited::Mappings, before.saturating_sub(after));
        self.process()?.gpu_va.set_taken(range.start, Taken { mappings, ..taken });
        if is_split {
            // The remaining parts are mapped anew, because large pages may have to become small ones.
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

    /// `D3DKMTFreeGpuVirtualAddress`.
    pub(crate) fn free_gpu_virtual_address(
        &mut self,
        request: FreeGpuVirtualAddress,
    ) -> Handled<()> {
        let FreeGpuVirtualAddress { gpu_va: start, size: length } = request;
        let gpu_va = &mut self.process()?.gpu_va;
        let range = PageRange { start, length };
        let conflict = RequestError::ConflictingAddresses(start);
        let taken = gpu_va.forget_taken(range).ok_or(conflict)?;
        for start in gpu_va.overlapping(range) {
            self.forget_mapping(start)?;
        }
        self.guest.quotas.refund(Limited::Mappings, taken.charged() - 1);
        let process = self.process_id;
        self.give_up(Resource::GpuVa { process, range, paged: !taken.fixed });
        Ok(Answer::AfterQuiesce)
    }
}

/// Refuses an offset or a size that does not name whole pages of an allocation of `length` bytes.
fn check_part((offset, size): (u64, u64), length: u64) -> Result<(), RequestError> {
    if !offset.is_multiple_of(PAGE_SIZE) || offset >= length {
        return Err(RequestError::parameter("offset", offset));
    }
    if !is_whole_pages(size) || size > length - offset {
        return Err(RequestError::parameter("size", size));
    }
    Ok(())
}

/// Refuses a base or a size that does not name addresses of the guest. Base 0 means anywhere.
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
