// SPDX-License-Identifier: MIT OR Apache-2.0

//! Moves: the steps that take an allocation to another place, and those whom a step concerns.

use super::VidMm;
use super::allocation::Description;
use super::error::VidMmError;
use super::segment::Place;
use super::step::Step;
use crate::ddi::paging::AllocationId;

impl VidMm {
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
    pub(super) fn notify_residency(&mut self, id: AllocationId) -> Result<(), VidMmError> {
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
}
