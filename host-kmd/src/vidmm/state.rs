// SPDX-License-Identifier: MIT OR Apache-2.0

//! The state of VidMm, and how its parts find an allocation in it.

use super::allocation::Allocation;
use super::error::VidMmError;
use super::pool::{PagePool, PageRange};
use super::segment::{LocalMemory, LocalSegment};
use super::standing::{Process, UsePass};
use super::step::{Plan, Step};
use crate::ddi::paging::AllocationId;
use crate::hardware::GpuOrdinal;
use std::collections::BTreeMap;

/// The private memory of a guest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrivateMemory {
    /// Bytes on each GPU. The parts of the GPUs are one behind another, the master's last.
    pub(crate) size: u64,
    /// Bytes at the end of the master's part that hold values of fences.
    pub(crate) reserved: u64,
    /// Number of GPUs, at least 1.
    pub(crate) gpus: u8,
}

/// The memory of one guest.
#[derive(Debug)]
pub(crate) struct VidMm {
    /// By the index of [`LocalSegment`].
    pub(super) local: Vec<LocalMemory>,
    pub(super) backing: PagePool,
    pub(super) allocations: BTreeMap<AllocationId, Allocation>,
    /// The copies of mirrored allocations on slaves, by the master's.
    pub(super) copies: BTreeMap<AllocationId, Vec<AllocationId>>,
    pub(super) processes: BTreeMap<u32, Process>,
    pub(super) last_id: u64,
    /// Counts uses.
    pub(super) clock: u64,
    /// Whether there may be room for allocations that were taken away.
    pub(super) may_restore: bool,
    /// Progress of the checks for what engines use.
    pub(super) looks: UsePass,
    pub(super) plan: Plan,
}

impl VidMm {
    /// Creates unused memory of these sizes in bytes, with the private memory of one GPU.
    #[cfg(test)]
    pub(crate) fn new(visible: u64, private: u64, backing: u64) -> Self {
        Self::of_chain(visible, PrivateMemory { size: private, reserved: 0, gpus: 1 }, backing)
    }

    /// Creates unused memory of these sizes in bytes.
    pub(crate) fn of_chain(visible: u64, private: PrivateMemory, backing: u64) -> Self {
        let PrivateMemory { size, reserved, gpus } = private;
        let of_gpu = |gpu: u8| match gpu {
            0 => LocalMemory::new(size * u64::from(gpus.saturating_sub(1)), size - reserved),
            gpu => LocalMemory::new(size * u64::from(gpus - 1 - gpu), size),
        };
        let visible = std::iter::once(LocalMemory::new(0, visible));
        Self {
            local: visible.chain((0..gpus.max(1)).map(of_gpu)).collect(),
            backing: PagePool::new(0, backing),
            allocations: BTreeMap::new(),
            copies: BTreeMap::new(),
            processes: BTreeMap::new(),
            last_id: 0,
            clock: 0,
            may_restore: false,
            looks: UsePass::default(),
            plan: Plan::default(),
        }
    }

    /// All local segments.
    pub(super) fn segments(&self) -> impl Iterator<Item = LocalSegment> + use<> {
        std::iter::once(LocalSegment::Visible).chain(self.gpus().map(LocalSegment::Private))
    }

    /// The GPUs that have private memory, the master first.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = GpuOrdinal> + use<> {
        let count = self.local.len().saturating_sub(1);
        (0..).take(count).map(GpuOrdinal)
    }

    /// Tells the driver that the content of a local range is not needed: "evict an allocation from local memory
    /// (without transfer to a backing store)". Later uses of the range come after this step in the plan.
    pub(super) fn discard(&mut self, segment: LocalSegment, range: PageRange) {
        let address = segment.physical_address(range);
        self.plan.steps.push(Step::Discard { address, length: range.length });
    }

    pub(super) fn get(&self, id: AllocationId) -> Result<&Allocation, VidMmError> {
        self.allocations.get(&id).ok_or(VidMmError::Unknown)
    }

    pub(super) fn get_mut(&mut self, id: AllocationId) -> Result<&mut Allocation, VidMmError> {
        self.allocations.get_mut(&id).ok_or(VidMmError::Unknown)
    }

    /// Whether a GPU's private memory is taken away.
    pub(super) fn is_withdrawn(&self, segment: LocalSegment) -> bool {
        self.local.get(segment.index()).is_some_and(|local| local.is_withdrawn)
    }
}
