//! What VidMm decides to do, in order. Page-table entries and bytes follow from it; see `operations`.

use super::pool::PageRange;
use super::segment::Memory;
use crate::ddi::paging::AllocationId;
use crate::hardware::{AddressSpaceId, DriverProtection};
use std::collections::BTreeSet;

/// A range of GPU virtual addresses that is mapped to a part of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Whose addresses.
    pub(crate) space: AddressSpaceId,
    /// The first of them.
    pub(crate) gpu_va: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// The allocation's first byte there.
    pub(crate) offset: u64,
    /// Whether packets may write.
    pub(crate) writable: bool,
    /// What the driver adds to its entries.
    pub(crate) driver: DriverProtection,
}

/// One step. Its lists are what they were when it was decided: steps are carried out in their order,
/// however late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The mappings lead nowhere any more, and no engine knows better.
    Unmap {
        /// Where they led.
        memory: Memory,
        /// Which.
        mappings: Vec<Mapping>,
    },
    /// The mappings, which lead nowhere, lead to this memory.
    Map {
        /// The allocation's memory.
        memory: Memory,
        /// Which.
        mappings: Vec<Mapping>,
    },
    /// Memory holds zeroes.
    Zero {
        /// Which.
        memory: Memory,
        /// Its bytes.
        length: u64,
    },
    /// Memory holds what other memory does.
    Copy {
        /// From here.
        from: Memory,
        /// To here.
        to: Memory,
        /// Bytes.
        length: u64,
    },
    /// What a range of local memory holds is not needed any more.
    Discard {
        /// Physical address of its first byte.
        address: u64,
        /// Its bytes.
        length: u64,
    },
    /// The driver is told where an allocation is now that is accessed physically.
    NotifyResidency {
        /// Which.
        allocation: AllocationId,
        /// Its physical address; `None` when it is not resident.
        address: Option<u64>,
    },
    /// The driver is notified of an allocation's eviction, of a part that fits into the paging
    /// process's GPU VA space at a time.
    NotifyEviction {
        /// Which.
        allocation: AllocationId,
        /// Where it is.
        memory: Memory,
        /// Its bytes.
        length: u64,
    },
    /// The driver is notified that an allocation leaves the guest's own pages, and all paging operations
    /// have finished.
    NotifyIoMmuUnmap {
        /// Which.
        allocation: AllocationId,
        /// Its pages.
        memory: Memory,
        /// Its bytes.
        length: u64,
    },
}

/// What VidMm wants done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// In this order, after those of earlier plans.
    pub(crate) steps: Vec<Step>,
    /// Processes none of whose contexts may be executed while the steps are carried out: what they
    /// use is moved.
    pub(crate) held: BTreeSet<u32>,
    /// Processes whose memory the steps are about.
    pub(crate) concerned: BTreeSet<u32>,
    /// Host memory that nothing needs any more when they are done; see [`VidMm::give_back`].
    ///
    /// [`VidMm::give_back`]: super::VidMm::give_back
    pub(crate) freed: Vec<PageRange>,
    /// What processes have to know.
    pub(crate) notices: Vec<Notice>,
}

/// What a process, or its contexts, have to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It has more in a local segment than its budget: it should evict that much.
    Trim {
        /// Which process.
        process: u32,
        /// How many bytes.
        bytes: u64,
    },
    /// Something that it wants resident was taken away: nothing of it may be executed.
    Suspend(u32),
    /// All is resident again.
    Resume(u32),
}
