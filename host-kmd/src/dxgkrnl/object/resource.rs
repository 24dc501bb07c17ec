// SPDX-License-Identifier: MIT OR Apache-2.0

//! Resources that are freed once engines have forgotten them.

use crate::hardware::{AddressSpaceId, ProcessBarId};
use crate::port::CrossFenceId;
use crate::vidmm::pool::PageRange;
use bellhop_protocol::control::Handle;

/// A resource that a submission holds until it is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hold {
    /// An allocation of its allocation list.
    Allocation {
        /// The allocation.
        allocation: Handle,
        /// The context that wants it resident for the submission.
        context: Handle,
    },
    /// The range of its DMA buffer, by offset in the space for DMA buffers.
    DmaBuffer(PageRange),
}

/// A resource that is freed once engines have forgotten it.
#[derive(Debug, Clone)]
pub(crate) enum Resource {
    /// A range of the guest's local memory that a process had.
    LocalMemory {
        /// The process.
        process: u32,
        /// The range.
        range: PageRange,
    },
    /// A range of a process's GPU virtual addresses.
    GpuVa {
        /// The process.
        process: u32,
        /// The range.
        range: PageRange,
        /// Whether paging invalidates its entries.
        paged: bool,
    },
    /// A range of the guest's aperture.
    Aperture(PageRange),
    /// The logs of the queue with its progress fence in this slot. Freed before the slot.
    FenceLogs(u32),
    /// A process's slot for the global fence in this slot, which other processes still have.
    FenceName(u32),
    /// A fence slot.
    FenceSlot(u32),
    /// The guest's view of a fence that other guests may have.
    CrossFence(CrossFenceId),
    /// A doorbell slot.
    DoorbellSlot(u32),
    /// A doorbell's references to its queue and to the allocations of its ring.
    DoorbellReferences {
        /// The process.
        process: u32,
        /// The HW queue.
        hw_queue: Handle,
        /// The ring buffer and the ring buffer control.
        allocations: [Handle; 2],
    },
    /// The holds of dropped submissions.
    Submissions {
        /// The process.
        process: u32,
        /// The holds.
        holds: Vec<Hold>,
    },
    /// The page tables of the guest's system context. Its queue is already destroyed.
    SystemContext(AddressSpaceId),
    /// A process and its page tables.
    Process {
        /// The process.
        process: u32,
        /// Its page tables.
        space: AddressSpaceId,
        /// Its own BAR, if it has one.
        bar: Option<ProcessBarId>,
    },
}
