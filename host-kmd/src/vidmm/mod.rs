// SPDX-License-Identifier: MIT OR Apache-2.0

//! VidMm: where each allocation is, and which allocations have to make room.
//!
//! A state machine without I/O, one for each guest. A decision changes the state at once, and comes out as a
//! [`Plan`] of steps that the guest's system context carries out in their order. So VidMm never waits, and a request
//! is answered when its last step is done.
//!
//! - An allocation is described when it is created. It takes memory when it is first made resident or locked.
//! - It is in one place: in a local segment, or at *home* in the implicit system memory segment. Home is the guest's
//!   own pages when the allocation was made of some, and otherwise host memory (the hardware's backing segment) that
//!   VidMm reserves for its life. So an eviction never fails.
//! - A resident allocation that may be resident at home is *demoted* there, and engines still reach it. One that may
//!   not is *taken away*, and only from a process over its budget for a process within its own. The contexts of the
//!   process are suspended until all is resident again.
//! - An allocation that its owner has evicted stays in place, unmapped, until another needs the room.
//! - Several processes may share an allocation. See `sharing`.
//!
//! Source: "Memory Manager" of the Windows KMD overview; "Allocation notification".

mod budget;
mod eviction;
mod migration;
pub(crate) mod operations;
mod placement;
pub(crate) mod pool;
pub(crate) mod segment;
mod sharing;
pub(crate) mod step;
#[cfg(test)]
mod tests;

use crate::ddi::paging::{APERTURE_START, AllocationId};
use crate::hardware::{AddressSpaceId, Segment};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{Extent, SegmentSet};
use migration::Looks;
use pool::{PagePool, PageRange};
use segment::{EvictionOrder, Group, LocalMemory, LocalSegment, Memory, Place};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use step::{Mapping, Notice, Plan, Step};

/// Why something cannot be resident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VidMmError {
    /// It can never be resident, whatever makes room.
    #[error("{0} bytes can never be resident together")]
    NeverFits(u64),
    /// Others within their budgets have the memory, or it is locked.
    #[error("there is no room for {0} bytes now")]
    NoRoom(u64),
    /// There is no host memory for it when it is evicted.
    #[error("there is no backing memory for {0} bytes")]
    NoBacking(u64),
    /// It cannot be locked as it is.
    #[error("the allocation cannot be locked")]
    NotLockable,
    /// It is locked, or under device access where that must not be.
    #[error("the allocation is in use")]
    InUse,
    /// It is not locked, or not resident on this device.
    #[error("there is nothing to undo")]
    Unbalanced,
    /// There is no such allocation or process: a mistake of the caller's.
    #[error("VidMm does not know it")]
    Unknown,
}

/// What an allocation is created as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    /// The process that creates it.
    pub(crate) process: u32,
    /// Bytes, whole pages.
    pub(crate) size: u64,
    /// Segments that it may be resident in.
    pub(crate) supported: SegmentSet,
    /// The one of them that it should be in; none lets VidMm decide.
    pub(crate) preferred: SegmentSet,
    /// Local segments that it may be moved to before it goes home.
    pub(crate) eviction: SegmentSet,
    /// A copy of it is always kept at home, even when it is in a local segment.
    pub(crate) keeps_copy: bool,
    /// Whether it may be locked.
    pub(crate) cpu_visible: bool,
    /// Its priority.
    pub(crate) priority: u32,
    /// Engines access it by physical address, and the driver is told which one that is.
    pub(crate) accessed_physically: bool,
    /// The driver wants to be notified before it is evicted.
    pub(crate) notify_eviction: bool,
    /// The driver wants to be notified before it leaves the guest's own pages.
    pub(crate) notify_io_mmu_unmap: bool,
    /// The guest's own pages that it is made of. It supports the system segment then.
    pub(crate) system: Option<Memory>,
}

#[derive(Debug)]
struct Allocation {
    description: Description,
    place: Place,
    /// The host memory that is kept for it.
    backing: Option<PageRange>,
    /// The processes that have it, in the order in which they opened it.
    opened: Vec<u32>,
    /// How often each device of each process wants it resident.
    wanted: BTreeMap<(u32, Handle), u32>,
    /// Whether it has its copy at home while it is in a local segment: it could not be written there.
    copied: bool,
    /// Whether page tables lead to it.
    present: bool,
    /// Whether it was taken away although it is wanted.
    taken: bool,
    /// How often each process has it locked.
    locks: BTreeMap<u32, u32>,
    used: u64,
    mappings: BTreeMap<(u64, u64), Mapping>,
}

