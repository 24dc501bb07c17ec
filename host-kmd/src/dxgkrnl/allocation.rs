//! Allocations: memory that a device's queues can work on.

use super::context::Context;
use super::device::Device;
use super::error::RequestError;
use super::pool::{PageRange, is_whole_pages};
use super::request::{Answer, Handled};
use super::retire::Resource;
use super::scope::Scope;
use crate::hardware::{GuestId, Hardware, PhysicalPage, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationKind, CreateAllocation, CreateAllocationReply, DestroyAllocation, Extent, NOT_IN_BAR,
};
use bellhop_protocol::control::gpu_va::Protection;
use std::collections::BTreeSet;

/// An allocation.
#[derive(Debug)]
pub(super) struct Allocation {
    /// The device that it goes with.
    pub(super) device: Handle,
    /// Its size in bytes, a multiple of the page size and not 0.
    pub(super) size: u64,
    /// How many doorbells' rings use it.
    pub(super) doorbells: u32,
    /// How many submissions that are not done list it, and contexts have it as command buffer.
    pub(super) users: u32,
    /// Where it is in the aperture, which submissions with physical addresses reach it through.
    pub(super) aperture: Option<PageRange>,
    /// First bytes of the guest's mappings of it.
    pub(super) mappings: BTreeSet<u64>,
    /// The host's mappings of it, for rings.
    pub(super) host_mappings: Vec<HostMapping>,
    /// Whether page tables lead to it: see `residency`.
    pub(super) resident: bool,
    segment: Segment,
    /// The part of local memory that it takes.
    local_memory: Option<PageRange>,
    /// Where its bytes are, in order; checked, and as long together as it is.
    extents: Vec<Extent>,
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
    /// Which memory it is in.
    pub(super) fn segment(&self) -> Segment {
        self.segment
    }

    /// In how many pieces it is.
    pub(super) fn extent_count(&self) -> usize {
        self.extents.len()
    }

    fn is_in_use(&self) -> bool {
        self.doorbells > 0 || self.users > 0
    }

