// SPDX-License-Identifier: MIT OR Apache-2.0

//! Residency: whether the GPU reaches an allocation, and whether a CPU does.
//!
//! VidMm decides for paged allocations, and `paging` carries the decisions out. A fixed allocation that is evicted
//! keeps its bytes, its GPU virtual addresses and its place in the BAR: the CPU still reaches it, as the reference
//! requires for rings. It loses all page-table entries that map it.
//!
//! Source: user-mode work submission, "Residency model of doorbell memory and ring buffer allocations"
//! and "Engine D-state transitions"; "Memory Manager" of the Windows KMD overview.

use crate::dxgkrnl::doorbell::object::Doorbell;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::memory::allocation::{Allocation, Content};
use crate::dxgkrnl::memory::page_tables::invalidate_entries;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::vidmm::pool::PageRange;
use crate::vidmm::segment::{LocalSegment, Place};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    Evict, Lock, LockReply, MAX_RESIDENCY_LIST, MakeResident, NOT_IN_BAR, QueryVideoMemoryInfo,
    SegmentSet, SetAllocationPriority, Unlock, VideoMemoryInfo,
};

impl ProcessAccess<'_> {
    /// `D3DKMTMakeResident`.
    pub(crate) fn make_resident(
        &mut self,
        request: MakeResident,
        list: Vec<Handle>,
    ) -> Handled<()> {
        zero("reserved", request.reserved)?;
        self.check_residency_list(request.device, request.count, &list)?;
        self.make_list_resident(request.device, request.device, &list)?;
        Ok(Answer::AfterPaging(()))
    }

    /// Makes a device's allocations resident, all or none. `wants` is the device or context that wants them.
    pub(crate) fn make_list_resident(
        &mut self,
        wants: Handle,
        device: Handle,
        list: &[Handle],
    ) -> Result<(), RequestError> {
        let mut made = Vec::new();
        let mut result = Ok(());
        for handle in list {
            if self.paged(*handle).is_none() && !self.get::<Allocation>(*handle)?.is_resident() {
                result = self.make_allocation_resident(*handle);
                if result.is_err() {
                    break;
                }
                made.push(*handle);
            }
        }
        let result = result.and_then(|()| self.make_paged_resident(wants, device, list));
        if result.is_err() {
            for handle in made {
                self.evict_allocation(handle)?;
            }
        }
        result
    }

    /// `D3DKMTEvict`: all or none.
    pub(crate) fn evict(&mut self, request: Evict, list: Vec<Handle>) -> Handled<()> {
        zero("reserved", request.reserved)?;
        self.check_residency_list(request.device, request.count, &list)?;
        for handle in &list {
            self.check_not_in_use(*handle)?;
        }
        let paged: Vec<_> = list.iter().filter_map(|handle| self.paged(*handle)).collect();
        self.guest.vidmm.check_evict(self.process_id, request.device, &paged)?;
        for handle in list {
            match self.paged(handle) {
                Some(id) => self.guest.vidmm.evict(self.process_id, request.device, id)?,
                None => self.evict_allocation(handle)?,
            }
            if !self.must_stay_in_aperture(handle)? {
                self.take_out_of_aperture(handle)?;
            }
        }
        Ok(Answer::AfterQuiesce)
    }

    /// Makes the paged allocations of a list resident.
    fn make_paged_resident(
        &mut self,
        wants: Handle,
        device: Handle,
        list: &[Handle],
    ) -> Result<(), RequestError> {
        let mut placed = Vec::new();
        let made = self.place_in_aperture(device, list, &mut placed).and_then(|()| {
            let paged: Vec<_> = list.iter().filter_map(|handle| self.paged(*handle)).collect();
            Ok(self.guest.vidmm.make_resident(self.process_id, wants, &paged)?)
        });
        if made.is_err() {
            for handle in placed {
                self.take_out_of_aperture(handle)?;
            }
        }
        made
    }

    /// Gives allocations that stay in the aperture their place before they are resident, so that a move to system
    /// memory cannot fail for lack of one. In local memory they are contiguous anyway.
    fn place_in_aperture(
        &mut self,
        device: Handle,
        list: &[Handle],
        placed: &mut Vec<Handle>,
    ) -> Result<(), RequestError> {
        for handle in list {
            let allocation = self.get::<Allocation>(*handle)?;
            let size = allocation.size();
            if !allocation.stays_in_aperture() || allocation.aperture().is_some() {
                continue;
            }
            if size > self.guest.aperture.length() {
                return Err(RequestError::NoVideoMemory(size));
            }
            self.physical_address(device, *handle)?;
            placed.push(*handle);
        }
        Ok(())
    }

    /// Whether an allocation must keep its place in the aperture: the driver knows the place, or submissions use it.
    pub(crate) fn must_stay_in_aperture(&self, handle: Handle) -> Result<bool, RequestError> {
        let allocation = self.get::<Allocation>(handle)?;
        let is_present = allocation.paged().is_some_and(|id| self.guest.vidmm.is_present(id));
        Ok(allocation.has_users() || allocation.stays_in_aperture() && is_present)
    }

    /// Refuses a list that names an allocation not open on the device.
    fn check_residency_list(
        &self,
        device: Handle,
        count: u32,
        list: &[Handle],
    ) -> Result<(), RequestError> {
        self.get::<Device>(device)?;
        if !(1..=MAX_RESIDENCY_LIST).contains(&count) {
            return Err(RequestError::parameter("count", count.into()));
        }
        for handle in list {
            if !self.get::<Allocation>(*handle)?.is_open_on(device) {
                return Err(RequestError::parameter("an allocation of another device", handle.0));
            }
        }
        Ok(())
    }

    fn paged(&self, handle: Handle) -> Option<crate::ddi::paging::AllocationId> {
        self.get::<Allocation>(handle).ok()?.paged()
    }

    /// `D3DKMTLock2`.
    pub(crate) fn lock(&mut self, request: Lock) -> Handled<LockReply> {
        let local_memory = self.guest.resources.bar.local_memory();
        let place = match self.get::<Allocation>(request.allocation)?.content() {
            Content::Fixed(_, Some(range)) => Place::Local(LocalSegment::Visible, *range),
            Content::Fixed(_, None) => Place::Home,
            Content::Paged(id) => {
                let id = *id;
                self.guest.vidmm.lock(self.process_id, id)?
            }
        };
        let bar_offset = match place {
            Place::Local(_, range) => local_memory.saturating_add(range.start),
            Place::Home | Place::Nowhere => NOT_IN_BAR,
        };
        Ok(Answer::AfterPaging(LockReply { bar_offset }))
    }

    /// `D3DKMTUnlock2`.
    pub(crate) fn unlock(&mut self, request: Unlock) -> Handled<()> {
        if self.get::<Allocation>(request.allocation)?.doorbells() > 0 {
            return Err(RequestError::AllocationBusy(request.allocation));
        }
        if let Some(id) = self.paged(request.allocation) {
            self.guest.vidmm.unlock(self.process_id, id)?;
        }
        Ok(Answer::Done(()))
    }

    /// `D3DKMTSetAllocationPriority`.
    pub(crate) fn set_allocation_priority(
        &mut self,
        request: SetAllocationPriority,
    ) -> Handled<()> {
        zero("reserved", request.reserved)?;
        let id = self.get::<Allocation>(request.allocation)?.must_be_paged()?;
        self.guest.vidmm.set_priority(id, request.priority)?;
        Ok(Answer::Done(()))
    }

    /// `D3DKMTQueryVideoMemoryInfo`.
    pub(crate) fn query_video_memory_info(
        &mut self,
        request: QueryVideoMemoryInfo,
    ) -> Handled<VideoMemoryInfo> {
        let gpu = self.gpu("gpu", request.gpu)?;
        if request.segment != SegmentSet::PRIVATE.bits() {
            zero("gpu", request.gpu)?;
        }
        let vidmm = &self.guest.vidmm;
        let info = match SegmentSet::from_bits_retain(request.segment) {
            SegmentSet::LOCAL => vidmm.info(self.process_id, LocalSegment::Visible),
            SegmentSet::PRIVATE => vidmm.info(self.process_id, LocalSegment::Private(gpu)),
            SegmentSet::SYSTEM => vidmm.backing_info(self.process_id),
            _ => return Err(RequestError::parameter("segment", request.segment.into())),
        };
        let (size, budget, usage) = (info.size, info.budget, info.usage);
        Ok(Answer::Done(VideoMemoryInfo { size, budget, usage }))
    }

    /// Evicts a queue's ring, if it has one, because the device is about to lose its power.
    pub(crate) fn evict_ring(&mut self, queue: Handle) -> Result<(), RequestError> {
        self.each_ring_allocation(queue, Self::evict_allocation)
    }

    /// Makes a queue's ring resident, if it has one.
    pub(crate) fn make_ring_resident(&mut self, queue: Handle) -> Result<(), RequestError> {
        self.each_ring_allocation(queue, Self::make_allocation_resident)
    }

    fn each_ring_allocation(
        &mut self,
        queue: Handle,
        act: impl Fn(&mut Self, Handle) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        let Some(doorbell) = self.get::<HwQueue>(queue)?.doorbell() else { return Ok(()) };
        // The doorbell may be destroyed already, while engines have not forgotten it.
        let Ok(doorbell) = self.get::<Doorbell>(doorbell) else { return Ok(()) };
        for allocation in doorbell.allocations() {
            act(self, allocation)?;
        }
        Ok(())
    }

    /// The guest's mappings of an allocation that dxgkrnl writes itself. VidMm writes those of a paged allocation.
    fn own_mappings(&mut self, handle: Handle) -> Result<Vec<u64>, RequestError> {
        let allocation = self.get::<Allocation>(handle)?;
        Ok(match allocation.paged() {
            Some(_) => Vec::new(),
            None => allocation.mappings().collect(),
        })
    }

    /// Invalidates the page-table entries of an allocation. Engines have forgotten them once a later ticket has
    /// passed.
    fn evict_allocation(&mut self, handle: Handle) -> Result<(), RequestError> {
        let space = self.process()?.space();
        let allocation = self.get_mut::<Allocation>(handle)?;
        if !allocation.set_resident(false) {
            return Ok(());
        }
        let mut ranges: Vec<PageRange> =
            allocation.host_mappings().iter().map(|mapping| mapping.range).collect();
        let starts = self.own_mappings(handle)?;
        let gpu_va = &self.process()?.gpu_va;
        ranges.extend(starts.into_iter().filter_map(|start| gpu_va.mapped_range(start)));
        for range in ranges {
            invalidate_entries(self.miniport, space, range);
        }
        Ok(())
    }

    /// Writes the page-table entries of an allocation again, all or none.
    pub(crate) fn make_allocation_resident(&mut self, handle: Handle) -> Result<(), RequestError> {
        let allocation = self.get_mut::<Allocation>(handle)?;
        if allocation.set_resident(true) {
            return Ok(());
        }
        let written = self.write_own_mappings(handle);
        if written.is_err() {
            self.evict_allocation(handle)?;
        }
        written
    }

    fn write_own_mappings(&mut self, handle: Handle) -> Result<(), RequestError> {
        let host_mappings = self.get::<Allocation>(handle)?.host_mappings().to_vec();
        let starts = self.own_mappings(handle)?;
        for mapping in host_mappings {
            self.write_mapping(handle, mapping.range, 0, mapping.protection)?;
        }
        for start in starts {
            let Some((range, offset, protection)) = self.process()?.gpu_va.mapping(start) else {
                continue;
            };
            self.write_mapping(handle, range, offset, protection)?;
        }
        Ok(())
    }
}
