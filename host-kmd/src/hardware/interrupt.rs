// SPDX-License-Identifier: MIT OR Apache-2.0

//! Interrupts: what the GPU reports to the host.

use super::{
    AddressSpaceId, DisplayTicket, EngineState, GlobalFence, GuestId, HwQueueId, KernelNumber,
    KernelOutcome, RotationOutcome,
};
use bellhop_protocol::event::{FaultReason, InputKind};
use bellhop_protocol::packet::Opcode;

/// A HW queue's error. The engine has already taken the queue off its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The kind of error.
    pub reason: FaultReason,
    /// The executing packet; `NOP` if none was.
    pub opcode: Opcode,
    /// Its meaning depends on `reason`.
    pub address: u64,
    /// Position in the ring, in bytes since the ring's creation.
    pub read_pointer: u64,
}

impl Fault {
    /// Creates a fault without a position in a ring.
    #[must_use]
    pub const fn new(reason: FaultReason, opcode: Opcode, address: u64) -> Self {
        Self { reason, opcode, address, read_pointer: 0 }
    }
}

/// An interrupt of the GPU (`DXGK_INTERRUPT_TYPE`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interrupt {
    /// `DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED`: fences passed their MonitoredValues.
    NativeFenceSignaled {
        /// `pSignaledNativeFenceArray`: the fences. Empty if the hardware does not know them: then any monitored
        /// native fence may have passed its value.
        signaled: Vec<GlobalFence>,
        /// `EvaluateLegacyMonitoredFences`: any monitored fence may have been signaled, too. Set by hardware that
        /// cannot tell which kind of fence was signaled.
        evaluate_legacy_monitored_fences: bool,
    },
    /// `DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED`: monitored fences were signaled.
    MonitoredFenceSignaled {
        /// The fences. WDDM's interrupt names only the engine.
        signaled: Vec<GlobalFence>,
    },
    /// `NativeFenceSignaled` of a driver with the cap `OptimizedNativeFenceSignaledInterrupt`: fences that a HW queue
    /// has signaled and logged passed their MonitoredValues. [`Self::NativeFenceSignaled`] reports fences that were
    /// signaled without a log entry.
    NativeFencesLogged {
        /// The node that signaled them.
        node: u32,
        /// Index of the engine in the node: 0, because a node has one.
        engine: u32,
        /// `hHWQueue`: the queue with new log entries. `None` if the hardware does not know it: then any queue of the
        /// engine may have some.
        queue: Option<HwQueueId>,
    },
    /// A HW queue that logged signals is gone, and its log with it: any fence that its guest's packets can name may
    /// have passed its MonitoredValue.
    GoneQueueLogged {
        /// The guest that had the queue.
        guest: GuestId,
    },
    /// `DXGK_INTERRUPT_DMA_COMPLETED`: a kernel-mode submission and all earlier ones of its queue are done.
    DmaCompleted {
        /// The node that it was submitted to.
        node: u32,
        /// Index of the engine in the node: 0, because a node has one.
        engine: u32,
        /// Its submission fence id.
        fence: u64,
    },
    /// `DXGK_INTERRUPT_DMA_PREEMPTED`: a queue has stopped where
    /// [`Queues::preempt_hw_queue`](super::Queues::preempt_hw_queue) found it. It does not execute until it is
    /// resumed, and then continues from there.
    DmaPreempted {
        /// The queue's node.
        node: u32,
        /// Index of the engine in the node: 0, because a node has one.
        engine: u32,
        /// The fence that the pre-emption was requested with.
        preemption_fence: u64,
        /// The submission fence id of the queue's last completed kernel-mode submission; 0 if none has completed.
        last_completed_fence: u64,
    },
    /// `DXGK_INTERRUPT_PAGE_FAULTED`: a HW queue is in error because it accessed unmapped memory, or wrote memory
    /// mapped read-only.
    PageFault {
        /// The queue.
        queue: HwQueueId,
        /// The access.
        fault: Fault,
    },
    /// A HW queue is in error for another reason.
    HwQueueFault {
        /// The queue.
        queue: HwQueueId,
        /// The error.
        fault: Fault,
    },
    /// The page of a doorbell was rotated, as last requested by
    /// [`DoorbellPages::rotate_to_physical`](super::DoorbellPages::rotate_to_physical).
    DoorbellRotated {
        /// The doorbell's queue.
        queue: HwQueueId,
        /// How the rotation ended.
        outcome: RotationOutcome,
    },
    /// `DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE`.
    GpuEngineStateChange {
        /// The engine's node.
        node: u32,
        /// The engine's state, or the state that it requests.
        new_state: EngineState,
    },
    /// A paging buffer failed: its packets behind the fault were not executed. Later buffers are. A
    /// [`Self::PagingCompleted`] that covers its fence follows.
    PagingFaulted {
        /// The guest that owns the system context.
        guest: GuestId,
        /// The fence that it was submitted with.
        fence: u64,
        /// The error; the read pointer is the packet's offset in the buffer.
        fault: Fault,
    },
    /// `DXGK_INTERRUPT_DMA_COMPLETED` of a system context: all paging buffers up to this fence are done or have
    /// failed.
    PagingCompleted {
        /// The guest that owns the system context.
        guest: GuestId,
        /// The fence.
        fence: u64,
    },
    /// An engine was reset, as [`Engines::reset_engine`](super::Engines::reset_engine) or
    /// [`Engines::reset_adapter`](super::Engines::reset_adapter) requested. If it was stuck, the queue is in error,
    /// or the paging buffer failed; an earlier interrupt reported that.
    EngineReset {
        /// The engine's node.
        node: u32,
    },
    /// A kernel is compiled, or cannot be: the end of
    /// [`Kernels::create_kernel`](super::Kernels::create_kernel).
    KernelCompiled {
        /// The kernel's address space.
        space: AddressSpaceId,
        /// The kernel.
        kernel: KernelNumber,
        /// What came of it.
        outcome: KernelOutcome,
    },
    /// `DXGK_INTERRUPT_CRTC_VSYNC`: a monitor began a frame with a flip that was pending. The hardware no longer reads
    /// what flips before it showed. Of other VSYNCs, [`Display::control_vsync`](super::Display::control_vsync) has the
    /// hardware tell the guest.
    CrtcVsync {
        /// The guest.
        guest: GuestId,
        /// The source.
        source: u32,
        /// The preferred target: that of the source's first path.
        target: u32,
        /// The flip that is shown from this VSYNC on.
        flip: u64,
        /// VSYNCs of the source since it was committed, this one included.
        count: u64,
        /// When, in ticks of the clock of `TIMESTAMP`.
        time: u64,
    },
    /// An immediate flip has happened, or one of a source that is not visible. The hardware no longer reads what was
    /// shown before.
    Flipped {
        /// The guest.
        guest: GuestId,
        /// The source.
        source: u32,
        /// The flip.
        flip: u64,
        /// VSYNCs of the source since it was committed.
        count: u64,
        /// When, in ticks of the clock of `TIMESTAMP`.
        time: u64,
    },
    /// A monitor was plugged in, unplugged or exchanged: [`Display::monitor`](super::Display::monitor) tells.
    ChildStatusChanged {
        /// The guest.
        guest: GuestId,
        /// The child.
        child: u32,
    },
    /// A viewer did something.
    DisplayInput {
        /// The guest.
        guest: GuestId,
        /// The source that the viewer sees.
        source: u32,
        /// What the viewer did.
        kind: InputKind,
        /// As [`InputKind`] says.
        value: u64,
    },
    /// The hardware has passed this ticket of [`Display::quiesce_display`](super::Display::quiesce_display), and all
    /// earlier ones of the guest.
    DisplayQuiesced {
        /// The guest.
        guest: GuestId,
        /// The ticket.
        ticket: DisplayTicket,
    },
    /// [`Quiescence::quiesced`](super::Quiescence::quiesced) advanced.
    Quiesced,
}

/// Interrupts that were raised and not taken.
pub trait Interrupts {
    /// Takes the interrupts raised since the last call; the hardware's part of `DxgkDdiInterruptRoutine`.
    fn take_interrupts(&self) -> Vec<Interrupt>;
}
