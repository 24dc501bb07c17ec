// SPDX-License-Identifier: MIT OR Apache-2.0

//! The books: what an allocation counts, and what each process has counted.

use super::segment::{EvictionOrder, Group, LocalSegment};
use crate::ddi::paging::AllocationId;
use std::collections::{BTreeMap, BTreeSet};

/// What is counted of an allocation: computed anew from its state, so plain data.
pub(super) struct Standing {
    /// The process that it counts against.
    pub(super) payer: u32,
    pub(super) stay: Option<Stay>,
    /// Whether it is to be somewhere in any case.
    pub(super) demanded: bool,
    /// The processes that want it, if it was taken away.
    pub(super) lacking: BTreeSet<u32>,
}

/// What is counted of an allocation in a local segment.
pub(super) struct Stay {
    pub(super) segment: LocalSegment,
    pub(super) group: Group,
    pub(super) order: EvictionOrder,
    pub(super) locked: bool,
    /// Against its process's budget.
    pub(super) counts: bool,
}

/// What is counted of a process. Only counting and the reservation of host memory change it.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// Bytes that it has resident or locked in each local segment.
    pub(super) usage: [u64; 2],
    /// Bytes that it wants resident or locked, wherever they are, by the segments that they support
    /// ([`SegmentSet::bits`]).
    pub(super) demand: BTreeMap<u32, u64>,
    /// Bytes of host memory that are kept for its allocations.
    pub(super) backing: u64,
    /// Allocations that it wants resident and that were taken away.
    pub(super) missing: BTreeSet<AllocationId>,
}
