// SPDX-License-Identifier: MIT OR Apache-2.0

//! The decisions of VidMm, in order. Page-table entries and bytes follow from them; see `operations`.

use super::pool::PageRange;
use super::segment::Memory;
use crate::ddi::paging::AllocationId;
use crate::hardware::{AddressSpaceId, DriverProtection, GpuSet};
use std::collections::BTreeSet;

/// A range of GPU virtual addresses that is mapped to a part of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The GPUs whose page tables have it.
    pub(crate) gpus: GpuSet,
    /// The address space.
    pub(crate) space: AddressSpaceId,
    /// The first address.
    pub(crate) gpu_va: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// The allocation's first byte there.
    pub(crate) offset: u64,
    /// Whether packets may write.
    pub(crate) writable: bool,
    /// The driver's additions to its entries.
    pub(crate) driver: DriverProtection,
}

/// One step. Its lists record the state at the decision: steps are carried out in order, possibly much later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Invalidates mappings and makes engines forget them.
    Unmap {
        /// The memory that they mapped.
        memory: Memory,
        /// The mappings.
        mappings: Vec<Mapping>,
    },
    /// Makes invalid mappings map this memory.
    Map {
        /// The allocation's memory.
        memory: Memory,
        /// The mappings.
        mappings: Vec<Mapping>,
    },
    /// Fills memory with zeroes.
    Zero {
        /// The memory.
        memory: Memory,
        /// Its bytes.
        length: u64,
    },
    /// Copies memory.
    Copy {
        /// The source.
        from: Memory,
        /// The destination.
        to: Memory,
        /// Bytes.
        length: u64,
    },
    /// Discards the content of a range of local memory.
    Discard {
        /// Physical address of its first byte.
        address: u64,
        /// Its bytes.
        length: u64,
    },
    /// Tells the driver the place of a physically accessed allocation.
    NotifyResidency {
        /// The allocation.
        allocation: AllocationId,
        /// Its physical address; `None` if it is not resident.
        address: Option<u64>,
    },
    /// Notifies the driver of an allocation's eviction, in parts that fit into the paging process's GPU VA space.
    NotifyEviction {
        /// The allocation.
        allocation: AllocationId,
        /// Its place.
        memory: Memory,
        /// Its bytes.
        length: u64,
    },
    /// Notifies the driver that an allocation leaves the guest's own pages, after all paging operations.
    NotifyIoMmuUnmap {
        /// The allocation.
        allocation: AllocationId,
        /// Its pages.
        memory: Memory,
        /// Its bytes.
        length: u64,
    },
}

/// Steps for the system context to carry out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The steps in order, after those of earlier plans.
    pub(crate) steps: Vec<Step>,
    /// Processes that stay suspended while the steps are carried out, because their memory moves.
    pub(crate) held: BTreeSet<u32>,
    /// Processes that own the memory of the steps.
    pub(crate) concerned: BTreeSet<u32>,
    /// Host memory that is free when the steps are done; see [`VidMm::give_back`].
    ///
    /// [`VidMm::give_back`]: super::VidMm::give_back
    pub(crate) freed: Vec<PageRange>,
    /// Notices for processes.
    pub(crate) notices: Vec<Notice>,
}

/// A notice for a process or its contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The process exceeds its budget in a local segment, and should evict this much.
    Trim {
        /// The process.
        process: u32,
        /// Bytes.
        bytes: u64,
    },
    /// The process is suspended: an allocation that it wants resident was taken away.
    Suspend(u32),
    /// The process resumes: all its allocations are resident again.
    Resume(u32),
}
