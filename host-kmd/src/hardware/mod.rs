// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a miniport can do to a GPU, and what the GPU reports.
//!
//! [`Hardware`] is the whole border between the control plane and the data plane, with one trait per subject. The
//! device crate implements the traits over engine threads, tests over a few maps. No call waits for an engine: the
//! caller uses [`Engines::quiesce`] instead, and an interrupt reports when engines have passed.

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
mod pte;
mod queue;
mod system_context;
mod video;

pub use adapter::{Adapter, DoorbellModel, NodeDescription};
pub use addressing::{PageSize, VirtualAddressingModel};
pub use display::{
    ConnectorCaps, ConnectorUse, Display, DisplayCaps, DisplayPath, DisplayTicket, Monitor,
    PointerShape, SourceAddress,
};
pub use doorbell::{Doorbells, RingBinding, RotationOutcome, RotationProgress};
pub use engine::{EngineProgress, EngineState, Engines};
pub use error::{HardwareError, HardwareFull, Reported, UnknownId};
pub use fence::log::{
    FENCE_LOGS_SIZE, FenceLogBuffer, FenceLogs, QueueLog, fence_log_address, fence_segment_size,
};
pub use fence::{
    FENCES_PER_PAGE, FenceStorage, Fences, GlobalFence, SlotValue, fence_storage_size,
};
pub use gpu::{GpuOrdinal, GpuSet, MAX_GPUS};
pub use id::{AddressSpaceId, GuestId, HwContextId, HwQueueId, PhysicalDoorbell, Ticket};
pub use interrupt::{Fault, Interrupt, Interrupts};
pub use kernel::{KernelNumber, KernelOutcome, KernelRefusal, KernelSource, Kernels};
pub use memory::{Memory, SegmentSizes};
pub use observe::{
    BusyOf, EXECUTED, FrontEnd, HostClocks, KernelDescription, Observe, WorkerDescription,
};
pub use page_table::{PageTableRange, PageTables};
pub use priority::SchedulingPriority;
pub use pte::{ACCESSED, DriverProtection, PhysicalAddress, PhysicalPage, Pte, Segment};
pub use queue::{HwQueueDescription, KernelSubmission, Queues};
pub use system_context::{SystemContext, SystemContexts};
pub use video::{Video, VideoRefusal, VideoSessionNumber, VideoSettings};

/// Everything that the control plane can do to a GPU, as through its registers.
///
/// All calls come from the control-plane thread. Ids must be ones that the GPU handed out and that were not
/// destroyed: a call with any other id changes nothing that the id would name and returns [`UnknownId`], which is a
/// bug of the caller. The caller has checked slots, offsets and addresses against what the guest was given.
pub trait Hardware:
    Adapter
    + PageTables
    + SystemContexts
    + Memory
    + Fences
    + FenceLogs
    + Queues
    + Kernels
    + Video
    + Display
    + Doorbells
    + Engines
    + Interrupts
    + Observe
    + Send
    + Sync
{
}

impl<T> Hardware for T where
    T: Adapter
        + PageTables
        + SystemContexts
        + Memory
        + Fences
        + FenceLogs
        + Queues
        + Kernels
        + Video
        + Display
        + Doorbells
        + Engines
        + Interrupts
        + Observe
        + Send
        + Sync
{
}
