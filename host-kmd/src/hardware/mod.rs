// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a miniport can do to a GPU, and what the GPU tells back.
//!
//! [`Hardware`] is the whole border between the control plane and the data plane, one trait for each subject: the
//! device crate implements them over engine threads, tests implement them over a few maps. No call waits for an
//! engine: what must wait for one is asked for with [`Engines::quiesce`] and reported by an interrupt.

mod adapter;
mod addressing;
mod doorbell;
mod engine;
mod error;
mod fence;
mod fence_log;
mod id;
mod interrupt;
mod memory;
mod observe;
mod page_table;
mod priority;
mod pte;
mod queue;
mod system_context;

pub use adapter::{Adapter, DoorbellModel, NodeDescription};
pub use addressing::{PageSize, VirtualAddressingModel};
pub use doorbell::{Doorbells, RingBinding, RotationOutcome, RotationProgress};
pub use engine::{EngineProgress, EngineState, Engines};
pub use error::{HardwareError, HardwareFull, Reported, UnknownId};
pub use fence::{
    FENCES_PER_PAGE, FenceStorage, Fences, GlobalFence, SlotValue, fence_storage_size,
};
pub use fence_log::{
    FENCE_LOGS_SIZE, FenceLogBuffer, FenceLogs, QueueLog, fence_log_address, fence_segment_size,
};
pub use id::{AddressSpaceId, GuestId, HwContextId, HwQueueId, PhysicalDoorbell, Ticket};
pub use interrupt::{Fault, Interrupt, Interrupts};
pub use memory::{Memory, SegmentSizes};
pub use observe::{BusyOf, EXECUTED, FrontEnd, HostClocks, Observe};
pub use page_table::{PageTableRange, PageTables};
pub use priority::SchedulingPriority;
pub use pte::{ACCESSED, DriverProtection, PhysicalAddress, PhysicalPage, Pte, Segment};
pub use queue::{HwQueueDescription, KernelSubmission, Queues};
pub use system_context::{SystemContext, SystemContexts};

/// All that the control plane can do to a GPU, as through its registers.
///
/// Calls come from one thread, the control plane's. Ids must be ones that the GPU gave out and that were not
/// destroyed: a call with any other id changes nothing of what that id names and returns [`UnknownId`], which is a
/// bug of the caller. Slots, offsets and addresses were checked by the caller against what the guest was given.
pub trait Hardware:
    Adapter
    + PageTables
    + SystemContexts
    + Memory
    + Fences
    + FenceLogs
    + Queues
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
        + Doorbells
        + Engines
        + Interrupts
        + Observe
        + Send
        + Sync
{
}
