// SPDX-License-Identifier: MIT OR Apache-2.0

//! Mappings of allocations, and the memory that they map.

use super::VidMm;
use super::error::VidMmError;
use super::pool::PageRange;
use super::segment::{LocalSegment, Memory, Place};
use super::step::{Mapping, Step};
use crate::ddi::paging::AllocationId;
use crate::hardware::{AddressSpaceId, Segment};

impl VidMm {
    /// Maps one copy of an allocation: see [`Self::map`].
    pub(super) fn map_one(&mut self, id: AllocationId, mapping: Mapping) -> Result<(), VidMmError> {
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

    /// Removes a mapping of one copy.
    pub(super) fn unmap_one(
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

    /// The memory of an allocation that has some.
    pub(crate) fn memory(&self, id: AllocationId) -> Result<Memory, VidMmError> {
        let place = self.get(id)?.place;
        self.memory_at(id, place)?.ok_or(VidMmError::Unknown)
    }

    pub(super) fn memory_at(
        &self,
        id: AllocationId,
        place: Place,
    ) -> Result<Option<Memory>, VidMmError> {
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

    /// The memory of a range of a local segment, which may be donated.
    pub(crate) fn local_memory(&self, segment: LocalSegment, range: PageRange) -> Memory {
        match (&self.local[segment.index()].donated, segment) {
            (Some(donated), _) => {
                let extents = donated.runs(range.start, range.length).collect();
                Memory { segment: donated.segment, extents }
            }
            (None, LocalSegment::Visible) => Memory::range(Segment::Local, range),
            (None, LocalSegment::Private(_)) => Memory::range(Segment::Private, range),
        }
    }

    /// Zeroes a range that [`Self::take_pinned`] took.
    pub(crate) fn zero_pinned(&mut self, process: u32, range: PageRange) -> Memory {
        let memory = self.local_memory(LocalSegment::Visible, range);
        let length = range.length;
        self.plan.steps.push(Step::Zero { memory: memory.clone(), length });
        self.plan.concerned.insert(process);
        memory
    }
}
