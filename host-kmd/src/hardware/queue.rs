// SPDX-License-Identifier: MIT OR Apache-2.0

//! HW queues: the run list, and kernel-mode submission.

use super::{
    AddressSpaceId, GuestId, HardwareError, HwContextId, HwQueueId, ProcessShare,
    SchedulingPriority, UnknownId,
};

/// A command buffer submitted in kernel mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSubmission {
    /// GPU virtual address of the command buffer.
    pub gpu_va: u64,
    /// Its size in bytes.
    pub size: u32,
    /// The value to which the queue's progress fence is set when the buffer is done.
    pub progress_fence_value: u64,
    /// Its submission fence id, by which interrupts name it: unique, and greater than any earlier one of its queue.
    pub submission_fence: u64,
}

/// Properties with which a HW queue is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HwQueueDescription {
    /// The guest that owns it.
    pub guest: GuestId,
    /// The context that owns it: all queues of a context share its turns.
    pub context: HwContextId,
    /// The address space that translates its addresses.
    pub address_space: AddressSpaceId,
    /// The process that owns the fences that its packets may name.
    pub process: AddressSpaceId,
    /// The process's part of its guest's engine time.
    pub share: ProcessShare,
    /// The node that executes it.
    pub node: u32,
    /// Slot of the progress fence (`hHwQueueProgressFence`).
    pub progress_fence: u32,
    /// `NativeProgressFence`: the progress fence is a native fence, not a monitored one.
    pub native_progress_fence: bool,
    /// `DisableGpuTimeout`: a lack of progress is not a hang, and is not reported.
    pub disable_gpu_timeout: bool,
}

/// HW queues.
pub trait Queues {
    /// Creates a HW queue and puts it on its engine's run list.
    ///
    /// # Errors
    /// Fails for a guest, address space or node that does not exist.
    fn create_hw_queue(&self, description: HwQueueDescription) -> Result<HwQueueId, UnknownId>;

    /// Takes a HW queue off its engine's run list permanently. An engine may execute it until a later
    /// [`Quiescence::quiesce`](super::Quiescence::quiesce) has passed.
    ///
    /// # Errors
    /// Fails for a queue that does not exist.
    fn destroy_hw_queue(&self, queue: HwQueueId) -> Result<(), UnknownId>;

    /// Takes HW queues off their engine's run list, until [`Self::resume_hw_queues`]. An engine may execute one until
    /// a later [`Quiescence::quiesce`](super::Quiescence::quiesce) has passed.
    ///
    /// # Errors
    /// Fails for a queue that does not exist; the others are suspended.
    fn suspend_hw_queues(&self, queues: &[HwQueueId]) -> Result<(), UnknownId>;

    /// Puts HW queues back on their engine's run list, and makes the engine look at each, as [`Self::kick`] does.
    ///
    /// # Errors
    /// Fails for a queue that does not exist; the others are resumed.
    fn resume_hw_queues(&self, queues: &[HwQueueId]) -> Result<(), UnknownId>;

    /// Takes a HW queue off its engine's run list, as [`Self::suspend_hw_queues`] does, at the next boundary of a
    /// packet or of a step within one. [`Interrupt::DmaPreempted`](super::Interrupt::DmaPreempted) with
    /// `preemption_fence` tells when it has stopped. If called again before that, only the last fence is reported.
    ///
    /// # Errors
    /// Fails for a queue that does not exist.
    fn preempt_hw_queue(&self, queue: HwQueueId, preemption_fence: u64) -> Result<(), UnknownId>;

    /// Sets the priority of all HW queues of a context among those of their processes' group; initially 0. It takes effect when
    /// the context is next put in line.
    ///
    /// # Errors
    /// Fails for a queue that does not exist; the others have the priority.
    fn set_scheduling_priority(
        &self,
        queues: &[HwQueueId],
        priority: SchedulingPriority,
    ) -> Result<(), UnknownId>;

    /// Queues a kernel-mode command buffer; [`Self::kick`] makes the engine see it.
    ///
    /// # Errors
    /// Fails if too many are queued already. Fails for a queue that does not exist.
    fn submit_kernel_mode(
        &self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareError>;

    /// [`KernelSubmission::submission_fence`] of the queue's last completed command buffer; 0 if none has completed.
    ///
    /// # Errors
    /// Fails for a queue that does not exist.
    fn current_fence(&self, queue: HwQueueId) -> Result<u64, UnknownId>;

    /// Makes the queue's engine look once at the ring's write pointer and at kernel-mode submissions. Wakes the
    /// engine if necessary.
    ///
    /// # Errors
    /// Fails for a queue that does not exist.
    fn kick(&self, queue: HwQueueId) -> Result<(), UnknownId>;
}
