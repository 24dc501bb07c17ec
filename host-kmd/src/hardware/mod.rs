// SPDX-License-Identifier: MIT OR Apache-2.0

//! The border between the control plane and the data plane, with one trait per subject.
//!
//! [`Gpu`] is what a driver programs, as through registers. [`Platform`] is what the graphics kernel itself reads and
//! changes, beside its driver: memory, statuses of doorbells, tickets, kernels, video sessions, and what tools see. Only
//! [`Adapter`] and [`CurrentValues`] are in both. The device crate implements both over engine threads, tests over a few
//! maps. No call waits for an engine: the caller uses [`Quiescence::quiesce`] instead, and an interrupt reports when
//! engines have passed.
//!
//! All calls come from the control-plane thread. Ids must be ones that the GPU handed out and that were not destroyed: a
//! call with any other id changes nothing that the id would name and returns [`UnknownId`], which is a bug of the caller.
//! The caller has checked slots, offsets and addresses against what the guest was given.

mod adapter;
mod addressing;
mod display;
mod doorbell;
mod engine;
mod error;
mod fence;
mod gpu;
mod id;
mod interrupt;
mod kernel;
mod memory;
mod observe;
mod page_table;
mod priority;
mod process_bar;
mod pte;
mod queue;
mod system_context;
mod video;

pub use adapter::{Adapter, Chain, DoorbellModel, DriverCaps, NodeDescription};
pub use addressing::{PageSize, VirtualAddressingModel};
pub use display::{
    ConnectorCaps, ConnectorUse, Display, DisplayCaps, DisplayPath, DisplayTicket, Monitor,
    PointerShape, SourceAddress,
};
pub use doorbell::{DoorbellPages, Doorbells, RingBinding, RotationOutcome, RotationProgress};
pub use engine::{EngineProgress, EngineState, Engines, Quiescence};
pub use error::{HardwareError, HardwareFull, Reported, UnknownId};
pub use fence::log::{
    FENCE_LOGS_SIZE, FenceLogBuffer, FenceLogContents, FenceLogs, QueueLog, fence_log_address,
    fence_segment_size,
};
pub use fence::{
    CurrentValues, FENCES_PER_PAGE, FenceStorage, Fences, GlobalFence, SlotValue,
    fence_storage_size,
};
pub use gpu::{GpuOrdinal, GpuSet, MAX_GPUS};
pub use id::{AddressSpaceId, GuestId, HwContextId, HwQueueId, PhysicalDoorbell, SocketId, Ticket};
pub use interrupt::{Fault, Interrupt, Interrupts};
pub use kernel::{KernelNumber, KernelOutcome, KernelRefusal, KernelSource, Kernels};
pub use memory::{Memory, SegmentSizes};
pub use observe::{
    BusyOf, EXECUTED, FrontEnd, HostClocks, KernelDescription, Observe, WorkerDescription,
};
pub use page_table::{AccessedBits, PageTableRange, PageTables};
pub use priority::{ProcessShare, SchedulingPriority};
pub use process_bar::{ProcessBarId, ProcessBarPlace, ProcessBars};
pub use pte::{ACCESSED, DriverProtection, PhysicalAddress, PhysicalPage, Pte, Segment};
pub use queue::{HwQueueDescription, KernelSubmission, Queues};
pub use system_context::{SystemContext, SystemContexts};
pub use video::{Video, VideoRefusal, VideoSessionNumber, VideoSettings};

/// A trait of all that has these.
macro_rules! together {
    ($(#[$document:meta])* $name:ident: $($subject:ident),+) => {
        $(#[$document])*
        pub trait $name: $($subject +)+ Send + Sync {}

        impl<T> $name for T where T: $($subject +)+ Send + Sync {}
    };
}

together! {
    /// What the graphics kernel reads and changes itself. A chain of GPUs has one platform.
    Platform: Adapter, Chain, Memory, AccessedBits, CurrentValues, FenceLogContents, Kernels, Video, DoorbellPages, ProcessBars,
        Quiescence, Observe
}

together! {
    /// What a driver does to its GPU.
    Gpu: Adapter, DriverCaps, PageTables, SystemContexts, CurrentValues, Fences, FenceLogs, Queues, Doorbells, Engines, Display,
        Interrupts
}