    /// The pages of `length` bytes from `offset`.
    pub(super) fn pages(
        &self,
        offset: u64,
        length: u64,
    ) -> impl Iterator<Item = PhysicalPage> + use<'_> {
        let (mut skip, mut left) = (offset, length);
        let segment = self.segment;
        self.extents
            .iter()
            .flat_map(move |extent| {
                let skipped = skip.min(extent.length);
                let taken = left.min(extent.length - skipped);
                (skip, left) = (skip - skipped, left - taken);
                (skipped..skipped + taken)
                    .step_by(PAGE_SIZE as usize)
                    .map(|offset| extent.address + offset)
            })
            .map(move |address| PhysicalPage { segment, address })
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
        let (allocation, bar_offset) = match request.kind {
            AllocationKind::LOCAL => self.local_allocation(&request)?,
            AllocationKind::SYSTEM => (self.system_allocation(&request, extents)?, NOT_IN_BAR),
            kind => return Err(RequestError::parameter("kind", kind.0.into())),
        };
        self.get_mut::<Device>(request.device)?.allocations.insert(allocation);
        Ok(Answer::Done(CreateAllocationReply { allocation, bar_offset }))
    }

    pub(super) fn local_allocation(
        &mut self,
        request: &CreateAllocation,
    ) -> Result<(Handle, u64), RequestError> {
        if request.extent_count != 0 {
            let count = request.extent_count.into();
            return Err(RequestError::parameter("extent_count", count));
        }
        let range = self
            .guest
            .local_memory
            .take(request.size)
            .ok_or(RequestError::NoVideoMemory(request.size))?;
        // Another process of the guest may have had it before.
        let (segment, extents) = match self.guest.donations.local_memory(range) {
            Some(extents) => {
                for Extent { address, length } in &extents {
                    self.hardware.zero_guest_memory(self.guest_id, *address, *length);
                }
                (Segment::System, extents)
            }
            None => {
                self.hardware.zero_memory(self.guest_id, Segment::Local, range.start, range.length);
                (Segment::Local, vec![Extent { address: range.start, length: range.length }])
            }
        };
        let allocation = self.insert_allocation(request, segment, Some(range), extents);
        if allocation.is_err() {
            self.guest.local_memory.give_back(range);
        }
        let local_memory = self.guest.resources.bar.local_memory();
        Ok((allocation?, local_memory.saturating_add(range.start)))
    }

    fn system_allocation(
        &mut self,
        request: &CreateAllocation,
        extents: Vec<Extent>,
    ) -> Result<Handle, RequestError> {
        if total_length(self.hardware, self.guest_id, &extents)? != request.size {
            return Err(RequestError::parameter("size", request.size));
        }
        let count = extents.len() as u64;
        self.guest.quotas.extents.charge(count)?;
        self.insert_allocation(request, Segment::System, None, extents)
            .inspect_err(|_| self.guest.quotas.extents.refund(count))
    }

    fn insert_allocation(
        &mut self,
        request: &CreateAllocation,
        segment: Segment,
        local_memory: Option<PageRange>,
        extents: Vec<Extent>,
    ) -> Result<Handle, RequestError> {
        self.insert(Allocation {
            device: request.device,
            size: request.size,
            doorbells: 0,
            users: 0,
            aperture: None,
            mappings: BTreeSet::new(),
            host_mappings: Vec::new(),
            resident: true,
            segment,
            local_memory,
            extents,
        })
    }

    /// Refuses an allocation that may neither be evicted by its owner nor go.
    pub(super) fn check_not_in_use(&mut self, handle: Handle) -> Result<(), RequestError> {
        let allocation = self.get::<Allocation>(handle)?;
        if allocation.users > 0 {
            // The guest may have seen that a submission is done before its interrupt comes here.
            let device = allocation.device;
            for context in self.get::<Device>(device)?.contexts.clone() {
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

    /// Destroys an allocation and its mappings, whoever uses it.
    pub(super) fn remove_allocation(&mut self, handle: Handle) -> Result<(), RequestError> {
        let process = self.process_id;
        let allocation = self.remove::<Allocation>(handle)?;
        for start in allocation.mappings {
            if let Some(range) = self.process()?.gpu_va.remove_mapping(start) {
                self.given_up.push(Resource::GpuVa { process, range });
            }
        }
        self.given_up.extend(allocation.aperture.map(Resource::Aperture));
        match allocation.local_memory {
            Some(range) => self.given_up.push(Resource::LocalMemory(range)),
            None => self.guest.quotas.extents.refund(allocation.extents.len() as u64),
        }
        // The device is gone already when it takes its allocations with it.
        if let Ok(device) = self.get_mut::<Device>(allocation.device) {
            device.allocations.remove(&handle);
        }
        Ok(())
    }
}

/// How many bytes extents name together, once each is whole pages of the guest's own memory.
pub(super) fn total_length(
    hardware: &dyn Hardware,
    guest: GuestId,
    extents: &[Extent],
) -> Result<u64, RequestError> {
    let mut total = 0u64;
    for extent in extents {
        let end = extent.address.checked_add(extent.length);
        if !extent.address.is_multiple_of(PAGE_SIZE)
            || !is_whole_pages(extent.length)
            || end.is_none()
            || !hardware.is_guest_memory(guest, extent.address, extent.length)
        {
            return Err(RequestError::parameter("an extent", extent.address));
        }
        total = total
            .checked_add(extent.length)
            .ok_or(RequestError::parameter("an extent's length", extent.length))?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_pages_of_a_part_are_that_part_of_all_pages(
            lengths in proptest::collection::vec(1..5u64, 1..6),
            from in 0..20usize,
            count in 0..20usize,
        ) {
            let extents: Vec<_> = lengths
                .iter()
                .enumerate()
                .map(|(index, pages)| Extent {
                    address: (10 - index as u64) << 20,
                    length: pages * PAGE_SIZE,
                })
                .collect();
            let expected: Vec<_> = extents
                .iter()
                .flat_map(|extent| (0..extent.length / PAGE_SIZE).map(move |page| {
                    extent.address + page * PAGE_SIZE
                }))
                .collect();
            let allocation = Allocation {
                device: Handle(1),
                size: lengths.iter().sum::<u64>() * PAGE_SIZE,
                doorbells: 0,
                users: 0,
                aperture: None,
                mappings: BTreeSet::new(),
                host_mappings: Vec::new(),
                resident: true,
                segment: Segment::System,
                local_memory: None,
                extents,
            };
            let pages: Vec<_> = allocation
                .pages(from as u64 * PAGE_SIZE, count as u64 * PAGE_SIZE)
                .map(|page| page.address)
                .collect();
            let expected: Vec<_> = expected.into_iter().skip(from).take(count).collect();
            prop_assert_eq!(pages, expected);
        }
    }
}
