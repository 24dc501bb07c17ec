// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations from their creation to their end.

use crate::ddi::paging::{APERTURE_START, AllocationId};
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::memory::allocation::{Allocation, Content};
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::queue::context::Context;
use crate::hardware::DriverProtection;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{AllocationFlags, CreateAllocation, SegmentSet};

/// Whether a request has the flag `ACCESSED_PHYSICALLY`. Only paged allocations have flags.
pub(crate) fn is_accessed_physically(request: &CreateAllocation) -> bool {
    request.flags & AllocationFlags::ACCESSED_PHYSICALLY.bits() != 0
}

impl ProcessAccess<'_> {
    pub(crate) fn local_allocation(
        &mut self,
        request: &CreateAllocation,
    ) -> Result<(Handle, u64), RequestError> {
        if request.extent_count != 0 {
            let count = request.extent_count.into();
            return Err(RequestError::parameter("extent_count", count));
        }
        let process = self.process_id;
        let range = self
            .guest
            .vidmm
            .take_pinned(process, request.size)?
            .ok_or(RequestError::NoVideoMemory(request.size))?;
        // Another process of the guest may have had this memory.
        let memory = self.guest.vidmm.zero_pinned(process, range);
        let content = Content::Fixed(memory, Some(range));
        let allocation = self.insert_allocation(request, content, 0);
        if allocation.is_err() {
            self.guest.vidmm.give_back_pinned(process, range);
        }
        let local_memory = self.guest.resources.bar.local_memory();
        Ok((allocation?, local_memory.saturating_add(range.start)))
    }

    pub(crate) fn insert_allocation(
        &mut self,
        request: &CreateAllocation,
        content: Content,
        extents: u64,
    ) -> Result<Handle, RequestError> {
        let stays_in_aperture = is_accessed_physically(request)
            && request.supported_segments & SegmentSet::SYSTEM.bits() != 0;
        let driver = self.miniport.driver_protection(request.private_data);
        let protected = request.flags & AllocationFlags::PROTECTED.bits() != 0;
        let driver = DriverProtection { protected, ..driver };
        let allocation = Allocation::new(request.device, request.size, content, driver);
        let is_primary = request.flags & AllocationFlags::PRIMARY.bits() != 0;
        let allocation = allocation.with_pages(stays_in_aperture, extents);
        self.insert(allocation.for_displays(is_primary))
    }

    /// Refuses an allocation in use, which its owner may neither evict nor destroy.
    pub(crate) fn check_not_in_use(&mut self, handle: Handle) -> Result<(), RequestError> {
        let allocation = self.get::<Allocation>(handle)?;
        if allocation.has_users() {
            // The guest may know of a finished submission before its interrupt arrives.
            let devices = allocation.devices().filter_map(|device| self.get(device).ok());
            let contexts = devices.flat_map(|device: &Device| device.contexts().iter().copied());
            for context in contexts.collect::<Vec<_>>() {
                if let Some(submission) = self.get::<Context>(context)?.node_submission() {
                    self.reap_submissions(submission.hw_queue())?;
                }
            }
        }
        if self.get::<Allocation>(handle)?.is_in_use() {
            Err(RequestError::AllocationBusy(handle))
        } else {
            Ok(())
        }
    }

    /// Opens an allocation on a further device.
    pub(crate) fn open_on(&mut self, device: Handle, handle: Handle) -> Result<(), RequestError> {
        self.get::<Device>(device)?;
        if !self.get_mut::<Allocation>(handle)?.open_on(device) {
            return Err(RequestError::parameter("device", device.0));
        }
        self.get_mut::<Device>(device)?.add_allocation(handle);
        Ok(())
    }

    /// Closes an allocation on a device. Closing it on its last device destroys it.
    pub(crate) fn close(&mut self, device: Handle, handle: Handle) -> Result<(), RequestError> {
        let allocation = self.get_mut::<Allocation>(handle)?;
        let (is_last, paged) = (allocation.close_on(device), allocation.paged());
        match paged {
            _ if is_last => self.remove_allocation(handle),
            Some(id) => Ok(self.guest.vidmm.close(self.process_id, device, id)?),
            None => Ok(()),
        }
    }

    /// Destroys an allocation and its mappings, even if a queue uses it. If other processes have the allocation, only
    /// this process's part goes.
    pub(crate) fn remove_allocation(&mut self, handle: Handle) -> Result<(), RequestError> {
        let process = self.process_id;
        let allocation = self.remove::<Allocation>(handle)?;
        let is_paged = allocation.paged().is_some();
        if let Some(id) = allocation.paged() {
            if self.guest.shared_allocations.leave(id, process) {
                self.leave_shared_allocation(id, &allocation)?
            } else {
                self.guest.vidmm.destroy(id)?
            }
        }
        for start in allocation.mappings() {
            let (range, refund) = self.process()?.gpu_va.remove_mapping(start);
            self.guest.quotas.refund(Limited::Mappings, refund);
            if let Some(range) = range {
                self.give_up(Resource::GpuVa { process, range, paged: is_paged });
            }
        }
        self.give_up_all(allocation.aperture().map(Resource::Aperture));
        if let Content::Fixed(_, Some(range)) = *allocation.content() {
            self.give_up(Resource::LocalMemory { process, range });
        }
        self.guest.quotas.refund(Limited::Extents, allocation.extent_count());
        for device in allocation.devices() {
            // A device that is destroyed with its allocations is already gone.
            if let Ok(device) = self.get_mut::<Device>(device) {
                device.remove_allocation(handle);
            }
        }
        Ok(())
    }

    /// The process closes an allocation that others have: its own mappings go, the bytes stay.
    fn leave_shared_allocation(
        &mut self,
        id: AllocationId,
        allocation: &Allocation,
    ) -> Result<(), RequestError> {
        let space = self.process()?.space();
        for start in allocation.mappings() {
            self.guest.vidmm.unmap(id, space, start)?;
        }
        if let Some(range) = allocation.aperture() {
            let system = self.guest.system()?.address_space;
            self.guest.vidmm.unmap(id, system, APERTURE_START + range.start)?;
        }
        Ok(self.guest.vidmm.leave_to_others(self.process_id, id)?)
    }
}
