// SPDX-License-Identifier: MIT OR Apache-2.0

//! The HW queue on the device, common to user-mode and kernel-mode submission.

use crate::context::hardware::Context;
use crate::error::Error;
use crate::fence::object::Fence;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::hw_queue::{
    CreateHwQueue, CreateHwQueueReply, DestroyHwQueue, HwQueueFlags,
};
use bellhop_protocol::features::Features;

/// The places of a HW queue's fence logs, which packets may read. [`fence_log`](bellhop_protocol::fence_log)
/// defines the layout.
///
/// Source: native GPU fence object, "Native fence log buffer design".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FenceLogs {
    /// GPU virtual address of the wait log.
    pub waits: u64,
    /// GPU virtual address of the signal log.
    pub signals: u64,
    /// Number of entries in each log.
    pub entries: u32,
}

/// Refuses flags that the host does not allow this guest.
pub(crate) fn check_flags(context: &Context, flags: HwQueueFlags) -> Result<(), Error> {
    let is_on = context.device().session().link.features.contains(Features::DISABLE_GPU_TIMEOUT);
    if flags.contains(HwQueueFlags::DISABLE_GPU_TIMEOUT) && !is_on {
        return Err(Error::NotAvailable("a queue without a GPU time-out"));
    }
    Ok(())
}

/// A HW queue on the device. Destroyed when dropped.
pub(crate) struct HwQueue {
    context: Context,
    pub(crate) handle: Handle,
    pub(crate) progress: Fence,
    pub(crate) logs: FenceLogs,
    /// The progress value of the last submission.
    pub(crate) last_value: u64,
}

impl HwQueue {
    pub(crate) fn create(context: Context, flags: HwQueueFlags) -> Result<Self, Error> {
        let request = CreateHwQueue { context: context.handle(), flags: flags.bits(), reserved: 0 };
        let reply: CreateHwQueueReply = context.device().session().call(&request)?;
        let CreateHwQueueReply { hw_queue, progress_fence, .. } = reply;
        let CreateHwQueueReply { wait_log_gpu_va, signal_log_gpu_va, log_entries, .. } = reply;
        let logs =
            FenceLogs { waits: wait_log_gpu_va, signals: signal_log_gpu_va, entries: log_entries };
        let progress = Fence::progress(context.device().clone(), hw_queue, progress_fence);
        Ok(Self { context, handle: reply.hw_queue, progress, logs, last_value: 0 })
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }
}

impl Drop for HwQueue {
    fn drop(&mut self) {
        let session = self.context.device().session();
        // An unreachable device has already forgotten it.
        let _ = session.call(&DestroyHwQueue { hw_queue: self.handle });
        session.link.events.forget(session.process(), self.handle);
    }
}
