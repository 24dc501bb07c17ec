// SPDX-License-Identifier: MIT OR Apache-2.0

//! The basic model of WDDM 1.x: the host copies and patches submissions.

use crate::commands::render_buffer::RenderBuffer;
use crate::context::node::{NodeContext, node_context_methods};
use crate::device::Device;
use crate::error::Error;
use crate::link::session::Session;
use crate::memory::allocation::Allocation;
use bellhop_protocol::control::node_context::{Render, SubmissionModel};
use bellhop_protocol::control::present::{Present, Rect};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

impl Device {
    /// Creates a context of the basic model on a node (`D3DKMTCreateContext`).
    ///
    /// # Errors
    /// As [`Self::create_context`].
    pub fn create_basic_context(&self, node: u32) -> Result<BasicContext, Error> {
        Ok(BasicContext { context: NodeContext::create(self, node, SubmissionModel::BASIC)? })
    }
}

/// A context of the basic model. Works without shared memory and without GPU virtual addresses.
///
/// ```text
/// RenderBuffer::new(), packets with places in allocations   the driver
/// BasicContext::submit                                      RENDER
///   check, copy, make resident, patch, submit               the host
/// progress fence                                            the engine
/// ```
pub struct BasicContext {
    context: NodeContext,
}

node_context_methods!(BasicContext);

impl BasicContext {
    /// Submits a command buffer (`D3DKMTRender`). Returns the value that the progress fence gets when it is done.
    /// The buffer can be reused at once; the context keeps its allocations until it is done.
    ///
    /// # Errors
    /// [`Error::Refused`] if a list or a packet is invalid, or there is no room. Nothing of the buffer is then
    /// executed.
    pub fn submit(&mut self, commands: &RenderBuffer) -> Result<u64, Error> {
        self.submit_within(commands, Duration::ZERO)
    }

    /// Submits as [`Self::submit`]. While the device has no room, in the aperture or for another submission, waits
    /// until submissions of this context are done and retries.
    ///
    /// # Errors
    /// As [`Self::submit`], [`Error::Timeout`] if a submission is not done in time, and [`Error::QueueLost`] if the
    /// context is lost.
    pub fn submit_within(
        &mut self,
        commands: &RenderBuffer,
        timeout: Duration,
    ) -> Result<u64, Error> {
        let RenderBuffer { packets, allocations, list, patch_locations } = commands;
        let request = Render {
            context: self.handle(),
            dma_buffer: 0,
            dma_buffer_size: 0,
            command_length: packets.len() as u32,
            allocation_count: list.len() as u32,
            patch_location_count: patch_locations.len() as u32,
        };
        let following = [packets, list.as_bytes(), patch_locations.as_bytes()].concat();
        let submit = |session: &Session| session.call_with_list(&request, &following);
        let reply = self.context.submit_within(timeout, submit)?;
        Ok(self.context.submitted(reply, allocations.clone()))
    }

    /// Draws a surface on another (`D3DKMTPresent`), within the parts `dirty` of the destination's rectangle if there
    /// are any. Returns the value that the progress fence gets when it is drawn. `allocations` are those of the
    /// surfaces, which the context keeps until then; it fills in [`Present::context`] and [`Present::rects`].
    ///
    /// # Errors
    /// [`Error::Refused`] if a surface does not lie in its allocation, or a rectangle not in its surface, or there is
    /// no room.
    pub fn present(
        &mut self,
        present: Present,
        dirty: &[Rect],
        allocations: &[Arc<Allocation>],
    ) -> Result<u64, Error> {
        // More rectangles than there may be are refused.
        let rects = u32::try_from(dirty.len()).unwrap_or(u32::MAX);
        let request = Present { context: self.handle(), rects, ..present };
        let submit = |session: &Session| session.call_with_list(&request, dirty.as_bytes());
        let reply = self.context.submit_within(Duration::ZERO, submit)?;
        Ok(self.context.submitted(reply, allocations.to_vec()))
    }
}
