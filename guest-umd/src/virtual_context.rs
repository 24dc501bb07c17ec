//! The model of WDDM 2.0: the host supplies the command buffer, and the GPU fetches from it.

use crate::command_buffer::CommandBuffer;
use crate::device::Device;
use crate::error::Error;
use crate::node_context::{NodeContext, node_context_methods};
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::node_context::{SubmissionModel, SubmitCommandVirtual};
use std::time::Duration;

/// A context of the WDDM 2.0 model, with the command buffer that the host supplied. Residency is the
/// driver's to see to, with [`Allocation::make_resident`](crate::Allocation::make_resident).
pub struct VirtualContext {
    context: NodeContext,
    commands: CommandBuffer,
    /// Bytes of the command buffer that were submitted since it was begun anew.
    submitted: usize,
}

node_context_methods!(VirtualContext);

impl VirtualContext {
    pub(crate) fn create(device: &Device, node: u32) -> Result<Self, Error> {
        // The command buffer is of no use to a driver that cannot reach it.
        device.session().areas()?;
        let context = NodeContext::create(device, node, SubmissionModel::VIRTUAL)?;
        let reply = context.reply();
        let size = u64::from(reply.command_buffer_size);
        let place = device.session().areas()?.place(reply.command_buffer_offset, size);
        let place = place.map_err(|_| Error::BadReply(RequestCode::CREATE_NODE_CONTEXT))?;
        let commands = CommandBuffer::supplied(place, reply.command_buffer_gpu_va, size);
        Ok(Self { context, commands, submitted: 0 })
    }

    /// Where packets go: behind those that were submitted, which are not to be changed before they are
    /// done.
    pub fn commands(&mut self) -> &mut CommandBuffer {
        &mut self.commands
    }

    /// Submits what was appended since the last submission (`D3DKMTSubmitCommand`); returns the value
    /// that the progress fence gets when it is done.
    ///
    /// # Errors
    /// When the device refuses, for one when nothing was appended.
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

    /// Begins the command buffer anew, once all that was submitted is done. What was appended and not
    /// submitted is forgotten.
    ///
    /// # Errors
    /// When that takes longer, or the context is lost.
    pub fn restart(&mut self, timeout: Duration) -> Result<(), Error> {
        if let Some(last) = self.context.last() {
            self.progress_fence().wait(last.progress_fence_value, timeout)?;
        }
        self.commands.reset();
        self.submitted = 0;
        Ok(())
    }
}
