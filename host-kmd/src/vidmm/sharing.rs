// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sharing: allocations that several processes have.
//!
//! Such an allocation has one place. It is resident while a process wants it, does not move while a process has it
//! locked, and is destroyed with the last process. It counts once, against its *payer*: the first process to open it
//! of those that want it or have it locked. Host memory that VidMm reserves for it counts against the first process
//! that has it. If it is taken away for lack of room, all processes that want it are suspended.

use super::VidMm;
use super::allocation::Allocation;
use super::error::VidMmError;
use crate::ddi::paging::AllocationId;
use bellhop_protocol::control::Handle;

impl Allocation {
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

impl VidMm {
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
