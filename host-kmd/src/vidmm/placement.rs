// SPDX-License-Identifier: MIT OR Apache-2.0

//! Placement: the memory that an allocation gets, and the steps that move it there.

use super::VidMm;
use super::allocation::Description;
use super::error::VidMmError;
use super::eviction::Need;
use super::segment::{LocalSegment, Place};
use super::step::Step;
use crate::ddi::paging::AllocationId;
use bellhop_protocol::control::allocation::SegmentSet;

impl LocalSegment {
    /// Its bit in a set.
    pub(super) const fn bit(self) -> SegmentSet {
        match self {
            Self::Visible => SegmentSet::LOCAL,
            Self::Private(_) => SegmentSet::PRIVATE,
        }
    }
}

impl VidMm {
    /// Makes a wanted allocation present. Allocations used since `begin` make no room.
    pub(super) fn make_present(&mut self, id: AllocationId, begin: u64) -> Result<(), VidMmError> {
        self.touch(id)?;
        let allocation = self.get(id)?;
        if allocation.present {
            return Ok(());
        }
        if allocation.description.notify_eviction && allocation.is_locked() {
            // The driver must not change its bytes while it is locked.
            return Err(VidMmError::InUse);
        }
        self.keep_backing(id)?;
        let allocation = self.get(id)?;
        if allocation.description.keeps_copy && allocation.place == Place::Nowhere {
            self.move_to(id, Place::Home)?;
        }
        if let Some(place) = self.better_place(id, begin)? {
            self.move_to(id, place)?;
        }
        self.change(id, |allocation| {
            (allocation.present, allocation.taken) = (true, false);
            allocation.copied &= !allocation.is_writable();
        })?;
        let allocation = self.get(id)?;
        if !allocation.mappings.is_empty() {
            let mappings = allocation.mappings.values().copied().collect();
            let memory = self.memory(id)?;
            self.plan.steps.push(Step::Map { memory, mappings });
        }
        self.notify_residency(id)
    }

    /// Reserves host memory for an allocation without pages of the guest, so that it can always be evicted.
    pub(super) fn keep_backing(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        if allocation.backing.is_some() || allocation.description.system.is_some() {
            return Ok(());
        }
        let size = allocation.description.size;
        let range = self.backing.take_for_large_pages(size).ok_or(VidMmError::NoBacking(size))?;
        let allocation = self.get_mut(id)?;
        allocation.backing = Some(range);
        let keeper = allocation.opened.first().copied();
        if let Some(process) = keeper.and_then(|process| self.processes.get_mut(&process)) {
            process.backing += range.length;
        }
        Ok(())
    }

    /// The place for an allocation that is about to be present. `None` if it is there already.
    fn better_place(&mut self, id: AllocationId, begin: u64) -> Result<Option<Place>, VidMmError> {
        let allocation = self.get(id)?;
        let description = &allocation.description;
        let (supported, preferred) = (description.supported, description.preferred);
        let payer = allocation.payer();
        if allocation.is_locked() {
            return Ok(None);
        }
        if let Place::Local(segment, _) = allocation.place
            && supported.contains(segment.bit())
        {
            return Ok(None);
        }
        let home = (allocation.place != Place::Home).then_some(Place::Home);
        let locals = self.local_order(id)?;
        if !allocation.lives_at_home() {
            for segment in locals {
                if let Some(range) = self.take_room(payer, id, segment, Need::Must, begin)? {
                    return Ok(Some(Place::Local(segment, range)));
                }
            }
            return Err(self.why_not(id));
        }
        if preferred.contains(SegmentSet::SYSTEM) {
            return Ok(home);
        }
        for segment in locals {
            if let Some(range) = self.take_room(payer, id, segment, Need::Should, begin)? {
                return Ok(Some(Place::Local(segment, range)));
            }
        }
        Ok(home)
    }

    /// The local segments that an allocation supports, the preferred one first. Without a preference, `cpu_visible`
    /// decides which comes first.
    pub(super) fn local_order(&self, id: AllocationId) -> Result<Vec<LocalSegment>, VidMmError> {
        let description = &self.get(id)?.description;
        let mut locals: Vec<_> = LocalSegment::of(description.gpu)
            .into_iter()
            .filter(|segment| description.supported.contains(segment.bit()))
            .collect();
        let private_first = match description.preferred {
            preferred if preferred.contains(SegmentSet::PRIVATE) => true,
            preferred if preferred.contains(SegmentSet::LOCAL) => false,
            _ => !description.cpu_visible,
        };
        if private_first {
            locals.reverse();
        }
        Ok(locals)
    }

    /// Why an allocation that must be local cannot be.
    fn why_not(&self, id: AllocationId) -> VidMmError {
        let Ok(allocation) = self.get(id) else { return VidMmError::Unknown };
        let (process, supported) = (allocation.payer(), allocation.description.supported);
        let gpu = allocation.description.gpu;
        if supported == SegmentSet::PRIVATE && self.is_withdrawn(LocalSegment::Private(gpu)) {
            return VidMmError::NoGpu;
        }
        // Includes the process's other allocations that must be in these segments.
        let demand = self.processes.get(&process).map(|process| &process.demand);
        let wanted = demand
            .into_iter()
            .flatten()
            .filter(|((of, segments), _)| {
                let segments = SegmentSet::from_bits_retain(*segments);
                // Those of other GPUs may not be in this one's private memory.
                supported.contains(segments)
                    && (*of == gpu || !segments.contains(SegmentSet::PRIVATE))
            })
            .map(|(_, bytes)| *bytes)
            .fold(0, u64::saturating_add);
        let there_is: u64 = LocalSegment::of(gpu)
            .into_iter()
            .filter(|segment| supported.contains(segment.bit()))
            .map(|segment| self.local[segment.index()].pool.length())
            .sum();
        if wanted > there_is {
            VidMmError::NeverFits(wanted)
        } else {
            VidMmError::NoRoom(allocation.description.size)
        }
    }

