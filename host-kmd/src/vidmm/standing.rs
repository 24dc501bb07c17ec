// SPDX-License-Identifier: MIT OR Apache-2.0

//! The books: what an allocation contributes, and the totals of each process.

use super::segment::{EvictionOrder, Group, LocalSegment};
use crate::ddi::paging::AllocationId;
use crate::hardware::GpuOrdinal;
use std::collections::{BTreeMap, BTreeSet};

/// An allocation's entry in the books, computed from its state.
pub(super) struct Standing {
    /// The process that it counts against.
    pub(super) payer: u32,
    pub(super) stay: Option<Stay>,
    /// Whether it must have memory.
    pub(super) demanded: bool,
    /// The processes that want it, if it was taken away.
    pub(super) lacking: BTreeSet<u32>,
}

/// The entry of an allocation in a local segment.
pub(super) struct Stay {
    pub(super) segment: LocalSegment,
    pub(super) group: Group,
    pub(super) order: EvictionOrder,
    pub(super) locked: bool,
    /// Whether it counts against its payer's budget.
    pub(super) counts: bool,
}

/// The totals of a process. Only counting and the reservation of host memory change them.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// Bytes that it has resident or locked in each local segment.
    pub(super) usage: [u64; LocalSegment::MAX],
    /// Bytes that it wants resident or locked, wherever they are, by the GPU and the segments that they support
    /// ([`SegmentSet::bits`]).
    pub(super) demand: BTreeMap<(GpuOrdinal, u32), u64>,
    /// Bytes of host memory reserved for its allocations.
    pub(super) backing: u64,
    /// Allocations that it wants resident and that were taken away.
    pub(super) missing: BTreeSet<AllocationId>,
}

/// The progress of a pass over what engines use: see `migration`.
#[derive(Debug)]
pub(super) struct UsePass {
    /// The current allocation, its current mapping by key, and an offset in that mapping.
    pub(super) allocation: AllocationId,
    pub(super) mapping: (u64, u64),
    pub(super) offset: u64,
    /// Whether the part of the current allocation checked so far was used.
    pub(super) used: bool,
    /// The use count when this pass began.
    pub(super) begin: u64,
    /// The use count when the previous pass began, if there was one.
    pub(super) before: u64,
    /// Allocations that were used in both passes and should be local.
    pub(super) found: Vec<AllocationId>,
}

impl Default for UsePass {
    fn default() -> Self {
        let (allocation, mapping) = (AllocationId(0), (0, 0));
        let (offset, used, begin, found) = (0, false, 0, Vec::new());
        Self { allocation, mapping, offset, used, begin, before: u64::MAX, found }
    }
}
