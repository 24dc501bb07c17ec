// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about residency: whether the GPU reaches an allocation, and whether a CPU does.
//!
//! Source: user-mode work submission, "Residency model of doorbell memory and ring buffer allocations"
//! and "Engine D-state transitions"; "Memory Manager" of the Windows KMD overview.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::nodes;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::memory::allocation::{Allocation, Content};
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
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
        if matches!(place, Place::Local(..)) && self.process()?.bar().is_some() {
            if let Some(id) = self.paged(request.allocation) {
                self.guest.vidmm.unlock(self.process_id, id)?;
            }
            return Err(RequestError::NotSupported(
                "local memory that CPUs access, in a process with a BAR of its own",
            ));
        }
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
        let gpu = nodes::gpu(self.platform, "gpu", request.gpu)?;
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
}