impl Allocation {
    fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    fn is_locked(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Whether engines may write it.
    fn is_writable(&self) -> bool {
        self.present && self.mappings.values().any(|mapping| mapping.writable)
    }

    /// What is counted of it.
    fn standing(&self, allocation: AllocationId) -> Standing {
        let lacking = if self.taken { self.wanted_by().collect() } else { BTreeSet::new() };
        let (payer, stay) = (self.payer(), self.stay(allocation));
        Standing { payer, stay, demanded: self.is_demanded(), lacking }
    }

    /// Its stay in a local segment, if it is in one.
    fn stay(&self, allocation: AllocationId) -> Option<Stay> {
        let Place::Local(segment, _) = self.place else { return None };
        let (priority, used) = (self.description.priority, self.used);
        let order = EvictionOrder { priority, used, allocation };
        let (process, demotable) = (self.payer(), self.lives_at_home());
        let group = match self.is_wanted() {
            true => Group::Wanted { process, demotable },
            false => Group::Unwanted,
        };
        Some(Stay { segment, group, order, locked: self.is_locked(), counts: self.is_demanded() })
    }

    /// Where its first byte is to engines that access it physically: in its local segment, or at home
    /// in the aperture, if it is mapped there.
    fn physical_address(&self) -> Option<u64> {
        match self.place {
            Place::Nowhere => None,
            Place::Local(segment, range) => Some(segment.physical_address(range)),
            // What processes map is below.
            Place::Home => {
                let mut addresses = self.mappings.values().map(|mapping| mapping.gpu_va);
                addresses.find(|address| *address >= APERTURE_START)
            }
        }
    }

    /// Whether it is to be somewhere in any case.
    fn is_demanded(&self) -> bool {
        self.is_wanted() || self.is_locked()
    }

    /// Whether it may be resident at home.
    fn lives_at_home(&self) -> bool {
        self.description.supported.contains(SegmentSet::SYSTEM)
    }
}

/// What is counted of an allocation.
struct Standing {
    payer: u32,
    stay: Option<Stay>,
    /// Whether it is to be somewhere in any case.
    demanded: bool,
    /// The processes that want it, if it was taken away.
    lacking: BTreeSet<u32>,
}

/// What is counted of an allocation in a local segment.
struct Stay {
    segment: LocalSegment,
    group: Group,
    order: EvictionOrder,
    locked: bool,
    /// Against its process's budget.
    counts: bool,
}

#[derive(Debug, Default)]
struct Process {
    /// Bytes that it has resident or locked in each local segment.
    usage: [u64; 2],
    /// Bytes that it wants resident or locked, wherever they are, by the segments that they support
    /// ([`SegmentSet::bits`]).
    demand: BTreeMap<u32, u64>,
    /// Bytes of host memory that are kept for its allocations.
    backing: u64,
    /// Allocations that it wants resident and that were taken away.
    missing: BTreeSet<AllocationId>,
}

/// Memory of one guest.
#[derive(Debug)]
pub(crate) struct VidMm {
    local: [LocalMemory; 2],
    backing: PagePool,
    allocations: BTreeMap<AllocationId, Allocation>,
    processes: BTreeMap<u32, Process>,
    last_id: u64,
    /// Counts uses.
    clock: u64,
    /// Whether there may be room for what was taken away.
    may_restore: bool,
    /// What engines use.
    looks: Looks,
    plan: Plan,
}

impl VidMm {
    /// Memory of which nothing is used, in bytes.
    pub(crate) fn new(visible: u64, private: u64, backing: u64) -> Self {
        Self {
            local: [LocalMemory::new(visible), LocalMemory::new(private)],
            backing: PagePool::new(0, backing),
            allocations: BTreeMap::new(),
            processes: BTreeMap::new(),
            last_id: 0,
            clock: 0,
            may_restore: false,
            looks: Looks::default(),
            plan: Plan::default(),
        }
    }

    /// The guest has put its CPU-visible local memory into its own. None of it is used.
    pub(crate) fn donate(&mut self, length: u64, extents: Arc<[Extent]>) {
        let donated = Some(Memory { segment: Segment::System, extents });
        self.local[0] = LocalMemory { donated, ..LocalMemory::new(length) };
    }

