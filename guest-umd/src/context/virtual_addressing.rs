// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model of WDDM 2.0: the host supplies the command buffer, from which the GPU fetches.

use crate::commands::command_buffer::CommandBuffer;
use crate::context::node::{NodeContext, node_context_methods};
use crate::device::Device;
use crate::error::Error;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::node_context::{SubmissionModel, SubmitCommandVirtual};
use std::time::Duration;

impl Device {
    /// Creates a context of the WDDM 2.0 model on a node (`D3DKMTCreateContextVirtual`). It has no HW queues.
    ///
    /// # Errors
    /// As [`Self::create_context`], and [`Error::NotAvailable`] if the driver cannot access local memory.
    pub fn create_virtual_context(&self, node: u32) -> Result<VirtualContext, Error> {
        VirtualContext::create(self, node)
    }
}

/// A context of the WDDM 2.0 model, with the command buffer that the host supplied. The program makes
/// allocations resident itself, with [`Allocation::make_resident`](crate::Allocation::make_resident).
///
/// Source: Windows KMD overview, "Physical vs virtual submission".
pub struct VirtualContext {
    context: NodeContext,
    commands: CommandBuffer,
    /// Bytes of the command buffer submitted since [`Self::restart`].
    submitted: usize,
}

node_context_methods!(VirtualContext);

impl VirtualContext {
    fn create(device: &Device, node: u32) -> Result<Self, Error> {
        // The driver writes to the command buffer.
        device.session().areas()?;
        let context = NodeContext::create(device, node, SubmissionModel::VIRTUAL)?;
        let reply = context.reply();
        let size = u64::from(reply.command_buffer_size);
        let place = device.session().areas()?.place(reply.command_buffer_offset, size);
        let place = place.map_err(|_| Error::BadReply(RequestCode::CREATE_NODE_CONTEXT))?;
        let commands = CommandBuffer::supplied(place, reply.command_buffer_gpu_va, size);
        Ok(Self { context, commands, submitted: 0 })
    }

    /// The command buffer. The program appends packets after the submitted ones, which must not change until they
    /// are done.
    pub fn commands(&mut self) -> &mut CommandBuffer {
        &mut self.commands
    }

    /// Submits the packets appended since the last submission (`D3DKMTSubmitCommand`). Returns the value that the
    /// progress fence gets when they are done.
    ///
    /// # Errors
    /// [`Error::Refused`] if nothing was appended, or there is no room.
    pub fn submit(&mut self) -> Result<u64, Error> {
        let request = SubmitCommandVirtual {
            context: self.handle(),
            gpu_va: self.commands.gpu_va() + self.submitted as u64,
            size: (self.commands.len() - self.submitted) as u32,
            reserved: 0,
        };
        let reply = self.context.device().session().call(&request)?;
        self.submitted = self.commands.len();
        Ok(self.context.submitted(reply, Vec::new()))
    }

    /// Empties the command buffer once all submissions are done. Drops packets that were appended but not
    /// submitted.
    ///
    /// # Errors
    /// [`Error::Timeout`] if `timeout` expires first, [`Error::QueueLost`] if the context is lost.
    pub fn restart(&mut self, timeout: Duration) -> Result<(), Error> {
        if let Some(last) = self.context.last() {
            self.progress_fence().wait(last.progress_fence_value, timeout)?;
        }
        self.commands.reset();
        self.submitted = 0;
        Ok(())
    }
}
