// SPDX-License-Identifier: MIT OR Apache-2.0

//! Placement: the memory that an allocation gets, and the steps that move it there.

use super::VidMm;
use super::error::VidMmError;
use super::eviction::Need;
use super::segment::{LocalSegment, Place};
use super::step::Step;
use crate::ddi::paging::AllocationId;
use bellhop_protocol::control::allocation::SegmentSet;
use std::ops::Bound::{Excluded, Unbounded};

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

    /// Returns allocations that were taken away to their processes, as far as there is room.
    pub(super) fn restore(&mut self) {
        let lacking = self.processes.iter().filter(|(_, process)| !process.missing.is_empty());
        let lacking: Vec<_> = lacking.map(|(id, _)| *id).collect();
        for process in lacking {
            let begin = self.clock + 1;
            let mut last = AllocationId(0);
            while let Some(id) = self.missing_after(process, last)
                && self.make_present(id, begin).is_ok()
            {
                last = id;
            }
        }
    }

    fn missing_after(&self, process: u32, last: AllocationId) -> Option<AllocationId> {
        let process = self.processes.get(&process)?;
        process.missing.range((Excluded(last), Unbounded)).next().copied()
    }
}
