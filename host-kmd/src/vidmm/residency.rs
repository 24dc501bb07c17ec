// SPDX-License-Identifier: MIT OR Apache-2.0

//! Residency: how many times devices want allocations resident.
//!
//! An allocation that several processes share has one place. It is resident while a process wants it, does not move
//! while a process has it locked, and is destroyed with the last process. It counts once, against its *payer*: the
//! first process to open it of those that want it or have it locked. Host memory that VidMm reserves for it counts against the first process
//! that has it. If it is taken away for lack of room, all processes that want it are suspended.

use super::VidMm;
use super::error::VidMmError;
use super::segment::Place;
use crate::ddi::paging::AllocationId;
use bellhop_protocol::control::Handle;
use std::collections::{BTreeMap, BTreeSet};

impl VidMm {
    /// A device of a process wants allocations resident, one more time each. All or none.
    pub(crate) fn make_resident(
        &mut self,
        process: u32,
        device: Handle,
        ids: &[AllocationId],
    ) -> Result<(), VidMmError> {
        // Allocations used from here on make no room for the rest of the list.
        let begin = self.clock + 1;
        let mut payers = BTreeSet::new();
        let copies: Vec<_> = ids.iter().flat_map(|id| self.copies(*id)).collect();
        for (index, id) in copies.iter().enumerate() {
            self.change(*id, |allocation| {
                let count = allocation.wanted.entry((process, device)).or_insert(0);
                *count = count.saturating_add(1);
            })?;
            if let Err(error) = self.make_present(*id, begin) {
                for id in copies.iter().take(index + 1) {
                    self.evict_one(process, device, *id)?;
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

    /// Checks that a device wants each of these resident at least as many times as the list has it.
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

    /// A device wants one copy of an allocation resident one time less.
    pub(super) fn evict_one(
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

    /// A device closes one copy of an allocation.
    pub(super) fn close_one(
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

    /// Unmaps an allocation that no process wants resident any more.
    pub(super) fn let_go(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        if allocation.is_wanted() {
            return Ok(());
        }
        let was_present = allocation.present;
        self.change(id, |allocation| allocation.taken = None)?;
        self.unmap_all(id)?;
        if was_present && self.get(id)?.place == Place::Home {
            self.notify_eviction(id)?;
        }
        self.may_restore = true;
        Ok(())
    }

    /// Whether page tables map an allocation wherever it has mappings.
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

    /// Whether a process lacks an allocation that it wants resident.
    pub(crate) fn is_suspended(&self, process: u32) -> bool {
        self.processes.get(&process).is_some_and(|process| !process.missing.is_empty())
    }

    /// Another process opens an allocation.
    pub(crate) fn open(&mut self, process: u32, id: AllocationId) -> Result<(), VidMmError> {
        self.change(id, |allocation| {
            if !allocation.opened.contains(&process) {
                allocation.opened.push(process);
            }
        })
    }

    /// A process closes an allocation that others have, with its wants and locks. Its mappings are already removed.
    pub(crate) fn leave_to_others(
        &mut self,
        process: u32,
        id: AllocationId,
    ) -> Result<(), VidMmError> {
        let keeper = self.get(id)?.opened.first().copied();
        self.change(id, |allocation| {
            allocation.wanted.retain(|(of, _), _| *of != process);
            allocation.locks.remove(&process);
            allocation.opened.retain(|other| *other != process);
        })?;
        let allocation = self.get(id)?;
        let kept = allocation.backing.map_or(0, |range| range.length);
        let next = allocation.opened.first().copied();
        if let Some(state) = keeper.and_then(|process| self.processes.get_mut(&process)) {
            state.backing -= kept;
        }
        if let Some(state) = next.and_then(|process| self.processes.get_mut(&process)) {
            state.backing += kept;
        }
        self.let_go(id)
    }
}