    /// Moves an allocation's bytes and mappings. The caller has taken `to` for it.
    pub(super) fn move_to(&mut self, id: AllocationId, to: Place) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        let from = allocation.place;
        let length = allocation.description.size;
        let mapped = allocation.present && !allocation.mappings.is_empty();
        let copied = allocation.copied;
        let mappings: Vec<_> = allocation.mappings.values().copied().collect();
        let (before, after) = (self.memory_at(id, from)?, self.memory_at(id, to)?);
        let Some(after) = after else { return Err(VidMmError::Unknown) };
        self.concern_all(id)?;
        if mapped && let Some(memory) = &before {
            self.hold_all(id)?;
            self.plan
                .steps
                .push(Step::Unmap { memory: memory.clone(), mappings: mappings.clone() });
        }
        match (from, before) {
            // The copy at home is current: "without transfer to a backing store".
            (Place::Local(segment, range), _) if to == Place::Home && copied => {
                self.discard(segment, range);
            }
            (_, Some(from)) => {
                self.plan.steps.push(Step::Copy { from, to: after.clone(), length });
            }
            (_, None) => self.plan.steps.push(Step::Zero { memory: after.clone(), length }),
        }
        if self.get(id)?.present {
            // After the copy, which the driver encodes as the pages were.
            self.notify_io_mmu_unmap(id)?;
        }
        if mapped {
            self.plan.steps.push(Step::Map { memory: after, mappings });
        }
        self.leave(id, to)?;
        self.change(id, |allocation| {
            let Description { keeps_copy, notify_io_mmu_unmap, ref system, .. } =
                allocation.description;
            // Engines have forgotten the guest's own pages.
            let forgotten = allocation.present && notify_io_mmu_unmap && system.is_some();
            let kept = keeps_copy && !forgotten && !allocation.is_writable();
            allocation.copied = kept && (from == Place::Home || copied);
        })?;
        // The driver learns the place of a non-resident allocation when it becomes resident.
        if self.get(id)?.present { self.notify_residency(id) } else { Ok(()) }
    }

    /// Adds all processes that have an allocation to those that the next plan concerns.
    fn concern_all(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let allocation = self.allocations.get(&id).ok_or(VidMmError::Unknown)?;
        self.plan.concerned.extend(&allocation.opened);
        Ok(())
    }

    /// Suspends the processes that have an allocation while the next plan is carried out.
    pub(super) fn hold_all(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let allocation = self.allocations.get(&id).ok_or(VidMmError::Unknown)?;
        self.plan.held.extend(&allocation.opened);
        Ok(())
    }

    /// Sets the place of an allocation, and frees the old one.
    pub(super) fn leave(&mut self, id: AllocationId, to: Place) -> Result<(), VidMmError> {
        let from = self.get(id)?.place;
        self.change(id, |allocation| allocation.place = to)?;
        if let Place::Local(segment, range) = from {
            self.local[segment.index()].pool.give_back(range);
        }
        Ok(())
    }

    /// Removes the page-table entries of an allocation.
    pub(super) fn unmap_all(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        if !allocation.present {
            return Ok(());
        }
        if !allocation.mappings.is_empty() {
            let mappings = allocation.mappings.values().copied().collect();
            let memory = self.memory(id)?;
            self.plan.steps.push(Step::Unmap { memory, mappings });
        }
        self.change(id, |allocation| allocation.present = false)?;
        self.notify_residency(id)
    }

    /// Tells the driver the place of a physically accessed allocation: "notification that residency has changed
    /// (AccessedPhysically allocations only) after fill/transfer".
    fn notify_residency(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        if allocation.description.accessed_physically {
            let address = allocation.physical_address().filter(|_| allocation.present);
            self.concern_all(id)?;
            self.plan.steps.push(Step::NotifyResidency { allocation: id, address });
        }
        Ok(())
    }

    /// The reference's steps for an allocation in the implicit system memory segment that leaves device access. It is
    /// unmapped already.
    pub(super) fn notify_eviction(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        if allocation.description.notify_eviction {
            let length = allocation.description.size;
            let memory = self.memory(id)?;
            self.concern_all(id)?;
            self.plan.steps.push(Step::NotifyEviction { allocation: id, memory, length });
        }
        self.notify_io_mmu_unmap(id)
    }

    /// The steps for an allocation that leaves the guest's own pages: devices no longer access those.
    pub(super) fn notify_io_mmu_unmap(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        let is_own = allocation.place == Place::Home && allocation.description.system.is_some();
        if allocation.description.notify_io_mmu_unmap && is_own {
            let length = allocation.description.size;
            let memory = self.memory(id)?;
            self.plan.steps.push(Step::NotifyIoMmuUnmap { allocation: id, memory, length });
        }
        Ok(())
    }

    /// Evicts an allocation to its home.
    pub(super) fn go_home(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        self.move_to(id, Place::Home)?;
        if self.get(id)?.present {
            return Ok(());
        }
        // It passes through the implicit system memory segment out of device access, with its bytes as the driver
        // encoded them, so it is evicted from that segment.
        self.notify_eviction(id)
    }
}
