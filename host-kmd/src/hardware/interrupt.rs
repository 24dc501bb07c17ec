// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the GPU tells the host.

use super::{EngineState, GlobalFence, GuestId, HwQueueId, RotationOutcome};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;

/// What a HW queue did wrong. The engine has taken it off its lists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What it is.
    pub reason: FaultReason,
    /// The packet that was being executed; `NOP` when none was.
    pub opcode: Opcode,
    /// What `reason` says it is.
    pub address: u64,
    /// Where in the ring, in bytes since its creation.
    pub read_pointer: u64,
}

impl Fault {
    /// A fault at no particular place in a ring.
    #[must_use]
    pub const fn new(reason: FaultReason, opcode: Opcode, address: u64) -> Self {
        Self { reason, opcode, address, read_pointer: 0 }
    }
}

/// What the GPU tells the host (`DXGK_INTERRUPT_TYPE`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interrupt {
    /// `DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED`: fences passed their MonitoredValues.
    NativeFenceSignaled {
        /// `pSignaledNativeFenceArray`: the fences. Empty when the hardware does not know them: any fence that is
        /// monitored may have passed its value.
        signaled: Vec<GlobalFence>,
        /// `EvaluateLegacyMonitoredFences`: any monitored fence may have been signaled, too. Set by hardware that
        /// cannot tell which kind of fence was signaled.
        evaluate_legacy_monitored_fences: bool,
    },
    /// `DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED`: monitored fences were signaled.
    MonitoredFenceSignaled {
        /// The fences. WDDM's interrupt names the engine only.
        signaled: Vec<GlobalFence>,
    },
    /// `NativeFenceSignaled` of a driver with the cap `OptimizedNativeFenceSignaledInterrupt`: fences passed their
    /// MonitoredValues that a HW queue has signaled and logged. Fences that were signaled without an entry
    /// are told of by [`Self::NativeFenceSignaled`].
    NativeFencesLogged {
        /// The node that signaled them.
        node: u32,
        /// Which of the node's engines: 0, since a node has one.
        engine: u32,
        /// `hHWQueue`: the queue that has new entries in its log. `None` when the hardware does not know it: any queue of
        /// the engine may have some.
        queue: Option<HwQueueId>,
    },
    /// A HW queue logged signals and is gone, and its log with it: any fence that its guest's packets can name may
    /// have passed its MonitoredValue.
    GoneQueueLogged {
        /// The guest that had the queue.
        guest: GuestId,
    },
    /// `DXGK_INTERRUPT_DMA_COMPLETED`: a kernel-mode submission is done, and with it all that its
    /// queue was given before.
    DmaCompleted {
        /// The node that it was submitted to.
        node: u32,
        /// Which of the node's engines: 0, since a node has one.
        engine: u32,
        /// Its submission fence id.
        fence: u64,
    },
    /// `DXGK_INTERRUPT_DMA_PREEMPTED`: a queue has stopped where
    /// [`Queues::preempt_hw_queue`](super::Queues::preempt_hw_queue) found it. Nothing of it executes until it is
    /// resumed, and then it continues from there.
    DmaPreempted {
        /// The queue's node.
        node: u32,
        /// Which of the node's engines: 0, since a node has one.
        engine: u32,
        /// What the pre-emption was asked for with.
        preemption_fence: u64,
        /// The submission fence id of the last of the queue's kernel-mode submissions that is done; 0
        /// when none is.
        last_completed_fence: u64,
    },
    /// `DXGK_INTERRUPT_PAGE_FAULTED`: a HW queue is in error since it accessed memory that is not
    /// mapped, or not for writing.
    PageFault {
        /// The queue.
        queue: HwQueueId,
        /// The access.
        fault: Fault,
    },
    /// A HW queue is in error over anything else.
    HwQueueFault {
        /// The queue.
        queue: HwQueueId,
        /// The error.
        fault: Fault,
    },
    /// The page of a doorbell was rotated, since
    /// [`Doorbells::rotate_to_physical`](super::Doorbells::rotate_to_physical) was asked last.
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
        /// What it is now, or asks for.
        new_state: EngineState,
    },
    /// A paging buffer failed: nothing of it behind the fault was executed. Later ones are executed. A
    /// [`Self::PagingCompleted`] that covers its fence follows.
    PagingFaulted {
        /// The guest that has the system context.
        guest: GuestId,
        /// The fence that it was submitted with.
        fence: u64,
        /// What is wrong with it; the read pointer is the packet's place in the buffer.
        fault: Fault,
    },
    /// `DXGK_INTERRUPT_DMA_COMPLETED` of a system context: all paging buffers up to this fence are
    /// done with.
    PagingCompleted {
        /// The guest that has the system context.
        guest: GuestId,
        /// The fence.
        fence: u64,
    },
    /// An engine was reset, as [`Engines::reset_engine`](super::Engines::reset_engine) or
    /// [`Engines::reset_adapter`](super::Engines::reset_adapter) asked. The queue that it was stuck in, if it was, is
    /// in error, or its paging buffer failed, which was told before.
    EngineReset {
        /// The engine's node.
        node: u32,
    },
    /// [`Engines::quiesced`](super::Engines::quiesced) advanced.
    Quiesced,
}

/// Interrupts, until they are taken.
pub trait Interrupts {
    /// `DxgkDdiInterruptRoutine`'s part: what was raised since the last call.
    fn take_interrupts(&self) -> Vec<Interrupt>;
}
