// SPDX-License-Identifier: MIT OR Apache-2.0

//! Budgets: how much of each local segment a process may count on.
//!
//! All processes of a guest have equal shares. A process may exceed its budget while no other process wants the
//! memory. VidMm then asks it to trim, and it must make room for others.

use super::VidMm;
use super::segment::LocalSegment;
use super::step::Notice;

/// A process's information about a local segment (`D3DKMT_QUERYVIDEOMEMORYINFO`), in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SegmentInfo {
    /// Size of the segment.
    pub(crate) size: u64,
    /// Budget of the process.
    pub(crate) budget: u64,
    /// Bytes that the process has resident or locked.
    pub(crate) usage: u64,
}

impl VidMm {
    /// A process's share of a local segment.
    pub(crate) fn info(&self, process: u32, segment: LocalSegment) -> SegmentInfo {
        let Some(local) = self.local.get(segment.index()) else { return SegmentInfo::default() };
        let processes = self.processes.len().max(1) as u64;
        let usage =
            self.processes.get(&process).map_or(0, |process| process.usage[segment.index()]);
        let size = local.pool.length();
        SegmentInfo { size, budget: size / processes, usage }
    }

    /// Used bytes of a local segment.
    pub(crate) fn used(&self, segment: LocalSegment) -> u64 {
        let pool = self.local.get(segment.index()).map(|local| &local.pool);
        pool.map_or(0, |pool| pool.length() - pool.free())
    }

    /// Bytes of backing memory that are reserved for allocations.
    pub(crate) fn used_backing(&self) -> u64 {
        self.backing.length() - self.backing.free()
    }

    /// A process's information about the host memory that is reserved for allocations.
    pub(crate) fn backing_info(&self, process: u32) -> SegmentInfo {
        let usage = self.processes.get(&process).map_or(0, |process| process.backing);
        let size = self.backing.length();
        SegmentInfo { size, budget: size / self.processes.len().max(1) as u64, usage }
    }

    /// Whether a process would stay within its budget with `more` additional bytes.
    pub(super) fn is_within_budget(&self, process: u32, segment: LocalSegment, more: u64) -> bool {
        let info = self.info(process, segment);
        info.usage.saturating_add(more) <= info.budget
    }

    /// Asks a process to trim, if it exceeds its budget.
    pub(super) fn ask_to_trim(&mut self, process: u32) {
        let over = |segment| {
            let info = self.info(process, segment);
            info.usage.saturating_sub(info.budget)
        };
        let bytes: u64 = self.segments().map(over).sum();
        if bytes > 0 {
            self.plan.notices.push(Notice::Trim { process, bytes });
        }
    }
}
