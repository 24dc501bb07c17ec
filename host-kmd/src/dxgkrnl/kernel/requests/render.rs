// SPDX-License-Identifier: MIT OR Apache-2.0

//! `D3DKMTRender`: submission in the two models of WDDM 1.x.
//!
//! The host keeps the listed allocations resident until the submission is done, even if the guest evicts them
//! meanwhile. A submission that needs paging for that waits for it. In the basic model the host also supplies the
//! addresses:
//!
//! 1. the driver checks the command buffer and copies it into a DMA buffer (`DxgkDdiRender`);
//! 2. each listed allocation gets a physical address in the aperture, which stays valid wherever the allocation is
//!    moved;
//! 3. the driver puts those addresses into the DMA buffer (`DxgkDdiPatch`);
//! 4. the DMA buffer, in memory that no guest can reach, is submitted.
//!
//! Source: "DMA buffers", "Paging and residency" and "Physical vs virtual submission" of the Windows
//! KMD overview.

use crate::ddi::dma_buffer::{DMA_BUFFERS_START, DmaBuffer, RenderAllocation, RenderArguments};
use crate::ddi::paging::APERTURE_START;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Body, Handled, entries, no_more, prefix, zero};
use crate::dxgkrnl::memory::allocation::Allocation;
use crate::dxgkrnl::memory::page_tables::write_entries;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::resource::{Hold, Resource};
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::node::Model;
use crate::dxgkrnl::queue::submission::{CommandBuffer, Deferred, DeferredWork};
use crate::hardware::{GpuSet, HardwareFull, Pte};
use crate::vidmm::pool::PageRange;
use crate::vidmm::step::Mapping;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::node_context::{
    ALLOCATION_LIST_MAX, ALLOCATION_WRITE, AllocationListEntry, PATCH_LOCATION_LIST_MAX,
    PatchLocation, RENDER_COMMANDS_MAX, Render, SubmissionReply,
};

/// A request with its lists.
struct Rendering {
    request: Render,
    commands: Vec<u8>,
    allocations: Vec<AllocationListEntry>,
    patch_locations: Vec<PatchLocation>,
}

impl Rendering {
    fn parse(body: Body<'_>) -> Result<Self, RequestError> {
        let (request, rest) = prefix::<Render>(body)?;
        for (field, count, most) in [
            ("command_length", request.command_length, RENDER_COMMANDS_MAX),
            ("allocation_count", request.allocation_count, ALLOCATION_LIST_MAX),
            ("patch_location_count", request.patch_location_count, PATCH_LOCATION_LIST_MAX),
        ] {
            if count > most {
                return Err(RequestError::parameter(field, count.into()));
            }
        }
        let (commands, rest) = entries(body, rest, request.command_length)?;
        let (allocations, rest) = entries(body, rest, request.allocation_count)?;
        let (patch_locations, rest) = entries(body, rest, request.patch_location_count)?;
        no_more(body, rest)?;
        Ok(Self { request, commands, allocations, patch_locations })
    }

    /// Refuses fields that the model does not have.
    fn check(&self, model: Model) -> Result<(), RequestError> {
        let request = &self.request;
        match model {
            Model::Basic => {
                zero("dma_buffer", request.dma_buffer)?;
                zero("dma_buffer_size", request.dma_buffer_size)?;
                match request.command_length {
                    0 => Err(RequestError::parameter("command_length", 0)),
                    _ => Ok(()),
                }
            }
            Model::BasicPlusPlus => {
                zero("command_length", request.command_length)?;
                zero("patch_location_count", request.patch_location_count)
            }
            Model::Virtual(_) => {
                Err(RequestError::NotSupported("the context's model renders nothing"))
            }
        }
    }
}

