//! The basic++ model of WDDM 1.x: the driver's own DMA buffers, executed where they are.

use crate::allocation::Allocation;
use crate::command_buffer::CommandBuffer;
use crate::device::Device;
use crate::error::Error;
use crate::node_context::{NodeContext, node_context_methods};
use crate::session::Session;
use bellhop_protocol::control::node_context::{AllocationListEntry, Render, SubmissionModel};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

/// A context of the basic++ model: a [`CommandBuffer`] is its user-mode DMA buffer, which the GPU
/// fetches through the process's page tables. Needs no BAR.
pub struct BasicPlusPlusContext {
    context: NodeContext,
}

node_context_methods!(BasicPlusPlusContext);

impl BasicPlusPlusContext {
    pub(crate) fn create(device: &Device, node: u32) -> Result<Self, Error> {
        let context = NodeContext::create(device, node, SubmissionModel::BASIC_PLUS_PLUS)?;
        Ok(Self { context })
    }

    /// Submits a user-mode DMA buffer (`D3DKMTRender` without a command buffer), and has the host make
    /// the listed allocations resident; returns the value that the progress fence gets when it is
    /// done. The buffer may be changed then, and the allocations are kept until then.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn submit(
        &mut self,
        commands: &mut CommandBuffer,
        allocations: &[&Arc<Allocation>],
    ) -> Result<u64, Error> {
        self.submit_within(commands, allocations, Duration::ZERO)
    }

    /// The same, but where the device has no room for another submission for now, this waits until
    /// submissions of this context are done, and tries again.
    ///
    /// # Errors
    /// When the device refuses for good, or still when the time is over ([`Error::Timeout`] if that was
    /// while it waited), or the context is lost.
    pub fn submit_within(
        &mut self,
        commands: &mut CommandBuffer,
        allocations: &[&Arc<Allocation>],
        timeout: Duration,
    ) -> Result<u64, Error> {
        let entry = |allocation: &&Arc<Allocation>| AllocationListEntry {
            allocation: allocation.handle(),
            flags: 0,
            reserved: 0,
        };
        let list: Vec<_> = allocations.iter().map(entry).collect();
        let request = Render {
            context: self.handle(),
            dma_buffer: commands.gpu_va(),
            dma_buffer_size: commands.len() as u32,
            command_length: 0,
            allocation_count: list.len() as u32,
            patch_location_count: 0,
        };
        let submit = |session: &Session| session.call_with_list(&request, list.as_bytes());
        let reply = self.context.submit_within(timeout, submit)?;
        let uses = allocations.iter().copied().map(Arc::clone).collect();
        Ok(self.context.submitted(reply, uses))
    }
}
