// SPDX-License-Identifier: MIT OR Apache-2.0

//! Page migration: allocations that engines use move back to their preferred memory, without a request.
//!
//! Engines record accesses in page tables. VidMm checks all mappings in turn, a part at a time; a *pass* ends when it
//! has checked each. An allocation used in a pass counts as used now, so the least recently used ones make room. An
//! allocation at home that should be local moves back if it was used in two passes in a row, and if there is room or
//! an allocation there of no higher priority was used in neither pass. So no allocation moves back and forth with
//! each pass, and a pass moves a bounded number of bytes.
//!
//! Source: "Page Migration" of the Windows KMD overview.

use super::VidMm;
use super::allocation::Allocation;
use super::error::VidMmError;
use super::eviction::Need;
use super::segment::{LocalSegment, Place};
use super::standing::UsePass;
use super::step::Mapping;
use crate::ddi::paging::AllocationId;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::SegmentSet;
use std::cmp::Reverse;
use std::ops::Bound::{Excluded, Unbounded};

/// Maximum page-table entries per check. An allocation and a mapping count as [`OVERHEAD`].
const MOST_ENTRIES: u64 = 1 << 16;
const OVERHEAD: u64 = 16;
/// Maximum bytes of a mapping per query.
const CHUNK: u64 = 16 << 20;
/// Maximum bytes that a pass brings back. One allocation may always come back.
const MOST_MOVED: u64 = 32 << 20;
/// Maximum allocations that a pass remembers to bring back.
const MOST_FOUND: usize = 256;

impl Allocation {
    /// Whether it is resident in system memory and should be in a local segment.
    fn is_away(&self) -> bool {
        let local = SegmentSet::LOCAL | SegmentSet::PRIVATE;
        self.present
            && self.place == Place::Home
            && !self.is_locked()
            && self.description.supported.intersects(local)
            && !self.description.preferred.contains(SegmentSet::SYSTEM)
    }
}

impl VidMm {
    /// Checks the next mappings. `was_used` tells whether engines have accessed a part of a mapping since the last
    /// query. Returns whether there were mappings. The next plan brings allocations back.
    pub(crate) fn look(
        &mut self,
        mut was_used: impl FnMut(&Mapping) -> bool,
    ) -> Result<bool, VidMmError> {
        let (mut entries, mut looked) = (0, false);
        while entries < MOST_ENTRIES {
            let UsePass { allocation, mapping, offset, .. } = self.looks;
            let found = self.allocations.get(&allocation).filter(|allocation| allocation.present);
            let found = found.and_then(|found| found.mappings.range(mapping..).next());
            if let Some((key, found)) = found {
                // The mapping may have been removed since the last check.
                let offset = if *key == mapping { offset } else { 0 };
                let length = found.length.saturating_sub(offset).min(CHUNK);
                let gpu_va = found.gpu_va + offset;
                let part = Mapping { gpu_va, length, offset: found.offset + offset, ..*found };
                let (space, start) = *key;
                let is_whole = offset + length >= found.length;
                looked = true;
                self.looks.used |= was_used(&part);
                (self.looks.mapping, self.looks.offset) = if is_whole {
                    ((space, start + PAGE_SIZE), 0)
                } else {
                    (*key, offset + length)
                };
                entries += OVERHEAD + length / PAGE_SIZE;
                continue;
            }
            if self.looks.used {
                self.was_used(allocation)?;
            }
            let next = self.allocations.range((Excluded(allocation), Unbounded)).next();
            let next = next.map(|(id, _)| *id);
            self.looks.allocation = next.unwrap_or(AllocationId(0));
            (self.looks.mapping, self.looks.offset, self.looks.used) = ((0, 0), 0, false);
            if next.is_none() {
                self.bring_back()?;
                break;
            }
            entries += OVERHEAD;
        }
        Ok(looked)
    }

    /// Records that engines used an allocation in this pass.
    fn was_used(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        // The allocation may be gone.
        let Ok(allocation) = self.get(id) else { return Ok(()) };
        let again = allocation.used >= self.looks.before;
        if again && allocation.is_away() && self.looks.found.len() < MOST_FOUND {
            self.looks.found.push(id);
        }
        self.touch(id)
    }

    /// Ends a pass and brings back the allocations that it found.
    fn bring_back(&mut self) -> Result<(), VidMmError> {
        let mut found = std::mem::take(&mut self.looks.found);
        found.sort_by_key(|id| {
            Reverse(self.get(*id).map_or(0, |allocation| allocation.description.priority))
        });
        // Allocations used since the previous pass began make no room.
        let before = self.looks.before;
        let mut moved = 0;
        for id in found {
            let Ok(allocation) = self.get(id) else { continue };
            let size = allocation.description.size;
            if !allocation.is_away() || moved > 0 && size > MOST_MOVED.saturating_sub(moved) {
                continue;
            }
            for segment in self.local_order(id)? {
                if self.bring_to(id, segment, before)? {
                    moved += size;
                    break;
                }
            }
        }
        (self.looks.before, self.looks.begin) = (self.looks.begin, self.clock + 1);
        Ok(())
    }

    fn bring_to(
        &mut self,
        id: AllocationId,
        segment: LocalSegment,
        before: u64,
    ) -> Result<bool, VidMmError> {
        let payer = self.get(id)?.payer();
        let Some(range) = self.take_room(payer, id, segment, Need::Should, before)? else {
            return Ok(false);
        };
        self.move_to(id, Place::Local(segment, range))?;
        Ok(true)
    }
}
