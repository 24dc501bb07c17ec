// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about HW queues, including kernel-mode submission.

use super::fence::OpenedFence;
use super::{Handle, request};
use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

bitflags! {
    /// `D3DDDI_CREATEHWQUEUEFLAGS`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct HwQueueFlags: u32 {
        /// Work comes through a doorbell only; [`SubmitCommand`] is refused.
        const USER_MODE_SUBMISSION = 1 << 0;
        /// Its progress fence is a native fence, and otherwise a monitored one. Needs
        /// [`NATIVE_FENCES`](crate::features::Features::NATIVE_FENCES). Queues for user-mode submission must have
        /// it.
        const NATIVE_PROGRESS_FENCE = 1 << 1;
        /// `DisableGpuTimeout`: it may execute indefinitely without making progress and does not count as hung. A
        /// turn that does not end is still a hang, and destroying the queue waits no longer than for other queues.
        /// Needs [`DISABLE_GPU_TIMEOUT`](crate::features::Features::DISABLE_GPU_TIMEOUT).
        const DISABLE_GPU_TIMEOUT = 1 << 2;
    }
}

/// `D3DKMTCreateHwQueue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateHwQueue {
    /// The context.
    pub context: Handle,
    /// [`HwQueueFlags`]; an unknown flag is refused.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(CreateHwQueue, 16, context at 0, flags at 8, reserved at 12);
request!(CreateHwQueue, CREATE_HW_QUEUE -> CreateHwQueueReply);

/// The new HW queue and its progress fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateHwQueueReply {
    /// The queue.
    pub hw_queue: Handle,
    /// Its progress fence, which is destroyed with the queue.
    pub progress_fence: OpenedFence,
    /// GPU virtual address of its wait log, which packets may read.
    pub wait_log_gpu_va: u64,
    /// GPU virtual address of its signal log, which packets may read.
    pub signal_log_gpu_va: u64,
    /// Number of entries in each log.
    pub log_entries: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    CreateHwQueueReply, 72,
    hw_queue at 0, progress_fence at 8, wait_log_gpu_va at 48, signal_log_gpu_va at 56,
    log_entries at 64, reserved at 68,
);

/// `D3DKMTDestroyHwQueue`: disconnects its doorbell, waits until the last queued progress-fence value is reached,
/// and destroys queue and doorbell. Does not wait for a queue that is suspended or in error, or longer than the
/// adapter's time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyHwQueue {
    /// The queue.
    pub hw_queue: Handle,
}
crate::assert_layout!(DestroyHwQueue, 8, hw_queue at 0);
request!(DestroyHwQueue, DESTROY_HW_QUEUE -> ());

/// `D3DKMTSubmitCommandToHwQueue`: kernel-mode submission. The engine executes the buffer and then
/// signals the queue's progress fence. Only for queues without
/// [`HwQueueFlags::USER_MODE_SUBMISSION`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SubmitCommand {
    /// The queue.
    pub hw_queue: Handle,
    /// GPU virtual address of the command buffer, a multiple of 8.
    pub gpu_va: u64,
    /// The value that the progress fence gets after the buffer is done.
    pub progress_fence_value: u64,
    /// The buffer's size in bytes, a multiple of 8.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    SubmitCommand, 32,
    hw_queue at 0, gpu_va at 8, progress_fence_value at 16, size at 24, reserved at 28,
);
request!(SubmitCommand, SUBMIT_COMMAND -> ());
