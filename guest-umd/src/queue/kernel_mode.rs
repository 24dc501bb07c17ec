// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernel-mode submission: each submission is a request on the control queue.

use crate::commands::command_buffer::CommandBuffer;
use crate::context::hardware::Context;
use crate::error::Error;
use crate::fence::in_queue;
use crate::fence::object::Fence;
use crate::queue::hw_queue::{self, HwQueue};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::hw_queue::{HwQueueFlags, SubmitCommand};
use bellhop_protocol::features::Features;

impl Context {
    /// Describes a HW queue for kernel-mode submission.
    pub fn kernel_mode_queue(&self) -> KernelModeQueueBuilder {
        let has_native = self.device().session().link.features.contains(Features::NATIVE_FENCES);
        // Source: native GPU fence object, "Native HWQueueProgressFence": "On supported systems, OS
        // will update the HWQueueProgressFence to a native fence."
        let flags =
            if has_native { HwQueueFlags::NATIVE_PROGRESS_FENCE } else { HwQueueFlags::empty() };
        KernelModeQueueBuilder { context: self.clone(), flags }
    }

    /// Creates a HW queue for kernel-mode submission:
    /// [`kernel_mode_queue().create()`](KernelModeQueueBuilder::create).
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_kernel_mode_queue(&self) -> Result<KernelModeQueue, Error> {
        self.kernel_mode_queue().create()
    }
}

/// Describes a HW queue for kernel-mode submission. Its progress fence is a native fence where those
/// were negotiated, and it has the GPU's time-out, unless that is changed here.
#[must_use = "`create` makes the queue"]
pub struct KernelModeQueueBuilder {
    context: Context,
    flags: HwQueueFlags,
}

impl KernelModeQueueBuilder {
    /// Gives the queue a monitored fence as its progress fence, even where there are native fences.
    /// Packets of other queues cannot wait for it.
    pub fn monitored_progress(mut self) -> Self {
        self.flags -= HwQueueFlags::NATIVE_PROGRESS_FENCE;
        self
    }

    /// Lets the queue execute without progress for as long as it likes (`DisableGpuTimeout`). It
    /// keeps its share of the engine, is pre-empted as others are, and ends when it is destroyed.
    pub fn without_timeout(mut self) -> Self {
        self.flags |= HwQueueFlags::DISABLE_GPU_TIMEOUT;
        self
    }

    /// Creates the queue (`D3DKMTCreateHwQueue`).
    ///
    /// # Errors
    /// [`Error::NotAvailable`] when the host does not let this guest have queues without a
    /// time-out; [`Error::Refused`] when the device has no room for another queue.
    pub fn create(self) -> Result<KernelModeQueue, Error> {
        hw_queue::check_flags(&self.context, self.flags)?;
        Ok(KernelModeQueue { queue: HwQueue::create(self.context, self.flags)? })
    }
}

/// A HW queue that takes work through the control queue. Works without memory that both sides reach.
///
/// Source: Windows KMD overview, "DMA buffers".
pub struct KernelModeQueue {
    queue: HwQueue,
}

impl KernelModeQueue {
    /// The queue's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.queue.handle
    }

    /// The fence that gets each submission's value when the submission is done.
    #[must_use]
    pub fn progress_fence(&self) -> &Fence {
        &self.queue.progress
    }

    /// The value of the last submission.
    #[must_use]
    pub fn last_value(&self) -> u64 {
        self.queue.last_value
    }

    /// Holds later submissions until all of these fences have these values
    /// (`D3DKMTWaitForSynchronizationObjectFromGpu`). The host's CPU waits, so monitored fences do.
    ///
    /// # Errors
    /// [`Error::Refused`] when a fence is not of this process, or the queue holds as much as it may.
    pub fn wait_for_fences(&mut self, fences: &[(&Fence, u64)]) -> Result<(), Error> {
        in_queue::wait_from_gpu(self.queue.context().device(), self.queue.handle, fences)
    }

    /// Signals fences when all earlier submissions are done, and before later ones begin
    /// (`D3DKMTSignalSynchronizationObjectFromGpu`).
    ///
    /// # Errors
    /// As [`Self::wait_for_fences`].
    pub fn signal_fences(&mut self, fences: &[(&Fence, u64)]) -> Result<(), Error> {
        in_queue::signal_from_gpu(self.queue.context().device(), self.queue.handle, fences)
    }

    /// Submits a command buffer (`D3DKMTSubmitCommandToHwQueue`). Returns the value that the progress
    /// fence gets when it is done.
    ///
    /// # Errors
    /// [`Error::Refused`] when the queue is lost, or has as many submissions waiting as it may.
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
