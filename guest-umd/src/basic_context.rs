//! The basic model of WDDM 1.x: the host copies and patches what is submitted.

use crate::device::Device;
use crate::error::Error;
use crate::node_context::{NodeContext, node_context_methods};
use crate::render_buffer::RenderBuffer;
use crate::session::Session;
use bellhop_protocol::control::node_context::{Render, SubmissionModel};
use std::time::Duration;
use zerocopy::IntoBytes;

/// A context of the basic model. Needs no BAR, and no GPU virtual address.
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
    pub(crate) fn create(device: &Device, node: u32) -> Result<Self, Error> {
        Ok(Self { context: NodeContext::create(device, node, SubmissionModel::BASIC)? })
    }

    /// Submits a command buffer (`D3DKMTRender`), which is free for other packets at once; returns the
    /// value that the progress fence gets when it is done. What the buffer names is kept until then.
    ///
    /// # Errors
    /// When the device refuses: nothing of the buffer is executed.
    pub fn submit(&mut self, commands: &RenderBuffer) -> Result<u64, Error> {
        self.submit_within(commands, Duration::ZERO)
    }

    /// The same, but where the device has no room for now, in the aperture or for another submission,
    /// this waits until submissions of this context are done, and tries again.
    ///
    /// # Errors
    /// When the device refuses for good, or still when the time is over ([`Error::Timeout`] if that was
    /// while it waited), or the context is lost.
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
}
