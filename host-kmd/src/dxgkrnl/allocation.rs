//! Allocations: memory that a device's queues can work on.

use super::context::Context;
use super::device::Device;
use super::error::RequestError;
use super::pool::{PageRange, is_whole_pages};
use super::request::{Answer, Handled, zero};
use super::retire::Resource;
use super::scope::Scope;
use crate::ddi::paging::AllocationId;
use crate::hardware::{DriverProtection, GuestId, Hardware, Segment};
use crate::vidmm::Description;
use crate::vidmm::segment::Memory;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CloseAllocation, CreateAllocation, CreateAllocationReply,
    DestroyAllocation, Extent, NOT_IN_BAR, OpenAllocation, SegmentSet,
};
use bellhop_protocol::control::gpu_va::Protection;
use std::collections::BTreeSet;

/// An allocation.
#[derive(Debug)]
pub(super) struct Allocation {
    /// The devices that it is open on.
    pub(super) opened: BTreeSet<Handle>,
    /// Its size in bytes, a multiple of the page size and not 0.
    pub(super) size: u64,
    /// How many doorbells' rings use it.
    pub(super) doorbells: u32,
    /// How many submissions that are not done list it, and contexts have it as command buffer.
    pub(super) users: u32,
    /// Where it is in the aperture, which submissions with physical addresses reach it through.
    pub(super) aperture: Option<PageRange>,
    /// Whether it is in the aperture as long as it is resident: it is accessed physically, and its own
    /// pages or the host's may be anywhere.
    pub(super) stays_in_aperture: bool,
    /// First bytes of the guest's mappings of it.
    pub(super) mappings: BTreeSet<u64>,
    /// The host's mappings of it, for rings.
    pub(super) host_mappings: Vec<HostMapping>,
    /// Whether page tables lead to it as far as it is not paged: see `residency`.
    pub(super) resident: bool,
    /// What it is made of.
    pub(super) content: Content,
    /// What the driver adds to page-table entries that lead to it.
    pub(super) driver: DriverProtection,
    /// How many extents the guest's quota was charged for.
    extents: u64,
}

/// What an allocation is made of.
#[derive(Debug)]
pub(super) enum Content {
    /// Memory that stays where it is. The range is the part of local memory that it takes.
    Fixed(Memory, Option<PageRange>),
    /// What VidMm knows by this name.
    Paged(AllocationId),
}

/// A mapping of an allocation's start that the host made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostMapping {
    /// Of what.
    pub(super) allocation: Handle,
    /// Where.
    pub(super) range: PageRange,
    /// What it allows.
    pub(super) protection: Protection,
}

impl Allocation {
    /// One that is open on a device, and not used yet.
    pub(super) fn new(
        device: Handle,
        size: u64,
        content: Content,
        driver: DriverProtection,
    ) -> Self {
        Self {
            opened: BTreeSet::from([device]),
            size,
            doorbells: 0,
            users: 0,
            aperture: None,
            stays_in_aperture: false,
            mappings: BTreeSet::new(),
            host_mappings: Vec::new(),
            resident: true,
            content,
            driver,
            extents: 0,
        }
    }

    /// What VidMm knows it by, if it is paged.
    pub(super) fn paged(&self) -> Option<AllocationId> {
        match self.content {
            Content::Fixed(..) => None,
            Content::Paged(id) => Some(id),
        }
    }

    /// In how many pieces its own pages are.
    pub(super) fn extent_count(&self) -> u64 {
        self.extents
    }

    /// What VidMm knows it by.
    pub(super) fn must_be_paged(&self) -> Result<AllocationId, RequestError> {
        self.paged().ok_or(RequestError::NotSupported("the allocation is not paged"))
    }

    /// Whether it may neither be evicted by its owner nor go.
    pub(super) fn is_in_use(&self) -> bool {
        self.doorbells > 0 || self.users > 0
    }
}