    /// What has been decided since the last call, and what was taken away given back as far as there
    /// is room now: once, however much became free.
    pub(crate) fn take_plan(&mut self) -> Plan {
        if std::mem::take(&mut self.may_restore) {
            self.restore();
        }
        std::mem::take(&mut self.plan)
    }

    /// Whether something has been decided since.
    pub(crate) fn has_plan(&self) -> bool {
        !self.plan.steps.is_empty() || !self.plan.held.is_empty()
    }

    /// Whether nothing is used.
    pub(crate) fn is_unused(&self) -> bool {
        self.allocations.is_empty()
            && self.processes.is_empty()
            && self.local.iter().all(|local| local.pool.is_unused() && local.pinned == 0)
            && self.backing.is_unused()
    }

    /// A process begins: budgets of the others shrink.
    pub(crate) fn add_process(&mut self, process: u32) {
        self.processes.insert(process, Process::default());
        for other in self.processes.keys().copied().collect::<Vec<_>>() {
            self.ask_to_trim(other);
        }
    }

    /// A process ended, and its allocations before it: budgets of the others grow.
    pub(crate) fn remove_process(&mut self, process: u32) {
        self.processes.remove(&process);
        self.may_restore = true;
    }

    /// Describes an allocation. It takes no memory.
    pub(crate) fn create(&mut self, description: Description) -> AllocationId {
        self.last_id += 1;
        let id = AllocationId(self.last_id);
        // What is made of the guest's own pages is there already.
        let place = if description.system.is_some() { Place::Home } else { Place::Nowhere };
        let allocation = Allocation {
            opened: vec![description.process],
            description,
            place,
            backing: None,
            wanted: BTreeMap::new(),
            copied: false,
            present: false,
            taken: false,
            locks: BTreeMap::new(),
            used: 0,
            mappings: BTreeMap::new(),
        };
        self.allocations.insert(id, allocation);
        id
    }

