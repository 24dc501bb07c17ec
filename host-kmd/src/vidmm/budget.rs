//! Budgets: how much of each local segment a process may count on.
//!
//! All processes of a guest have equal shares. One may have more as long as nobody else wants it; it
//! is then asked to trim, and is the one that has to make room.

use super::VidMm;
use super::segment::LocalSegment;
use super::step::Notice;

/// What a process is told of a local segment (`D3DKMT_QUERYVIDEOMEMORYINFO`), in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SegmentInfo {
    /// All of it.
    pub(crate) size: u64,
    /// What the process may count on.
    pub(crate) budget: u64,
    /// What the process has resident or locked.
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

    /// Bytes of a local segment that are given out.
    pub(crate) fn used(&self, segment: LocalSegment) -> u64 {
        let pool = self.local.get(segment.index()).map(|local| &local.pool);
        pool.map_or(0, |pool| pool.length() - pool.free())
    }

    /// Bytes of backing memory that are kept for allocations.
    pub(crate) fn used_backing(&self) -> u64 {
        self.backing.length() - self.backing.free()
    }

    /// The host memory that is kept for allocations which are at home there.
    pub(crate) fn backing_info(&self, process: u32) -> SegmentInfo {
        let usage = self.processes.get(&process).map_or(0, |process| process.backing);
        let size = self.backing.length();
        SegmentInfo { size, budget: size / self.processes.len().max(1) as u64, usage }
    }

    /// Whether a process would be within its budget with so many bytes more.
    pub(super) fn is_within_budget(&self, process: u32, segment: LocalSegment, more: u64) -> bool {
        let info = self.info(process, segment);
        info.usage.saturating_add(more) <= info.budget
    }

    /// Asks a process to trim, if it has more than its budget.
    pub(super) fn ask_to_trim(&mut self, process: u32) {
        let over = |segment| {
            let info = self.info(process, segment);
            info.usage.saturating_sub(info.budget)
        };
        let bytes: u64 = LocalSegment::ALL.into_iter().map(over).sum();
        if bytes > 0 {
            self.plan.notices.push(Notice::Trim { process, bytes });
        }
    }
}
