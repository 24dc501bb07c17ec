// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about allocations: memory that a device's queues can use.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::memory::allocations::is_accessed_physically;
use crate::dxgkrnl::kernel::actions::nodes;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::memory::allocation::{Allocation, Content, total_length};
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::hardware::{GpuOrdinal, Segment};
use crate::vidmm::allocation::Description;
use crate::vidmm::pool::is_whole_pages;
use crate::vidmm::segment::Memory;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    ALLOCATION_GPU_SHIFT, AllocationFlags, AllocationKind, CloseAllocation, CreateAllocation,
    CreateAllocationReply, DestroyAllocation, Extent, NOT_IN_BAR, OpenAllocation, SegmentSet,
};

/// Why a process with a BAR of its own is refused memory for its CPUs.
const NO_LOCAL: &str = "local memory that CPUs access, in a process with a BAR of its own: give the guest's own pages and \
                        SYSTEM alone";

impl ProcessAccess<'_> {
    /// `D3DKMTCreateAllocation`.
    pub(crate) fn create_allocation(
        &mut self,
        request: CreateAllocation,
        extents: Vec<Extent>,
    ) -> Handled<CreateAllocationReply> {
        self.get::<Device>(request.device)?;
        if !is_whole_pages(request.size) {
            return Err(RequestError::parameter("size", request.size));
        }
        if request.kind.name().is_none() {
            return Err(RequestError::parameter("kind", request.kind.0.into()));
        }
        if request.kind != AllocationKind::PAGED {
            zero("supported_segments", request.supported_segments)?;
            zero("preferred_segment", request.preferred_segment)?;
            zero("eviction_segments", request.eviction_segments)?;
            zero("flags", request.flags)?;
            zero("priority", request.priority)?;
            zero("private_data", request.private_data)?;
        }
        let (allocation, bar_offset) = match request.kind {
            AllocationKind::LOCAL => {
                self.check_without_own_bar(NO_LOCAL)?;
                self.local_allocation(&request)?
            }
            AllocationKind::SYSTEM => (self.system_allocation(&request, extents)?, NOT_IN_BAR),
            AllocationKind::PAGED => (self.paged_allocation(&request, extents)?, NOT_IN_BAR),
            kind => return Err(RequestError::parameter("kind", kind.0.into())),
        };
        self.get_mut::<Device>(request.device)?.add_allocation(allocation);
        Ok(Answer::AfterPaging(CreateAllocationReply { allocation, bar_offset }))
    }

    fn system_allocation(
        &mut self,
        request: &CreateAllocation,
        extents: Vec<Extent>,
    ) -> Result<Handle, RequestError> {
        let (memory, count) = self.own_memory(request.size, extents)?;
        self.insert_allocation(request, Content::Fixed(memory, None), count)
            .inspect_err(|_| self.guest.quotas.refund(Limited::Extents, count))
    }

    fn paged_allocation(
        &mut self,
        request: &CreateAllocation,
        extents: Vec<Extent>,
    ) -> Result<Handle, RequestError> {
        let mut description = self.describe(request, !extents.is_empty())?;
        let mut count = 0;
        if !extents.is_empty() {
            let (memory, charged) = self.own_memory(request.size, extents)?;
            (description.system, count) = (Some(memory), charged);
        }
        let is_mirrored = request.flags & AllocationFlags::LINKED_MIRRORED.bits() != 0;
        let id = if is_mirrored {
            self.guest.vidmm.create_mirrored(&description)
        } else {
            self.guest.vidmm.create(description)
        };
        let inserted = self.insert_allocation(request, Content::Paged(id), count);
        let handle = inserted.inspect_err(|_| {
            self.guest.quotas.refund(Limited::Extents, count);
            // The allocation exists: it was just created.
            let _ = self.guest.vidmm.destroy(id);
        })?;
        if request.flags & AllocationFlags::SHARED.bits() != 0 {
            self.guest.shared_allocations.insert(id, self.process_id, handle);
        }
        Ok(handle)
    }

    /// Describes a paged allocation for VidMm, if its segments and flags are compatible.
    fn describe(
        &mut self,
        request: &CreateAllocation,
        is_own: bool,
    ) -> Result<Description, RequestError> {
        let CreateAllocation { supported_segments, preferred_segment, eviction_segments, .. } =
            *request;
        let wrong = |field, value: u32| RequestError::parameter(field, value.into());
        // With SHARED, dxgkrnl could not tell the guest when its own pages are free again, nor the driver of the
        // place in the aperture, which differs between processes.
        let alone = AllocationFlags::SHARED | AllocationFlags::ACCESSED_PHYSICALLY;
        let (own, ordinal) = split_flags(request.flags);
        let gpu = nodes::gpu(self.platform, "flags", ordinal)
            .map_err(|_| wrong("flags", request.flags))?;
        self.guest.presence.check_gpu(gpu)?;
        let flags = AllocationFlags::from_bits(own)
            .filter(|flags| !flags.contains(alone))
            .filter(|flags| {
                // A CPU, a display and another process have one place to look at.
                let excluded = AllocationFlags::CPU_VISIBLE
                    | AllocationFlags::SHARED
                    | AllocationFlags::PRIMARY;
                !flags.contains(AllocationFlags::LINKED_MIRRORED)
                    || !flags.intersects(excluded) && !is_own && gpu == GpuOrdinal::MASTER
            })
            .filter(|flags| !is_own || !flags.contains(AllocationFlags::SHARED))
            .ok_or(wrong("flags", request.flags))?;
        let is_protected = flags.contains(AllocationFlags::PROTECTED);
        if is_protected {
            if !self.platform.security_caps().is_supported() {
                return Err(RequestError::NotSupported(
                    "protected allocations without a security node",
                ));
            }
            // Each other flag, its own pages and the driver's private format would show its bytes to a CPU, to a
            // viewer, or to an engine that asks no page table.
            let others = AllocationFlags::PROTECTED | AllocationFlags::SHARED;
            if is_own || !others.contains(flags) {
                return Err(wrong("flags", request.flags));
            }
            zero("private_data", request.private_data)?;
        }
        let is_primary = flags.contains(AllocationFlags::PRIMARY);
        if is_primary {
            nodes::display_ddi(self.miniport)?;
            // Scan-out reads raw pixels.
            zero("private_data", request.private_data)?;
        }
        let cpu_visible = flags.contains(AllocationFlags::CPU_VISIBLE);
        let supported = SegmentSet::from_bits(supported_segments)
            .filter(|set| !set.is_empty())
            .filter(|set| !is_own || set.contains(SegmentSet::SYSTEM))
            .filter(|set| !cpu_visible || is_own || set.contains(SegmentSet::LOCAL))
            .filter(|set| !is_primary || !set.contains(SegmentSet::SYSTEM))
            .filter(|set| {
                !is_protected
                    || set.contains(SegmentSet::PRIVATE) && !set.contains(SegmentSet::LOCAL)
            })
            .ok_or(wrong("supported_segments", supported_segments))?;
        if cpu_visible && (!is_own || supported != SegmentSet::SYSTEM) {
            self.check_without_own_bar(NO_LOCAL)?;
        }
        let preferred = SegmentSet::from_bits(preferred_segment)
            .filter(|set| supported.contains(*set) && set.bits().count_ones() <= 1)
            .ok_or(wrong("preferred_segment", preferred_segment))?;
        let eviction = SegmentSet::from_bits(eviction_segments)
            .filter(|set| (supported - SegmentSet::SYSTEM).contains(*set))
            .ok_or(wrong("eviction_segments", eviction_segments))?;
        let notifications = self.miniport.create_allocation(request.private_data)?;
        let has_io_mmu = self.miniport.virtual_addressing_model().has_io_mmu();
        Ok(Description {
            process: self.process_id,
            size: request.size,
            gpu,
            supported,
            preferred,
            eviction,
            keeps_copy: flags.contains(AllocationFlags::PERMANENT_SYSTEM_MEM),
            cpu_visible,
            accessed_physically: is_accessed_physically(request),
            priority: request.priority,
            notify_eviction: notifications.notify_eviction,
            notify_io_mmu_unmap: notifications.notify_io_mmu_unmap && has_io_mmu,
            system: None,
        })
    }

    /// Returns memory that the guest supplies, and the number of extents charged to its quota.
    fn own_memory(
        &mut self,
        size: u64,
        extents: Vec<Extent>,
    ) -> Result<(Memory, u64), RequestError> {
        if total_length(self.platform, self.guest_id, &extents)? != size {
            return Err(RequestError::parameter("size", size));
        }
        let count = extents.len() as u64;
        self.guest.quotas.charge(Limited::Extents, count)?;
        Ok((Memory { segment: Segment::System, extents: extents.into() }, count))
    }

    /// `D3DKMTDestroyAllocation2`.
    pub(crate) fn destroy_allocation(&mut self, request: DestroyAllocation) -> Handled<()> {
        self.check_not_in_use(request.allocation)?;
        if self.is_displayed(request.allocation) {
            let target = Target::Allocation(request.allocation);
            return Ok(Answer::Terminate(target, Manner::Normal));
        }
        self.remove_allocation(request.allocation)?;
        Ok(Answer::AfterQuiesce)
    }

    /// `D3DKMTOpenResource`.
    pub(crate) fn open_allocation(&mut self, request: OpenAllocation) -> Handled<()> {
        self.open_on(request.device, request.allocation)?;
        Ok(Answer::Done(()))
    }

    /// `DxgkDdiCloseAllocation`.
    pub(crate) fn close_allocation(&mut self, request: CloseAllocation) -> Handled<()> {
        self.get::<Device>(request.device)?;
        let allocation = self.get::<Allocation>(request.allocation)?;
        if !allocation.is_open_on(request.device) {
            return Err(RequestError::parameter("device", request.device.0));
        }
        self.check_not_in_use(request.allocation)?;
        let is_last = self.get::<Allocation>(request.allocation)?.devices().count() == 1;
        if is_last && self.is_displayed(request.allocation) {
            let target = Target::Allocation(request.allocation);
            return Ok(Answer::Terminate(target, Manner::Normal));
        }
        self.close(request.device, request.allocation)?;
        self.get_mut::<Device>(request.device)?.remove_allocation(request.allocation);
        Ok(Answer::AfterQuiesce)
    }
}

/// The flags of a request and the ordinal of its GPU.
fn split_flags(flags: u32) -> (u32, u32) {
    (flags & !(u32::MAX << ALLOCATION_GPU_SHIFT), flags >> ALLOCATION_GPU_SHIFT)
}
