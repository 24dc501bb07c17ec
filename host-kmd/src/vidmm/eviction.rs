// SPDX-License-Identifier: MIT OR Apache-2.0

//! Eviction: which allocations make room for which.
//!
//! Allocations make room in this order, and within each group by priority and then by least recent use:
//!
//! 1. allocations that no process wants resident;
//! 2. allocations that may be resident elsewhere: those of the process that are no more important, and, for a process
//!    within its budget, those of processes over theirs;
//!
//! and if the newcomer may be resident nowhere else:
//!
//! 3. allocations of the process that may be resident elsewhere, of any priority;
//! 4. for a process within its budget: allocations of processes over theirs that may not be resident elsewhere. Those
//!    processes are suspended until they have them back;
//! 5. for a process within its budget, if only fragmentation stands in the way: allocations of any process that may
//!    be resident elsewhere.

use super::VidMm;
use super::error::VidMmError;
use super::pool::PageRange;
use super::segment::{EvictionOrder, Group, LocalMemory, LocalSegment, Place};
use crate::ddi::paging::AllocationId;
use crate::hardware::GpuOrdinal;

/// How urgently an allocation needs room in a local segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// The allocation may be resident elsewhere.
    Should,
    /// The allocation may be resident nowhere else.
    Must,
}

/// The groups that make room, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    Unwanted,
    LessImportant,
    Own,
    TakenAway,
    Demoted,
}

const ROUNDS: [Round; 5] =
    [Round::Unwanted, Round::LessImportant, Round::Own, Round::TakenAway, Round::Demoted];

/// Maximum allocations that move for one that may be resident elsewhere.
const MOST_MOVED: u32 = 1024;

/// The allocation that needs room.
#[derive(Debug, Clone, Copy)]
struct Newcomer {
    process: u32,
    size: u64,
    priority: u32,
    /// Allocations used since this count make no room.
    begin: u64,
}

impl VidMm {
    /// Takes room for an allocation in a local segment, evicting others if necessary. The room counts against this
    /// process.
    pub(super) fn take_room(
        &mut self,
        process: u32,
        id: AllocationId,
        segment: LocalSegment,
        need: Need,
        begin: u64,
    ) -> Result<Option<PageRange>, VidMmError> {
        let description = &self.get(id)?.description;
        let newcomer =
            Newcomer { process, size: description.size, priority: description.priority, begin };
        self.take_room_for(newcomer, segment, need)
    }

    fn take_room_for(
        &mut self,
        newcomer: Newcomer,
        segment: LocalSegment,
        need: Need,
    ) -> Result<Option<PageRange>, VidMmError> {
        let local = &mut self.local[segment.index()];
        if local.is_withdrawn {
            return Ok(None);
        }
        if let Some(range) = local.pool.take_for_large_pages(newcomer.size) {
            return Ok(Some(range));
        }
        if local.pool.length().saturating_sub(local.pinned) < newcomer.size {
            return Ok(None);
        }
        let rounds = match need {
            Need::Should => &ROUNDS[..2],
            Need::Must => &ROUNDS[..],
        };
        if !self.may_find_room(newcomer, segment, rounds) {
            return Ok(None);
        }
        let mut moved = 0;
        for round in rounds {
            let mut last = None;
            while let Some(order) = self.candidate(newcomer, segment, *round, last) {
                if need == Need::Should && moved == MOST_MOVED {
                    return Ok(None);
                }
                (last, moved) = (Some(order), moved + 1);
                let id = order.allocation;
                let Place::Local(_, range) = self.get(id)?.place else { continue };
                let hole = self.local[segment.index()].pool.hole_around(range);
                self.make_way(id, segment)?;
                let pool = &mut self.local[segment.index()].pool;
                if hole >= newcomer.size
                    && let Some(range) = pool.take_for_large_pages(newcomer.size)
                {
                    return Ok(Some(range));
                }
            }
        }
        Ok(None)
    }

    /// Whether there is enough room, or can be. VidMm evicts nothing in vain, except if allocations that stay
    /// fragment the memory.
    fn may_find_room(&self, newcomer: Newcomer, segment: LocalSegment, rounds: &[Round]) -> bool {
        let local = &self.local[segment.index()];
        let missing = newcomer.size.saturating_sub(local.pool.free());
        let at_most: u64 = local
            .movable
            .iter()
            .filter(|(group, _)| {
                rounds
                    .iter()
                    .any(|round| self.priorities(**group, newcomer, segment, *round).is_some())
            })
            .map(|(_, movable)| movable.bytes())
            .sum();
        if at_most < missing || rounds.len() == ROUNDS.len() {
            return at_most >= missing;
        }
        // The sum of the groups includes allocations that are too important or were used too recently.
        let mut found = 0;
        let mut moved = 0;
        for round in rounds {
            let mut last = None;
            while found < missing
                && moved < MOST_MOVED
                && let Some(order) = self.candidate(newcomer, segment, *round, last)
            {
                (last, moved) = (Some(order), moved + 1);
                let allocation = self.allocations.get(&order.allocation);
                found += allocation.map_or(0, |allocation| allocation.description.size);
            }
        }
        found >= missing
    }

