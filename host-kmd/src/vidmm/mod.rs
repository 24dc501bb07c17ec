// SPDX-License-Identifier: MIT OR Apache-2.0

//! VidMm: where each allocation is, and which allocations make room.
//!
//! A state machine without I/O, one for each guest. A decision changes the state immediately, and results in a
//! [`Plan`] of steps that the guest's system context carries out in order. So VidMm never waits, and a request is
//! answered when its last step is done.
//!
//! - An allocation is described when it is created. It takes memory when it is first made resident or locked.
//! - It is in one place: in a local segment, or at *home* in the implicit system memory segment. Home is the guest's
//!   own pages if the allocation was created with some, otherwise host memory (the hardware's backing segment) that
//!   VidMm reserves for its life. So an eviction never fails.
//! - A resident allocation that may be resident at home is *demoted* there, and engines still reach it. One that may
//!   not is *taken away*, and only from a process over its budget for a process within its own. The contexts of the
//!   process that loses it are suspended until all its allocations are resident again.
//! - An allocation that its owner has evicted stays in place, unmapped, until another needs the room.
//! - Several processes may share an allocation. See `residency`. The GPUs of a chain may have a copy each. See `mirrored`.
//!
//! Source: "Memory Manager" of the Windows KMD overview; "Allocation notification".

pub(crate) mod allocation;
mod budget;
mod counting;
pub(crate) mod error;
mod eviction;
mod locks;
mod mappings;
mod migration;
mod mirrored;
mod moves;
pub(crate) mod operations;
mod placement;
pub(crate) mod pool;
mod residency;
pub(crate) mod segment;
mod standing;
mod state;
pub(crate) mod step;
#[cfg(test)]
mod tests;
mod withdrawal;

pub(crate) use state::{PrivateMemory, VidMm};

use crate::ddi::paging::AllocationId;
use crate::hardware::{GpuOrdinal, Segment};
use allocation::{Allocation, Description};
use bellhop_protocol::control::allocation::Extent;
use error::VidMmError;
use pool::PageRange;
use segment::{LocalMemory, LocalSegment, Memory, Place};
use standing::Process;
use std::collections::BTreeMap;
use std::sync::Arc;
use step::Plan;

impl VidMm {
    /// The guest has put its CPU-visible local memory into its own memory. None of it may be used yet.
    pub(crate) fn donate(&mut self, length: u64, extents: Arc<[Extent]>) {
        let donated = Some(Memory { segment: Segment::System, extents });
        self.local[0] = LocalMemory { donated, ..LocalMemory::new(0, length) };
    }

    /// Whether several GPUs have private memory.
    pub(crate) fn is_chain(&self) -> bool {
        self.gpus().count() > 1
    }

    /// The GPU whose private memory has an allocation.
    pub(crate) fn private_of(&self, id: AllocationId) -> Option<GpuOrdinal> {
        match self.get(id).ok()?.place {
            Place::Local(LocalSegment::Private(gpu), _) => Some(gpu),
            _ => None,
        }
    }

    /// Returns the decisions since the last call. First restores, once, the allocations that were taken away, as far
    /// as there is room.
    pub(crate) fn take_plan(&mut self) -> Plan {
        if std::mem::take(&mut self.may_restore) {
            self.restore();
        }
        std::mem::take(&mut self.plan)
    }

    /// Whether there are decisions since the last plan.
    pub(crate) fn has_plan(&self) -> bool {
        !self.plan.steps.is_empty() || !self.plan.held.is_empty()
    }

    /// Whether no memory is used.
    pub(crate) fn is_unused(&self) -> bool {
        self.allocations.is_empty()
            && self.copies.is_empty()
            && self.processes.is_empty()
            && self.local.iter().all(|local| local.pool.is_unused() && local.pinned == 0)
            && self.backing.is_unused()
    }

    /// Adds a process: budgets of the others shrink.
    pub(crate) fn add_process(&mut self, process: u32) {
        self.processes.insert(process, Process::default());
        for other in self.processes.keys().copied().collect::<Vec<_>>() {
            self.ask_to_trim(other);
        }
    }

    /// Removes a process, after its allocations: budgets of the others grow.
    pub(crate) fn remove_process(&mut self, process: u32) {
        self.processes.remove(&process);
        self.may_restore = true;
    }

    /// Creates an allocation. It takes no memory yet.
    pub(crate) fn create(&mut self, description: Description) -> AllocationId {
        self.last_id += 1;
        let id = AllocationId(self.last_id);
        // An allocation of the guest's own pages is at home already.
        let place = if description.system.is_some() { Place::Home } else { Place::Nowhere };
        let allocation = Allocation {
            opened: vec![description.process],
            description,
            place,
            backing: None,
            wanted: BTreeMap::new(),
            copied: false,
            present: false,
            taken: None,
            locks: BTreeMap::new(),
            pins: 0,
            used: 0,
            mappings: BTreeMap::new(),
        };
        self.allocations.insert(id, allocation);
        id
    }

    /// Destroys one copy of an allocation: see [`Self::destroy`].
    fn destroy_one(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let was_present = self.get(id)?.present;
        self.unmap_all(id)?;
        if was_present {
            self.notify_io_mmu_unmap(id)?;
        }
        self.change(id, |allocation| {
            allocation.wanted.clear();
            allocation.locks.clear();
            allocation.pins = 0;
            allocation.taken = None;
        })?;
        if let Place::Local(segment, range) = self.get(id)?.place {
            self.discard(segment, range);
        }
        self.leave(id, Place::Nowhere)?;
        if let Some(Allocation { backing: Some(range), opened, .. }) = self.allocations.remove(&id)
        {
            self.plan.freed.push(range);
            let keeper = opened.first().and_then(|process| self.processes.get_mut(process));
            if let Some(process) = keeper {
                process.backing -= range.length;
            }
        }
        self.may_restore = true;
        Ok(())
    }

    /// Frees host memory that a plan freed, once its steps are done.
    pub(crate) fn give_back(&mut self, range: PageRange) {
        self.backing.give_back(range);
    }

    /// Suspends a process while the next plan is carried out, because the plan removes mappings and then restores
    /// them.
    pub(crate) fn hold(&mut self, process: u32) {
        self.plan.held.insert(process);
    }
}
