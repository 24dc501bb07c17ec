// SPDX-License-Identifier: MIT OR Apache-2.0

//! Placement: the memory that an allocation gets, and the steps that move it there.

use super::VidMm;
use super::error::VidMmError;
use super::eviction::Need;
use super::segment::{Group, LocalSegment, Movable, Place};
use super::step::Step;
use crate::ddi::paging::AllocationId;
use bellhop_protocol::control::allocation::SegmentSet;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// Allocations that no process wants resident, by segment and start.
type UnwantedPlaces = BTreeMap<(usize, u64), AllocationId>;

/// Maximum allocations that are looked at to return others to their old places, in one plan. The rest go where there is
/// room.
const MOST_LOOKS: usize = 1 << 16;

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
            (allocation.present, allocation.taken) = (true, None);
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
        if let Some(place) = self.old_place(id)? {
            return Ok(Some(place));
        }
        let allocation = self.get(id)?;
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
        let mut unwanted = self.unwanted_places();
        let mut looks = 0;
        for process in lacking {
            let begin = self.clock + 1;
            let mut last = AllocationId(0);
            while let Some(id) = self.missing_after(process, last)
                && self.clear_old_place(id, &mut unwanted, &mut looks).is_ok()
                && self.make_present(id, begin).is_ok()
            {
                last = id;
            }
        }
    }

    /// The allocations in local segments that no process wants resident, by place.
    fn unwanted_places(&self) -> UnwantedPlaces {
        let unwanted = self.local.iter().filter_map(|local| local.movable.get(&Group::Unwanted));
        let places = unwanted.flat_map(Movable::iter).filter_map(|order| {
            let id = order.allocation;
            match self.allocations.get(&id)?.place {
                Place::Local(segment, range) => Some(((segment.index(), range.start), id)),
                _ => None,
            }
        });
        places.collect()
    }

    /// Evicts what lies where an allocation was taken away, if no process wants that. So what fitted before fits again,
    /// whatever the sizes: elsewhere, the parts of its room could be too small for it.
    fn clear_old_place(
        &mut self,
        id: AllocationId,
        unwanted: &mut UnwantedPlaces,
        looks: &mut usize,
    ) -> Result<(), VidMmError> {
        let Some(Place::Local(segment, range)) = self.get(id)?.taken else { return Ok(()) };
        let index = segment.index();
        let mut in_the_way = Vec::new();
        for start in self.local[index].pool.taken_in(range) {
            *looks += 1;
            match unwanted.get(&(index, start)) {
                Some(id) if *looks <= MOST_LOOKS => in_the_way.push((start, *id)),
                _ => return Ok(()),
            }
        }
        for (start, id) in in_the_way {
            unwanted.remove(&(index, start));
            // It may have made room for another one meanwhile.
            let is_there =
                |place| matches!(place, Place::Local(of, at) if of == segment && at.start == start);
            if self.allocations.get(&id).is_some_and(|allocation| is_there(allocation.place)) {
                self.make_way(id, segment)?;
            }
        }
        Ok(())
    }

    /// Takes the place that an allocation was taken away from, if that is free.
    fn old_place(&mut self, id: AllocationId) -> Result<Option<Place>, VidMmError> {
        let Some(place @ Place::Local(segment, range)) = self.get(id)?.taken else {
            return Ok(None);
        };
        if self.is_withdrawn(segment) {
            return Ok(None);
        }
        let taken = self.local[segment.index()].pool.take_at(range.start, range.length);
        Ok(taken.map(|_| place))
    }

    fn missing_after(&self, process: u32, last: AllocationId) -> Option<AllocationId> {
        let process = self.processes.get(&process)?;
        process.missing.range((Excluded(last), Unbounded)).next().copied()
    }
}
