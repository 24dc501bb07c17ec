//! HW queues for kernel-mode submission: through the control queue, a request each.

use crate::command_buffer::CommandBuffer;
use crate::context::Context;
use crate::error::Error;
use crate::fence::{self, Fence};
use crate::hw_queue::{self, HwQueue};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::hw_queue::{HwQueueFlags, SubmitCommand};
use bellhop_protocol::features::Features;

/// A HW queue that takes work through the control queue. Needs no BAR.
pub struct KernelModeQueue {
    queue: HwQueue,
}

impl KernelModeQueue {
    pub(crate) fn create(context: Context, more: HwQueueFlags) -> Result<Self, Error> {
        hw_queue::check_flags(&context, more)?;
        let features = context.device().session().link.features;
        // "On supported systems, OS will update the HWQueueProgressFence to a native fence."
        let flags = match features.contains(Features::NATIVE_FENCES) {
            true => HwQueueFlags::NATIVE_PROGRESS_FENCE,
            false => HwQueueFlags::empty(),
        };
        Ok(Self { queue: HwQueue::create(context, flags | more)? })
    }

    pub(crate) fn create_with_monitored_progress(context: Context) -> Result<Self, Error> {
        Ok(Self { queue: HwQueue::create(context, HwQueueFlags::empty())? })
    }

    /// The queue's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.queue.handle
    }

    /// The fence that gets a submission's value when it is done.
    #[must_use]
    pub fn progress_fence(&self) -> &Fence {
        &self.queue.progress
    }

    /// The value of the last submission.
    #[must_use]
    pub fn last_value(&self) -> u64 {
        self.queue.last_value
    }

    /// Holds what is submitted from now on until all of the fences have these values
    /// (`D3DKMTWaitForSynchronizationObjectFromGpu`). The CPU sees to that, so monitored fences will do.
    ///
    /// # Errors
    /// When the device refuses, for one when too much is held already.
    pub fn wait_for_fences(&mut self, fences: &[(&Fence, u64)]) -> Result<(), Error> {
        fence::wait_from_gpu(self.queue.context().device(), self.queue.handle, fences)
    }

    /// Signals fences when everything that was submitted is done, and before what is submitted from now on
    /// begins (`D3DKMTSignalSynchronizationObjectFromGpu`).
    ///
    /// # Errors
    /// When the device refuses, for one when too much is held already.
    pub fn signal_fences(&mut self, fences: &[(&Fence, u64)]) -> Result<(), Error> {
        fence::signal_from_gpu(self.queue.context().device(), self.queue.handle, fences)
    }

    /// Submits a command buffer (`D3DKMTSubmitCommandToHwQueue`); returns the value that the
    /// progress fence gets when it is done.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn submit(&mut self, commands: &mut CommandBuffer) -> Result<u64, Error> {
        let value = self.queue.last_value + 1;
        let request = SubmitCommand {
            hw_queue: self.queue.handle,
            gpu_va: commands.gpu_va(),
            progress_fence_value: value,
            size: commands.len() as u32,
            reserved: 0,
        };
        self.queue.context().device().session().call(&request)?;
        self.queue.last_value = value;
        Ok(value)
    }
}
