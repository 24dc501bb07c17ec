// SPDX-License-Identifier: MIT OR Apache-2.0

//! DMA buffers, and the allocations that a submission lists.
//!
//! Source: "DMA buffers", "Paging and residency" of the Windows KMD overview.

use crate::ddi::dma_buffer::{DMA_BUFFERS_START, DmaBuffer, RenderAllocation};
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::memory::allocation::Allocation;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::resource::Hold;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::submission::{CommandBuffer, Deferred, DeferredWork};
use crate::hardware::HardwareFull;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::node_context::{
    ALLOCATION_WRITE, AllocationListEntry, SubmissionReply,
};

impl ProcessAccess<'_> {
    /// Submits a command buffer with what it holds, now or behind the paging that it waits for.
    pub(crate) fn submit_prepared(
        &mut self,
        context: Handle,
        prepared: Result<CommandBuffer, RequestError>,
        mut holds: Vec<Hold>,
    ) -> Handled<SubmissionReply> {
        // If earlier submissions wait already, this one waits too, to keep their order.
        let waits = self.waits_for_paging();
        let submitted = match prepared {
            Ok(commands) if waits => {
                let process = self.process_id;
                let work = DeferredWork::Submission { commands, holds };
                return Ok(Answer::SubmitAfterPaging(Deferred { process, context, work }));
            }
            Ok(commands) => self.submit_to_node(context, commands, &mut holds),
            Err(error) => Err(error),
        };
        if submitted.is_err() {
            // No engine knows of these holds.
            self.guest.release_holds(self.process_id, &holds);
        }
        submitted.map(Answer::Done)
    }

    /// Checks an allocation list and converts it for the driver.
    pub(crate) fn check_list(
        &self,
        context: Handle,
        list: &[AllocationListEntry],
    ) -> Result<Vec<RenderAllocation>, RequestError> {
        let device = self.get::<Context>(context)?.device();
        let check = |entry: &AllocationListEntry| {
            zero("reserved", entry.reserved)?;
            if entry.flags & !ALLOCATION_WRITE != 0 {
                return Err(RequestError::parameter("flags", entry.flags.into()));
            }
            let allocation = self.get::<Allocation>(entry.allocation)?;
            // Another device's allocation may be destroyed while engines execute this device's contexts.
            if !allocation.is_open_on(device) {
                return Err(RequestError::parameter("allocation", entry.allocation.0));
            }
            let writable = entry.flags & ALLOCATION_WRITE != 0;
            Ok(RenderAllocation { size: allocation.size(), writable })
        };
        list.iter().map(check).collect()
    }

    /// Basic: makes the driver patch a DMA buffer with the addresses of the listed allocations, and puts it where the
    /// GPU alone reads it.
    pub(crate) fn place_dma_buffer(
        &mut self,
        context: Handle,
        allocations: &[AllocationListEntry],
        mut buffer: DmaBuffer,
        holds: &mut Vec<Hold>,
    ) -> Result<CommandBuffer, RequestError> {
        let device = self.get::<Context>(context)?.device();
        let mut addresses = Vec::with_capacity(allocations.len());
        self.hold_allocations(context, allocations, holds)?;
        for entry in allocations {
            addresses.push(self.physical_address(device, entry.allocation)?);
        }
        self.miniport.patch(&mut buffer, &addresses);
        let size = buffer.packets.len();
        let place = self
            .guest
            .dma_buffers
            .take((size as u64).next_multiple_of(PAGE_SIZE))
            .ok_or(HardwareFull("DMA buffer of this guest"))?;
        holds.push(Hold::DmaBuffer(place));
        self.platform.write_dma_buffer(self.guest_id, place.start, &buffer.packets)?;
        let size = u32::try_from(size).map_err(|_| RequestError::BufferSize(size as u64))?;
        CommandBuffer::new(DMA_BUFFERS_START + place.start, size)
    }

    /// Makes allocations resident until the submission that holds them is done: the paged ones together, so that none
    /// is evicted for another. The context wants them, in addition to the device.
    pub(crate) fn hold_allocations(
        &mut self,
        context: Handle,
        list: &[AllocationListEntry],
        holds: &mut Vec<Hold>,
    ) -> Result<(), RequestError> {
        let device = self.get::<Context>(context)?.device();
        self.guest.quotas.charge(Limited::ListedAllocations, list.len() as u64)?;
        let handles: Vec<_> = list.iter().map(|entry| entry.allocation).collect();
        self.make_list_resident(context, device, &handles).inspect_err(|_| {
            self.guest.quotas.refund(Limited::ListedAllocations, list.len() as u64);
        })?;
        for AllocationListEntry { allocation, .. } in list {
            let allocation = *allocation;
            let state = self.get_mut::<Allocation>(allocation)?;
            state.add_user();
            let paged = state.paged();
            holds.push(Hold::Allocation { allocation, context });
            if let Some(id) = paged {
                self.guest.vidmm.touch(id)?;
            }
        }
        Ok(())
    }
}
