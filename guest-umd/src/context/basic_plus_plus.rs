// SPDX-License-Identifier: MIT OR Apache-2.0

//! The basic++ model of WDDM 1.x: the GPU executes the driver's own DMA buffers in place.

use crate::commands::command_buffer::CommandBuffer;
use crate::context::node::{NodeContext, node_context_methods};
use crate::device::Device;
use crate::error::Error;
use crate::link::session::Session;
use crate::memory::allocation::Allocation;
use bellhop_protocol::control::node_context::{AllocationListEntry, Render, SubmissionModel};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

impl Device {
    /// Creates a context of the basic++ model on a node (`D3DKMTCreateContext`).
    ///
    /// # Errors
    /// As [`Self::create_context`].
    pub fn create_basic_plus_plus_context(&self, node: u32) -> Result<BasicPlusPlusContext, Error> {
        let context = NodeContext::create(self, node, SubmissionModel::BASIC_PLUS_PLUS)?;
        Ok(BasicPlusPlusContext { context })
    }
}

/// A context of the basic++ model: a [`CommandBuffer`] is its user-mode DMA buffer, which the GPU fetches through
/// the process's page tables. Works without shared memory.
///
/// Source: Windows KMD overview, "Physical vs virtual submission".
pub struct BasicPlusPlusContext {
    context: NodeContext,
}

node_context_methods!(BasicPlusPlusContext);

impl BasicPlusPlusContext {
    /// Submits a user-mode DMA buffer (`D3DKMTRender` without a command buffer); the host makes the listed
    /// allocations resident. Returns the value that the progress fence gets when it is done. Until then, the buffer
    /// must not change, and the context keeps the allocations.
    ///
    /// # Errors
    /// [`Error::Refused`] if the list is invalid, or there is no room.
    pub fn submit(
        &mut self,
        commands: &mut CommandBuffer,
        allocations: &[&Arc<Allocation>],
    ) -> Result<u64, Error> {
        self.submit_within(commands, allocations, Duration::ZERO)
    }

    /// Submits as [`Self::submit`]. While the device has no room, waits until submissions of this context are done
    /// and retries.
    ///
    /// # Errors
    /// As [`Self::submit`], [`Error::Timeout`] if a submission is not done in time, and [`Error::QueueLost`] if the
    /// context is lost.
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