impl ProcessAccess<'_> {
    /// `D3DKMTRender`.
    pub(crate) fn render(&mut self, body: Body<'_>) -> Handled<SubmissionReply> {
        let rendering = Rendering::parse(body)?;
        let context = rendering.request.context;
        let node = self.node_submission(context)?;
        let (model, hw_queue) = (node.model(), node.hw_queue());
        rendering.check(model)?;
        let listed = self.check_list(context, &rendering.allocations)?;
        // The guest may know of finished submissions before their interrupts arrive.
        self.reap_submissions(hw_queue)?;
        let mut holds = Vec::with_capacity(listed.len() + 1);
        let prepared = match model {
            Model::Basic => self.make_dma_buffer(&rendering, &listed, &mut holds),
            _ => self.use_dma_buffer(&rendering, &mut holds),
        };
        self.submit_prepared(context, prepared, holds)
    }

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

    /// Basic: makes the driver copy the command buffer into a DMA buffer and patch it.
    fn make_dma_buffer(
        &mut self,
        rendering: &Rendering,
        listed: &[RenderAllocation],
        holds: &mut Vec<Hold>,
    ) -> Result<CommandBuffer, RequestError> {
        let Rendering { request, commands, allocations, patch_locations } = rendering;
        let node = self.get::<Context>(request.context)?.node();
        let arguments = RenderArguments { node, commands, allocations: listed, patch_locations };
        let buffer = self.miniport.render(&arguments)?;
        self.place_dma_buffer(request.context, allocations, buffer, holds)
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
        self.hardware.write_dma_buffer(self.guest_id, place.start, &buffer.packets)?;
        let size = u32::try_from(size).map_err(|_| RequestError::BufferSize(size as u64))?;
        CommandBuffer::new(DMA_BUFFERS_START + place.start, size)
    }

    /// Basic++: the guest has made the DMA buffer.
    fn use_dma_buffer(
        &mut self,
        rendering: &Rendering,
        holds: &mut Vec<Hold>,
    ) -> Result<CommandBuffer, RequestError> {
        let Render { dma_buffer, dma_buffer_size, .. } = rendering.request;
        let commands = CommandBuffer::new(dma_buffer, dma_buffer_size)?;
        self.hold_allocations(rendering.request.context, &rendering.allocations, holds)?;
        Ok(commands)
    }

    /// Makes allocations resident until the submission that holds them is done: the paged ones together, so that none
    /// is evicted for another. The context wants them, in addition to the device.
    fn hold_allocations(
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

    /// Takes the device's allocations that no submission lists out of the aperture. A retry finds room there once
    /// engines have forgotten their places.
    fn empty_aperture(&mut self, device: Handle) -> Result<(), RequestError> {
        for handle in self.get::<Device>(device)?.allocations().clone() {
            if !self.must_stay_in_aperture(handle)? {
                self.take_out_of_aperture(handle)?;
            }
        }
        Ok(())
    }

    /// Takes an allocation out of the aperture. Engines reach it there no longer once they have forgotten the place.
    pub(crate) fn take_out_of_aperture(&mut self, handle: Handle) -> Result<(), RequestError> {
        let space = self.guest.system()?.address_space;
        let allocation = self.get_mut::<Allocation>(handle)?;
        let Some(range) = allocation.take_out_of_aperture() else { return Ok(()) };
        if let Some(id) = allocation.paged() {
            self.guest.vidmm.unmap(id, space, APERTURE_START + range.start)?;
        }
        self.give_up(Resource::Aperture(range));
        Ok(())
    }

    /// The physical address of a resident allocation's first byte: its place in the aperture. The first call maps it
    /// there; it stays until it is evicted or destroyed, or others need the room.
    pub(crate) fn physical_address(
        &mut self,
        device: Handle,
        handle: Handle,
    ) -> Result<u64, RequestError> {
        let allocation = self.get::<Allocation>(handle)?;
        let size = allocation.size();
        if let Some(range) = allocation.aperture() {
            return Ok(APERTURE_START + range.start);
        }
        let Some(range) = self.guest.aperture.take(size) else {
            self.empty_aperture(device)?;
            return Err(HardwareFull("page of the aperture").into());
        };
        if let Err(error) = self.map_in_aperture(handle, range) {
            // Some entries may be valid already.
            self.give_up(Resource::Aperture(range));
            return Err(error);
        }
        self.get_mut::<Allocation>(handle)?.put_into_aperture(range);
        Ok(APERTURE_START + range.start)
    }

    /// Maps a whole allocation to a range of the aperture. The mapping follows a paged allocation when it is moved.
    fn map_in_aperture(&mut self, handle: Handle, range: PageRange) -> Result<(), RequestError> {
        let space = self.guest.system()?.address_space;
        let gpu_va = APERTURE_START + range.start;
        let allocation = self.get::<Allocation>(handle)?;
        // The driver checked writes packet by packet.
        let (length, writable, driver) = (range.length, true, allocation.driver());
        if let Some(id) = allocation.paged() {
            self.make_page_tables(space, PageRange { start: gpu_va, length })?;
            let gpus = GpuSet::ALL;
            let mapping = Mapping { gpus, space, gpu_va, length, offset: 0, writable, driver };
            return Ok(self.guest.vidmm.map(id, mapping)?);
        }
        let memory = self.memory(handle)?;
        let entries = memory.pages(0, length).map(|page| Pte::new(page, writable));
        Ok(write_entries(self.miniport, space, gpu_va, entries)?)
    }
}