    /// The next allocation after `last` that makes room in a round.
    fn candidate(
        &self,
        newcomer: Newcomer,
        segment: LocalSegment,
        round: Round,
        last: Option<EvictionOrder>,
    ) -> Option<EvictionOrder> {
        let groups = self.local[segment.index()].movable.iter();
        groups
            .filter_map(|(group, movable)| {
                let most = self.priorities(*group, newcomer, segment, round)?;
                movable.next(last, most, newcomer.begin)
            })
            .min()
    }

    /// The highest priority in a group that makes room in a round; `None` if the group makes none.
    fn priorities(
        &self,
        group: Group,
        newcomer: Newcomer,
        segment: LocalSegment,
        round: Round,
    ) -> Option<u32> {
        let Group::Wanted { process, demotable } = group else {
            return (round == Round::Unwanted).then_some(u32::MAX);
        };
        let is_own = process == newcomer.process;
        let within = || self.is_within_budget(newcomer.process, segment, newcomer.size);
        let is_over = || !self.is_within_budget(process, segment, 0);
        let makes_room = match round {
            Round::Unwanted => false,
            Round::LessImportant if is_own => {
                return demotable.then_some(newcomer.priority);
            }
            Round::LessImportant => demotable && is_over() && within(),
            Round::Own => demotable && is_own,
            Round::TakenAway => !is_own && !demotable && is_over() && within(),
            Round::Demoted => !is_own && demotable && within(),
        };
        makes_room.then_some(u32::MAX)
    }

    /// Evicts an allocation from a local segment: to another segment that it supports for eviction and that has room,
    /// or home.
    pub(super) fn make_way(
        &mut self,
        id: AllocationId,
        from: LocalSegment,
    ) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        let description = &allocation.description;
        let (size, wanted) = (description.size, allocation.is_wanted());
        let targets = description.eviction & description.supported;
        for segment in LocalSegment::of(self.get(id)?.description.gpu) {
            if segment != from
                && !self.is_withdrawn(segment)
                && targets.contains(segment.bit())
                && let Some(range) = self.local[segment.index()].pool.take_for_large_pages(size)
            {
                return self.move_to(id, Place::Local(segment, range));
            }
        }
        if wanted && !self.get(id)?.lives_at_home() {
            self.unmap_all(id)?;
            self.hold_all(id)?;
            self.change(id, |allocation| allocation.taken = Some(allocation.place))?;
            let payer = self.get(id)?.payer();
            self.ask_to_trim(payer);
        }
        self.go_home(id)
    }

    /// Whether a process wants something that is in a GPU's private memory.
    pub(crate) fn is_needed(&self, gpu: GpuOrdinal) -> bool {
        let local = self.local.get(LocalSegment::Private(gpu).index());
        // The group of what no process wants is the first.
        let last = |local: &LocalMemory| local.movable.keys().next_back().copied();
        local.is_some_and(|local| {
            local.pinned > 0 || last(local).is_some_and(|group| group != Group::Unwanted)
        })
    }

    /// A GPU's private memory, if nothing is in it.
    pub(crate) fn empty_memory_of(&self, gpu: GpuOrdinal) -> Option<PageRange> {
        let local = self.local.get(LocalSegment::Private(gpu).index())?;
        local.pool.whole().filter(|_| local.pinned == 0)
    }

    /// Evicts what no process wants resident from a GPU's private memory. Something stays if there is no room for it
    /// elsewhere.
    pub(crate) fn vacate(&mut self, gpu: GpuOrdinal) {
        let segment = LocalSegment::Private(gpu);
        let next = |local: &LocalMemory| {
            local.movable.get(&Group::Unwanted)?.next(None, u32::MAX, u64::MAX)
        };
        let mut last = None;
        while let Some(order) = self.local.get(segment.index()).and_then(next)
            && last != Some(order)
            && self.make_way(order.allocation, segment).is_ok()
        {
            last = Some(order);
        }
    }

    /// Takes room in the BAR that never moves, for rings and for drivers of fixed allocations.
    pub(crate) fn take_pinned(
        &mut self,
        process: u32,
        size: u64,
    ) -> Result<Option<PageRange>, VidMmError> {
        let begin = self.clock + 1;
        let newcomer = Newcomer { process, size, priority: u32::MAX, begin };
        let range = self.take_room_for(newcomer, LocalSegment::Visible, Need::Must)?;
        if range.is_some() {
            self.local[LocalSegment::Visible.index()].pinned += size;
            if let Some(process) = self.processes.get_mut(&process) {
                process.usage[LocalSegment::Visible.index()] += size;
            }
        }
        Ok(range)
    }

    /// Frees a range that [`Self::take_pinned`] took. The process may be gone.
    pub(crate) fn give_back_pinned(&mut self, process: u32, range: PageRange) {
        let local = &mut self.local[LocalSegment::Visible.index()];
        local.pinned -= range.length;
        local.pool.give_back(range);
        self.discard(LocalSegment::Visible, range);
        if let Some(process) = self.processes.get_mut(&process) {
            process.usage[LocalSegment::Visible.index()] -= range.length;
        }
        self.may_restore = true;
    }
}
