// SPDX-License-Identifier: MIT OR Apache-2.0

//! What was taken away and is given out again once engines have forgotten it.

use crate::hardware::AddressSpaceId;
use crate::port::CrossFenceId;
use crate::vidmm::pool::PageRange;
use bellhop_protocol::control::Handle;

/// Something that a submission holds until it is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hold {
    /// An allocation of its allocation list.
    Allocation {
        /// The allocation.
        allocation: Handle,
        /// The context that wants it resident for the submission.
        context: Handle,
    },
    /// The place of its DMA buffer, by its offset among all.
    DmaBuffer(PageRange),
}

/// Something that can be given out again once engines have forgotten it.
#[derive(Debug, Clone)]
pub(crate) enum Resource {
    /// A range of the guest's local memory, which a process had.
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
        /// Whether paging makes its entries invalid.
        paged: bool,
    },
    /// A range of the guest's aperture.
    Aperture(PageRange),
    /// The logs of the queue that had its progress fence in this slot. Freed before the slot.
    FenceLogs(u32),
    /// A process's name for the global fence in this slot, which others still have.
    FenceName(u32),
    /// A fence slot.
    FenceSlot(u32),
    /// The guest's view of a fence that others may have.
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
    /// What submissions that were dropped held.
    Submissions {
        /// The process.
        process: u32,
        /// What each held.
        holds: Vec<Hold>,
    },
    /// The page tables of the guest's system context. Its queue is destroyed.
    SystemContext(AddressSpaceId),
    /// A process and its page tables.
    Process {
        /// The process.
        process: u32,
        /// Its page tables.
        space: AddressSpaceId,
    },
}
