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
    /// [`Error::Refused`] if the device has no room for another queue.
    pub fn create_kernel_mode_queue(&self) -> Result<KernelModeQueue, Error> {
        self.kernel_mode_queue().create()
    }
}

/// Describes a HW queue for kernel-mode submission. By default its progress fence is a native fence, if those were
/// negotiated, and it has the GPU's time-out.
#[must_use = "`create` makes the queue"]
pub struct KernelModeQueueBuilder {
    context: Context,
    flags: HwQueueFlags,
}

impl KernelModeQueueBuilder {
    /// Makes the queue's progress fence a monitored fence, even if there are native fences. Packets of other queues
    /// cannot wait for it.
    pub fn monitored_progress(mut self) -> Self {
        self.flags -= HwQueueFlags::NATIVE_PROGRESS_FENCE;
        self
    }

    /// Lets the queue execute indefinitely without progress (`DisableGpuTimeout`). It keeps its share of the
    /// engine, is pre-empted like others, and ends when it is destroyed.
    pub fn without_timeout(mut self) -> Self {
        self.flags |= HwQueueFlags::DISABLE_GPU_TIMEOUT;
        self
    }

    /// Creates the queue (`D3DKMTCreateHwQueue`).
    ///
    /// # Errors
    /// [`Error::NotAvailable`] if the host does not allow this guest queues without a time-out; [`Error::Refused`]
    /// if the device has no room for another queue.
    pub fn create(self) -> Result<KernelModeQueue, Error> {
        hw_queue::check_flags(&self.context, self.flags)?;
        Ok(KernelModeQueue { queue: HwQueue::create(self.context, self.flags)? })
    }
}

/// A HW queue that takes work through the control queue. Works without shared memory.
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

    /// Names the queue for people, as [`Device::set_name`](crate::Device::set_name) names a device.
    ///
    /// # Errors
    /// As [`Device::set_name`](crate::Device::set_name).
    pub fn set_name(&self, name: &str) -> Result<(), Error> {
        self.queue.context().device().session().set_name(self.handle(), name)
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
    /// (`D3DKMTWaitForSynchronizationObjectFromGpu`). The host's CPU waits, so monitored fences are allowed.
    ///
    /// # Errors
    /// [`Error::Refused`] if a fence belongs to another process, or the queue reached its limit.
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
    /// [`Error::Refused`] if the queue is lost, or reached its limit of waiting submissions.
    pub fn submit(&mut self, commands: &mut CommandBuffer) -> Result<u64, Error> {
        let value = self.queue.last_value + 1;
        let request = SubmitCommand {
            hw_queue: self.queue.handle,
            gpu_va: commands.gpu_va(),
            progress_fence_value: value,
            size: commands.len() as u32,
            reserved: 0,
        };
        let session = self.queue.context().device().session();
        if session.link.features.contains(Features::NOTIFY_BY_KICK) {
            // A sleeping engine wakes while the kernel reads the request.
            session.link.transport.kick()?;
        }
        session.call(&request)?;
        self.queue.last_value = value;
        Ok(value)
    }
}