impl Scope<'_> {
    /// `D3DKMTCreateAllocation`.
    pub(super) fn create_allocation(
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
            AllocationKind::LOCAL => self.local_allocation(&request)?,
            AllocationKind::SYSTEM => (self.system_allocation(&request, extents)?, NOT_IN_BAR),
            AllocationKind::PAGED => (self.paged_allocation(&request, extents)?, NOT_IN_BAR),
            kind => return Err(RequestError::parameter("kind", kind.0.into())),
        };
        self.get_mut::<Device>(request.device)?.allocations.insert(allocation);
        Ok(Answer::AfterPaging(CreateAllocationReply { allocation, bar_offset }))
    }

    pub(super) fn local_allocation(
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
        // Another process of the guest may have had it before.
        let memory = self.guest.vidmm.zero_pinned(process, range);
        let content = Content::Fixed(memory, Some(range));
        let allocation = self.insert_allocation(request, content, 0);
        if allocation.is_err() {
            self.guest.vidmm.give_back_pinned(process, range);
        }
        let local_memory = self.guest.resources.bar.local_memory();
        Ok((allocation?, local_memory.saturating_add(range.start)))
    }

    fn system_allocation(
        &mut self,
        request: &CreateAllocation,
        extents: Vec<Extent>,
    ) -> Result<Handle, RequestError> {
        let (memory, count) = self.own_memory(request.size, extents)?;
        self.insert_allocation(request, Content::Fixed(memory, None), count)
            .inspect_err(|_| self.guest.quotas.extents.refund(count))
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
        let id = self.guest.vidmm.create(description);
        let inserted = self.insert_allocation(request, Content::Paged(id), count);
        let handle = inserted.inspect_err(|_| {
            self.guest.quotas.extents.refund(count);
            // It was just made.
            let _ = self.guest.vidmm.destroy(id);
        })?;
        if request.flags & AllocationFlags::SHARED.bits() != 0 {
            self.guest.shared_allocations.insert(id, self.process_id, handle);
        }
        Ok(handle)
    }

    /// What a paged allocation is to VidMm, once segments and flags go together.
    fn describe(
        &mut self,
        request: &CreateAllocation,
        is_own: bool,
    ) -> Result<Description, RequestError> {
        let CreateAllocation { supported_segments, preferred_segment, eviction_segments, .. } =
            *request;
        let wrong = |field, value: u32| RequestError::parameter(field, value.into());
        // A guest could not be told when its own pages are its own again, nor the driver of one place in the
        // aperture where each process has another.
        let alone = AllocationFlags::SHARED | AllocationFlags::ACCESSED_PHYSICALLY;
        let flags = AllocationFlags::from_bits(request.flags)
            .filter(|flags| !flags.contains(alone))
            .filter(|flags| !is_own || !flags.contains(AllocationFlags::SHARED))
            .ok_or(wrong("flags", request.flags))?;
        let cpu_visible = flags.contains(AllocationFlags::CPU_VISIBLE);
        let supported = SegmentSet::from_bits(supported_segments)
            .filter(|set| !set.is_empty())
            .filter(|set| !is_own || set.contains(SegmentSet::SYSTEM))
            .filter(|set| !cpu_visible || is_own || set.contains(SegmentSet::LOCAL))
            .ok_or(wrong("supported_segments", supported_segments))?;
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

    /// Memory of the guest's own, charged for; the second is what was charged.
    fn own_memory(
        &mut self,
        size: u64,
        extents: Vec<Extent>,
    ) -> Result<(Memory, u64), RequestError> {
        if total_length(self.hardware, self.guest_id, &extents)? != size {
            return Err(RequestError::parameter("size", size));
        }
        let count = extents.len() as u64;
        self.guest.quotas.extents.charge(count)?;
        Ok((Memory { segment: Segment::System, extents: extents.into() }, count))
    }

    fn insert_allocation(
        &mut self,
        request: &CreateAllocation,
        content: Content,
        extents: u64,
    ) -> Result<Handle, RequestError> {
        let stays_in_aperture = is_accessed_physically(request)
            && request.supported_segments & SegmentSet::SYSTEM.bits() != 0;
        let driver = self.miniport.driver_protection(request.private_data);
        let allocation = Allocation::new(request.device, request.size, content, driver);
        self.insert(Allocation { stays_in_aperture, extents, ..allocation })
    }

    /// The memory of an allocation that is not paged, or that is locked or resident.
    pub(super) fn memory(&self, handle: Handle) -> Result<Memory, RequestError> {
        match &self.get::<Allocation>(handle)?.content {
            Content::Fixed(memory, _) => Ok(memory.clone()),
            Content::Paged(id) => Ok(self.guest.vidmm.memory(*id)?),
        }
    }

    /// Refuses an allocation that may neither be evicted by its owner nor go.
    pub(super) fn check_not_in_use(&mut self, handle: Handle) -> Result<(), RequestError> {
        let allocation = self.get::<Allocation>(handle)?;
        if allocation.users > 0 {
            // The guest may have seen that a submission is done before its interrupt comes here.
            let devices = allocation.opened.iter().filter_map(|device| self.get(*device).ok());
            let contexts = devices.flat_map(|device: &Device| device.contexts.iter().copied());
            for context in contexts.collect::<Vec<_>>() {
                if let Some(submission) = self.get::<Context>(context)?.node_submission {
                    self.reap_submissions(submission.hw_queue)?;
                }
            }
        }
        match self.get::<Allocation>(handle)?.is_in_use() {
            true => Err(RequestError::AllocationBusy(handle)),
            false => Ok(()),
        }
    }

    /// `D3DKMTDestroyAllocation2`.
    pub(super) fn destroy_allocation(&mut self, request: DestroyAllocation) -> Handled<()> {
        self.check_not_in_use(request.allocation)?;
        self.remove_allocation(request.allocation)?;
        Ok(Answer::AfterQuiesce)
    }

    /// `D3DKMTOpenResource`.
    pub(super) fn open_allocation(&mut self, request: OpenAllocation) -> Handled<()> {
        self.get::<Device>(request.device)?;
        let allocation = self.get_mut::<Allocation>(request.allocation)?;
        if !allocation.opened.insert(request.device) {
            return Err(RequestError::parameter("device", request.device.0));
        }
        self.get_mut::<Device>(request.device)?.allocations.insert(request.allocation);
        Ok(Answer::Done(()))
    }

    /// `DxgkDdiCloseAllocation`.
    pub(super) fn close_allocation(&mut self, request: CloseAllocation) -> Handled<()> {
        self.get::<Device>(request.device)?;
        let allocation = self.get::<Allocation>(request.allocation)?;
        if !allocation.opened.contains(&request.device) {
            return Err(RequestError::parameter("device", request.device.0));
        }
        self.check_not_in_use(request.allocation)?;
        self.close(request.device, request.allocation)?;
        self.get_mut::<Device>(request.device)?.allocations.remove(&request.allocation);
        Ok(Answer::AfterQuiesce)
    }

    /// A device has an allocation open no more; the last one takes it with it.
    pub(super) fn close(&mut self, device: Handle, handle: Handle) -> Result<(), RequestError> {
        let allocation = self.get_mut::<Allocation>(handle)?;
        allocation.opened.remove(&device);
        let (is_last, paged) = (allocation.opened.is_empty(), allocation.paged());
        match paged {
            _ if is_last => self.remove_allocation(handle),
            Some(id) => Ok(self.guest.vidmm.close(self.process_id, device, id)?),
            None => Ok(()),
        }
    }

    /// Destroys an allocation and its mappings, whichever queue uses it; where other processes have it
    /// goes only what this one has.
    pub(super) fn remove_allocation(&mut self, handle: Handle) -> Result<(), RequestError> {
        let process = self.process_id;
        let allocation = self.remove::<Allocation>(handle)?;
        let is_paged = allocation.paged().is_some();
        if let Some(id) = allocation.paged() {
            match self.guest.shared_allocations.leave(id, process) {
                true => self.leave_shared_allocation(id, &allocation)?,
                false => self.guest.vidmm.destroy(id)?,
            }
        }
        for start in allocation.mappings {
            let (range, refund) = self.process()?.gpu_va.remove_mapping(start);
            self.guest.quotas.mappings.refund(refund);
            if let Some(range) = range {
                self.given_up.push(Resource::GpuVa { process, range, paged: is_paged });
            }
        }
        self.given_up.extend(allocation.aperture.map(Resource::Aperture));
        if let Content::Fixed(_, Some(range)) = allocation.content {
            self.given_up.push(Resource::LocalMemory { process, range });
        }
        self.guest.quotas.extents.refund(allocation.extents);
        for device in allocation.opened {
            // A device is gone already when it takes its allocations with it.
            if let Ok(device) = self.get_mut::<Device>(device) {
                device.allocations.remove(&handle);
            }
        }
        Ok(())
    }
}

/// Only a paged allocation has flags.
fn is_accessed_physically(request: &CreateAllocation) -> bool {
    request.flags & AllocationFlags::ACCESSED_PHYSICALLY.bits() != 0
}

/// How many bytes extents name together, once each is whole pages of the guest's own memory.
pub(super) fn total_length(
    hardware: &dyn Hardware,
    guest: GuestId,
    extents: &[Extent],
) -> Result<u64, RequestError> {
    let mut total = 0u64;
    for extent in extents {
        let Extent { address, length } = *extent;
        let is_guests = |length| {
            address.checked_add(length).is_some()
                && hardware.is_guest_memory(guest, address, length)
        };
        if !address.is_multiple_of(PAGE_SIZE) || !is_guests(PAGE_SIZE) {
            return Err(RequestError::parameter("an extent's address", address));
        }
        let wrong_length = RequestError::parameter("an extent's length", length);
        if !is_whole_pages(length) || !is_guests(length) {
            return Err(wrong_length);
        }
        total = total.checked_add(length).ok_or(wrong_length)?;
    }
    Ok(total)
}
