// SPDX-License-Identifier: MIT OR Apache-2.0

//! Counting: each change of an allocation keeps the books of its segment and its process.

use super::VidMm;
use super::allocation::{Allocation, Description};
use super::error::VidMmError;
use super::standing::Standing;
use super::step::Notice;
use crate::ddi::paging::AllocationId;
use crate::hardware::GpuOrdinal;
use bellhop_protocol::control::allocation::SegmentSet;

impl VidMm {
    /// Changes an allocation and updates the books. Nothing else may change counted fields.
    pub(super) fn change(
        &mut self,
        id: AllocationId,
        change: impl FnOnce(&mut Allocation),
    ) -> Result<(), VidMmError> {
        let allocation = self.allocations.get_mut(&id).ok_or(VidMmError::Unknown)?;
        let before = allocation.standing(id);
        change(allocation);
        let after = allocation.standing(id);
        let Description { size, supported, gpu, .. } = allocation.description;
        self.uncount(&before, size, (gpu, supported))?;
        self.count(&after, size, (gpu, supported))?;
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

    /// Counts an allocation of `size` bytes that supports these segments of a GPU.
    fn count(
        &mut self,
        standing: &Standing,
        size: u64,
        (gpu, supported): (GpuOrdinal, SegmentSet),
    ) -> Result<(), VidMmError> {
        let state = self.processes.get_mut(&standing.payer).ok_or(VidMmError::Unknown)?;
        if let Some(stay) = &standing.stay {
            let local = &mut self.local[stay.segment.index()];
            if stay.locked {
                local.pinned += size;
            } else {
                local.insert(stay.group, stay.order, size);
            }
            state.usage[stay.segment.index()] += if stay.counts { size } else { 0 };
        }
        if standing.demanded {
            // The guest chooses the sizes: they may exceed all memory.
            let demand = state.demand.entry((gpu, supported.bits())).or_default();
            *demand = demand.saturating_add(size);
        }
        Ok(())
    }

    /// Undoes [`Self::count`].
    fn uncount(
        &mut self,
        standing: &Standing,
        size: u64,
        (gpu, supported): (GpuOrdinal, SegmentSet),
    ) -> Result<(), VidMmError> {
        let state = self.processes.get_mut(&standing.payer).ok_or(VidMmError::Unknown)?;
        if let Some(stay) = &standing.stay {
            let local = &mut self.local[stay.segment.index()];
            if stay.locked {
                local.pinned -= size;
            } else {
                local.remove(stay.group, stay.order, size);
            }
            state.usage[stay.segment.index()] -= if stay.counts { size } else { 0 };
        }
        if standing.demanded {
            let demand = state.demand.entry((gpu, supported.bits())).or_default();
            *demand = demand.saturating_sub(size);
        }
        Ok(())
    }

    /// Marks an allocation as used now.
    pub(crate) fn touch(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        self.clock += 1;
        let now = self.clock;
        self.change(id, |allocation| allocation.used = now)
    }
}
