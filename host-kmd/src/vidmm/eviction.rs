//! Eviction: who makes room for whom.
//!
//! In this order, and within each by priority and then by least recent use:
//!
//! 1. what nobody wants resident;
//! 2. what may go on to live elsewhere: the process's own that is no more important, and, for a
//!    process within its budget, that of processes over theirs;
//!
//! and when the allocation may be nowhere else:
//!
//! 3. the process's own that may live elsewhere, however important;
//! 4. for a process within its budget: what may not live elsewhere of processes over theirs, which
//!    are suspended until they have it again;
//! 5. for a process within its budget, which fits but for how memory is split: what may live
//!    elsewhere of any process.

use super::pool::PageRange;
use super::segment::{LocalSegment, Place};
use super::{VidMm, VidMmError};
use crate::ddi::paging::AllocationId;

/// How much an allocation needs room in a local segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It may be elsewhere.
    Should,
    /// It may be nowhere else.
    Must,
}

/// Who makes room, in this order.
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

/// For what room is made.
#[derive(Debug, Clone, Copy)]
struct Newcomer {
    process: u32,
    size: u64,
    priority: u32,
    /// What was used since makes no room.
    begin: u64,
}

impl VidMm {
    /// Takes room for an allocation in a local segment, and makes it first if need be.
    pub(super) fn take_room(
        &mut self,
        id: AllocationId,
        segment: LocalSegment,
        need: Need,
        begin: u64,
    ) -> Result<Option<PageRange>, VidMmError> {
        let description = &self.get(id)?.description;
        let newcomer = Newcomer {
            process: description.process,
            size: description.size,
            priority: description.priority,
            begin,
        };
        self.take_room_for(newcomer, segment, need)
    }

    fn take_room_for(
        &mut self,
        newcomer: Newcomer,
        segment: LocalSegment,
        need: Need,
    ) -> Result<Option<PageRange>, VidMmError> {
        let local = &mut self.local[segment.index()];
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
        // Nothing is evicted in vain, save where memory is split by what stays.
        let may_go: u64 = self.local[segment.index()]
            .movable
            .iter()
            .filter(|order| order.used < newcomer.begin)
            .filter(|order| {
                rounds
                    .iter()
                    .any(|round| self.makes_room(order.allocation, newcomer, segment, *round))
            })
            .filter_map(|order| self.allocations.get(&order.allocation))
            .map(|allocation| allocation.description.size)
            .sum();
        if self.local[segment.index()].pool.free().saturating_add(may_go) < newcomer.size {
            return Ok(None);
        }
        for round in rounds {
            let candidates: Vec<_> = self.local[segment.index()].movable.iter().copied().collect();
            for order in candidates {
                let id = order.allocation;
                // Budgets change with every one that went.
                if order.used >= newcomer.begin || !self.makes_room(id, newcomer, segment, *round) {
                    continue;
                }
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

    /// Whether an allocation has to make room in this round.
    fn makes_room(
        &self,
        id: AllocationId,
        newcomer: Newcomer,
        segment: LocalSegment,
        round: Round,
    ) -> bool {
        let Some(allocation) = self.allocations.get(&id) else { return false };
        let description = &allocation.description;
        if !allocation.is_wanted() {
            return round == Round::Unwanted;
        }
        let is_own = description.process == newcomer.process;
        let demotable = allocation.lives_at_home();
        let within = self.is_within_budget(newcomer.process, segment, newcomer.size);
        let is_over = !self.is_within_budget(description.process, segment, 0);
        match round {
            Round::Unwanted => false,
            Round::LessImportant if is_own => {
                demotable && description.priority <= newcomer.priority
            }
            Round::LessImportant => demotable && within && is_over,
            Round::Own => demotable && is_own,
            Round::TakenAway => !is_own && !demotable && within && is_over,
            Round::Demoted => !is_own && demotable && within,
        }
    }

    /// An allocation leaves a local segment: to another that it may be evicted to and that has room,
    /// or home.
    fn make_way(&mut self, id: AllocationId, from: LocalSegment) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        let description = &allocation.description;
        let (size, wanted) = (description.size, allocation.is_wanted());
        let process = description.process;
        let targets = description.eviction & description.supported;
        for segment in LocalSegment::ALL {
            if segment != from
                && targets.contains(segment.bit())
                && let Some(range) = self.local[segment.index()].pool.take_for_large_pages(size)
            {
                return self.move_to(id, Place::Local(segment, range));
            }
        }
        if wanted && !self.get(id)?.lives_at_home() {
            self.unmap_all(id)?;
            self.plan.held.insert(process);
            self.change(id, |allocation| allocation.taken = true)?;
            self.ask_to_trim(process);
        }
        self.go_home(id)
    }

    /// There may be room: gives back what was taken away, as far as there is.
    pub(super) fn restore(&mut self) {
        let lacking = self.processes.iter().filter(|(_, process)| process.missing > 0);
        let lacking: Vec<_> = lacking.map(|(id, _)| *id).collect();
        for process in lacking {
            let missing: Vec<_> = self
                .allocations
                .iter()
                .filter(|(_, allocation)| {
                    allocation.description.process == process && allocation.taken
                })
                .map(|(id, _)| *id)
                .collect();
            let begin = self.clock + 1;
            for id in missing {
                if self.make_present(id, begin).is_err() {
                    break;
                }
            }
        }
    }

    /// Takes room in the BAR that stays where it is, for what rings and old drivers need.
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

    /// Takes back what [`Self::take_pinned`] gave. The process may have ended.
    pub(crate) fn give_back_pinned(&mut self, process: u32, range: PageRange) {
        let local = &mut self.local[LocalSegment::Visible.index()];
        local.pinned -= range.length;
        local.pool.give_back(range);
        if let Some(process) = self.processes.get_mut(&process) {
            process.usage[LocalSegment::Visible.index()] -= range.length;
        }
        self.restore();
    }
}
