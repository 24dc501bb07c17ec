// SPDX-License-Identifier: MIT OR Apache-2.0

//! An allocation, and the properties that follow from its state alone.

use super::pool::PageRange;
use super::segment::{EvictionOrder, Group, Memory, Place};
use super::standing::{Standing, Stay};
use super::step::Mapping;
use crate::ddi::paging::{APERTURE_START, AllocationId};
use crate::hardware::GpuOrdinal;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::SegmentSet;
use std::collections::{BTreeMap, BTreeSet};

/// Properties of an allocation from its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    /// The process that creates it.
    pub(crate) process: u32,
    /// Bytes, whole pages.
    pub(crate) size: u64,
    /// The GPU whose private memory it may be in.
    pub(crate) gpu: GpuOrdinal,
    /// Segments in which it may be resident.
    pub(crate) supported: SegmentSet,
    /// The preferred one of them; if empty, VidMm decides.
    pub(crate) preferred: SegmentSet,
    /// Local segments to which it may move before it goes home.
    pub(crate) eviction: SegmentSet,
    /// Whether a copy of it is kept at home, even while it is in a local segment.
    pub(crate) keeps_copy: bool,
    /// Whether it may be locked.
    pub(crate) cpu_visible: bool,
    /// Its priority.
    pub(crate) priority: u32,
    /// Whether engines access it by physical address, which the driver must know.
    pub(crate) accessed_physically: bool,
    /// Whether the driver is notified before it is evicted.
    pub(crate) notify_eviction: bool,
    /// Whether the driver is notified before it leaves the guest's own pages.
    pub(crate) notify_io_mmu_unmap: bool,
    /// The guest's own pages, if it consists of those. It then supports the system segment.
    pub(crate) system: Option<Memory>,
}

/// An allocation, and VidMm's decisions about it. Counted fields change only through `VidMm::change`.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) description: Description,
    pub(super) place: Place,
    /// The host memory reserved for it.
    pub(super) backing: Option<PageRange>,
    /// The processes that have opened it, in the order in which they did.
    pub(super) opened: Vec<u32>,
    /// How often each device of each process wants it resident.
    pub(super) wanted: BTreeMap<(u32, Handle), u32>,
    /// Whether its copy at home is current while it is in a local segment, because it could not be written there.
    pub(super) copied: bool,
    /// Whether page tables map it.
    pub(super) present: bool,
    /// The place that it was taken away from although a process wants it.
    pub(super) taken: Option<Place>,
    /// How often each process has it locked.
    pub(super) locks: BTreeMap<u32, u32>,
    /// How often a display needs it where it is.
    pub(super) pins: u32,
    pub(super) used: u64,
    pub(super) mappings: BTreeMap<(u64, u64), Mapping>,
}

impl Allocation {
    pub(super) fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    pub(super) fn is_locked(&self) -> bool {
        !self.locks.is_empty() || self.pins > 0
    }

    /// Whether engines may write it.
    pub(super) fn is_writable(&self) -> bool {
        self.present && self.mappings.values().any(|mapping| mapping.writable)
    }

    /// Its entry in the books.
    pub(super) fn standing(&self, allocation: AllocationId) -> Standing {
        let lacking =
            if self.taken.is_some() { self.wanted_by().collect() } else { BTreeSet::new() };
        let (payer, stay) = (self.payer(), self.stay(allocation));
        Standing { payer, stay, demanded: self.is_demanded(), lacking }
    }

    /// Its stay in a local segment, if it is in one.
    pub(super) fn stay(&self, allocation: AllocationId) -> Option<Stay> {
        let Place::Local(segment, _) = self.place else { return None };
        let (priority, used) = (self.description.priority, self.used);
        let order = EvictionOrder { priority, used, allocation };
        let (process, demotable) = (self.payer(), self.lives_at_home());
        let group =
            if self.is_wanted() { Group::Wanted { process, demotable } } else { Group::Unwanted };
        Some(Stay { segment, group, order, locked: self.is_locked(), counts: self.is_demanded() })
    }

    /// Where engines that access it physically find its first byte: in its local segment, or at home in the aperture,
    /// if it is mapped there.
    pub(super) fn physical_address(&self) -> Option<u64> {
        match self.place {
            Place::Nowhere => None,
            Place::Local(segment, range) => Some(segment.physical_address(range)),
            // Mappings of processes are at lower addresses.
            Place::Home => {
                let mut addresses = self.mappings.values().map(|mapping| mapping.gpu_va);
                addresses.find(|address| *address >= APERTURE_START)
            }
        }
    }

    /// Whether it must have memory.
    pub(super) fn is_demanded(&self) -> bool {
        self.is_wanted() || self.is_locked()
    }

    /// Whether it may be resident at home.
    pub(super) fn lives_at_home(&self) -> bool {
        self.description.supported.contains(SegmentSet::SYSTEM)
    }

    /// The processes that want it, possibly with repetitions.
    pub(super) fn wanted_by(&self) -> impl Iterator<Item = u32> + '_ {
        self.wanted.keys().map(|(process, _)| *process)
    }

    /// Whether a process wants it.
    pub(super) fn is_wanted_by(&self, process: u32) -> bool {
        let wants = (process, Handle(0))..=(process, Handle(u64::MAX));
        self.wanted.range(wants).next().is_some()
    }

    /// The process that it counts against.
    pub(super) fn payer(&self) -> u32 {
        let demands =
            |process: &&u32| self.locks.contains_key(process) || self.is_wanted_by(**process);
        // At least one process has it.
        self.opened.iter().find(demands).or(self.opened.first()).copied().unwrap_or_default()
    }
}
