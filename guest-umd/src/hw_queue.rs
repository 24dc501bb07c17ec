//! HW queues: what both kinds have.

use crate::context::Context;
use crate::error::Error;
use crate::fence::Fence;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::hw_queue::{
    CreateHwQueue, CreateHwQueueReply, DestroyHwQueue, HwQueueFlags,
};

/// A HW queue on the device. Destroyed when dropped.
pub(crate) struct HwQueue {
    context: Context,
    pub(crate) handle: Handle,
    pub(crate) progress: Fence,
    /// The progress value of the last submission.
    pub(crate) last_value: u64,
}

impl HwQueue {
    pub(crate) fn create(context: Context, flags: HwQueueFlags) -> Result<Self, Error> {
        let request = CreateHwQueue { context: context.handle(), flags: flags.bits(), reserved: 0 };
        let reply: CreateHwQueueReply = context.device().session().call(&request)?;
        let CreateHwQueueReply { hw_queue, progress_fence } = reply;
        let progress = Fence::progress(context.device().clone(), hw_queue, progress_fence);
        Ok(Self { context, handle: reply.hw_queue, progress, last_value: 0 })
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }
}

impl Drop for HwQueue {
    fn drop(&mut self) {
        let session = self.context.device().session();
        // A device that cannot be reached has forgotten it already.
        let _ = session.call(&DestroyHwQueue { hw_queue: self.handle });
        session.link.events.forget(session.process(), self.handle);
    }
}