    /// Forgets an allocation and frees its local memory, which later steps may use.
    pub(crate) fn destroy(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let was_present = self.get(id)?.present;
        self.unmap_all(id)?;
        if was_present {
            self.notify_io_mmu_unmap(id)?;
        }
        self.change(id, |allocation| {
            allocation.wanted.clear();
            allocation.locks.clear();
            allocation.taken = false;
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

    /// Tells the driver that the content of a local range is not needed: "evict an allocation from local memory
    /// (without transfer to a backing store)". The next use of the range comes after that in the plan.
    fn discard(&mut self, segment: LocalSegment, range: PageRange) {
        let address = segment.physical_address(range);
        self.plan.steps.push(Step::Discard { address, length: range.length });
    }

    /// Takes back host memory that a plan freed, once its steps are done.
    pub(crate) fn give_back(&mut self, range: PageRange) {
        self.backing.give_back(range);
    }

    /// A device of a process wants allocations resident, once more. All or none.
    pub(crate) fn make_resident(
        &mut self,
        process: u32,
        device: Handle,
        ids: &[AllocationId],
    ) -> Result<(), VidMmError> {
        // What is used from here on makes no room for the rest of the list.
        let begin = self.clock + 1;
        let mut payers = BTreeSet::new();
        for (index, id) in ids.iter().enumerate() {
            self.change(*id, |allocation| {
                let count = allocation.wanted.entry((process, device)).or_insert(0);
                *count = count.saturating_add(1);
            })?;
            if let Err(error) = self.make_present(*id, begin) {
                for id in ids.iter().take(index + 1) {
                    self.evict(process, device, *id)?;
                }
                return Err(error);
            }
            payers.insert(self.get(*id)?.payer());
        }
        for payer in payers {
            self.ask_to_trim(payer);
        }
        Ok(())
    }

    /// Whether a device wants each of these resident as often as it is in the list.
    pub(crate) fn check_evict(
        &self,
        process: u32,
        device: Handle,
        ids: &[AllocationId],
    ) -> Result<(), VidMmError> {
        let mut left = BTreeMap::new();
        for id in ids {
            let wanted = self.get(*id)?.wanted.get(&(process, device)).copied().unwrap_or(0);
            let left = left.entry(*id).or_insert(wanted);
            *left = left.checked_sub(1).ok_or(VidMmError::Unbalanced)?;
        }
        Ok(())
    }

    /// A device wants an allocation resident once less.
    pub(crate) fn evict(
        &mut self,
        process: u32,
        device: Handle,
        id: AllocationId,
    ) -> Result<(), VidMmError> {
        let wants = (process, device);
        if !self.get(id)?.wanted.contains_key(&wants) {
            return Err(VidMmError::Unbalanced);
        }
        self.change(id, |allocation| {
            if let Some(count) = allocation.wanted.get_mut(&wants) {
                *count -= 1;
                if *count == 0 {
                    allocation.wanted.remove(&wants);
                }
            }
        })?;
        self.let_go(id)
    }

    /// A device closes an allocation, however often it wants it resident.
    pub(crate) fn close(
        &mut self,
        process: u32,
        device: Handle,
        id: AllocationId,
    ) -> Result<(), VidMmError> {
        self.change(id, |allocation| {
            allocation.wanted.remove(&(process, device));
        })?;
        self.let_go(id)
    }

    /// Notes that no process wants an allocation resident any more, if so.
    fn let_go(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        if allocation.is_wanted() {
            return Ok(());
        }
        let was_present = allocation.present;
        self.change(id, |allocation| allocation.taken = false)?;
        self.unmap_all(id)?;
        if was_present && self.get(id)?.place == Place::Home {
            self.notify_eviction(id)?;
        }
        self.may_restore = true;
        Ok(())
    }

    /// Sets an allocation's priority.
    pub(crate) fn set_priority(&mut self, id: AllocationId, to: u32) -> Result<(), VidMmError> {
        self.change(id, |allocation| allocation.description.priority = to)
    }

    /// An allocation is used now.
    pub(crate) fn touch(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        self.clock += 1;
        let now = self.clock;
        self.change(id, |allocation| allocation.used = now)
    }

    /// Maps a part of an allocation where nothing is mapped.
    pub(crate) fn map(&mut self, id: AllocationId, mapping: Mapping) -> Result<(), VidMmError> {
        self.touch(id)?;
        let allocation = self.get_mut(id)?;
        allocation.mappings.insert((mapping.space.0, mapping.gpu_va), mapping);
        allocation.copied &= !allocation.is_writable();
        if allocation.present {
            let memory = self.memory(id)?;
            self.plan.steps.push(Step::Map { memory, mappings: vec![mapping] });
        }
        Ok(())
    }

    /// Undoes one mapping.
    pub(crate) fn unmap(
        &mut self,
        id: AllocationId,
        space: AddressSpaceId,
        gpu_va: u64,
    ) -> Result<(), VidMmError> {
        let allocation = self.get_mut(id)?;
        let mapping =
            allocation.mappings.remove(&(space.0, gpu_va)).ok_or(VidMmError::Unbalanced)?;
        if allocation.present {
            let memory = self.memory(id)?;
            self.plan.steps.push(Step::Unmap { memory, mappings: vec![mapping] });
        }
        Ok(())
    }

    /// Nothing of a process may be executed while the next plan is carried out: it takes mappings away
    /// that are there again after it.
    pub(crate) fn hold(&mut self, process: u32) {
        self.plan.held.insert(process);
    }

    /// Zeroes a range that [`Self::take_pinned`] gave.
    pub(crate) fn zero_pinned(&mut self, process: u32, range: PageRange) -> Memory {
        let memory = self.local_memory(LocalSegment::Visible, range);
        let length = range.length;
        self.plan.steps.push(Step::Zero { memory: memory.clone(), length });
        self.plan.concerned.insert(process);
        memory
    }

    /// Whether page tables lead to an allocation, as long as its mappings are there.
    pub(crate) fn is_present(&self, id: AllocationId) -> bool {
        self.allocations.get(&id).is_some_and(|allocation| allocation.present)
    }

    /// Whether a process wants an allocation resident.
    pub(crate) fn is_wanted_by(&self, process: u32, id: AllocationId) -> bool {
        let allocation = self.allocations.get(&id);
        allocation.is_some_and(|allocation| allocation.is_wanted_by(process))
    }

    /// Whether a process has an allocation locked.
    pub(crate) fn is_locked_by(&self, process: u32, id: AllocationId) -> bool {
        self.allocations.get(&id).is_some_and(|allocation| allocation.locks.contains_key(&process))
    }

    /// Whether a process lacks something that it wants resident.
    pub(crate) fn is_suspended(&self, process: u32) -> bool {
        self.processes.get(&process).is_some_and(|process| !process.missing.is_empty())
    }

    fn get(&self, id: AllocationId) -> Result<&Allocation, VidMmError> {
        self.allocations.get(&id).ok_or(VidMmError::Unknown)
    }

    fn get_mut(&mut self, id: AllocationId) -> Result<&mut Allocation, VidMmError> {
        self.allocations.get_mut(&id).ok_or(VidMmError::Unknown)
    }

    /// Where an allocation is that has memory.
    pub(crate) fn memory(&self, id: AllocationId) -> Result<Memory, VidMmError> {
        let place = self.get(id)?.place;
        self.memory_at(id, place)?.ok_or(VidMmError::Unknown)
    }

    fn memory_at(&self, id: AllocationId, place: Place) -> Result<Option<Memory>, VidMmError> {
        let allocation = self.get(id)?;
        Ok(match place {
            Place::Nowhere => None,
            Place::Local(segment, range) => Some(self.local_memory(segment, range)),
            Place::Home => match (&allocation.description.system, allocation.backing) {
                (Some(system), _) => Some(system.clone()),
                (None, Some(range)) => Some(Memory::range(Segment::Backing, range)),
                (None, None) => None,
            },
        })
    }

    /// A range of a local segment, wherever its bytes are.
    pub(crate) fn local_memory(&self, segment: LocalSegment, range: PageRange) -> Memory {
        match (&self.local[segment.index()].donated, segment) {
            (Some(donated), _) => {
                let extents = donated.runs(range.start, range.length).collect();
                Memory { segment: donated.segment, extents }
            }
            (None, LocalSegment::Visible) => Memory::range(Segment::Local, range),
            (None, LocalSegment::Private) => Memory::range(Segment::Private, range),
        }
    }

    /// Changes an allocation, and what is counted of it: the only way to do so.
    fn change(
        &mut self,
        id: AllocationId,
        change: impl FnOnce(&mut Allocation),
    ) -> Result<(), VidMmError> {
        let allocation = self.allocations.get_mut(&id).ok_or(VidMmError::Unknown)?;
        let before = allocation.standing(id);
        change(allocation);
        let after = allocation.standing(id);
        let Description { size, supported, .. } = allocation.description;
        self.uncount(&before, size, supported)?;
        self.count(&after, size, supported)?;
        for process in after.lacking.difference(&before.lacking) {
            let state = self.processes.get_mut(process).ok_or(VidMmError::Unknown)?;
            if state.missing.insert(id) && state.missing.len() == 1 {
                self.plan.notices.push(Notice::Suspend(*process));
            }
        }
        for process in before.lacking.difference(&after.lacking) {
            let state = self.processes.get_mut(process).ok_or(VidMmError::Unknown)?;
            if state.missing.remove(&id) && state.missing.is_empty() {
                self.plan.notices.push(Notice::Resume(*process));
            }
        }
        Ok(())
    }

    /// Counts an allocation of `size` bytes that supports these segments.
    fn count(
        &mut self,
        standing: &Standing,
        size: u64,
        supported: SegmentSet,
    ) -> Result<(), VidMmError> {
        let state = self.processes.get_mut(&standing.payer).ok_or(VidMmError::Unknown)?;
        if let Some(stay) = &standing.stay {
            let local = &mut self.local[stay.segment.index()];
            match stay.locked {
                true => local.pinned += size,
                false => local.insert(stay.group, stay.order, size),
            }
            state.usage[stay.segment.index()] += if stay.counts { size } else { 0 };
        }
        if standing.demanded {
            // Of a guest's choosing: more than there is memory anywhere.
            let demand = state.demand.entry(supported.bits()).or_default();
            *demand = demand.saturating_add(size);
        }
        Ok(())
    }

    /// The opposite.
    fn uncount(
        &mut self,
        standing: &Standing,
        size: u64,
        supported: SegmentSet,
    ) -> Result<(), VidMmError> {
        let state = self.processes.get_mut(&standing.payer).ok_or(VidMmError::Unknown)?;
        if let Some(stay) = &standing.stay {
            let local = &mut self.local[stay.segment.index()];
            match stay.locked {
                true => local.pinned -= size,
                false => local.remove(stay.group, stay.order, size),
            }
            state.usage[stay.segment.index()] -= if stay.counts { size } else { 0 };
        }
        if standing.demanded {
            let demand = state.demand.entry(supported.bits()).or_default();
            *demand = demand.saturating_sub(size);
        }
        Ok(())
    }
}
