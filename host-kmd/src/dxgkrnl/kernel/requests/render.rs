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

use crate::ddi::dma_buffer::{RenderAllocation, RenderArguments};
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Body, Handled, entries, no_more, prefix, zero};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Hold;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::node::Model;
use crate::dxgkrnl::queue::submission::CommandBuffer;
use bellhop_protocol::control::node_context::{
    ALLOCATION_LIST_MAX, AllocationListEntry, PATCH_LOCATION_LIST_MAX, PatchLocation,
    RENDER_COMMANDS_MAX, Render, SubmissionReply,
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
}
