// SPDX-License-Identifier: MIT OR Apache-2.0

//! An engine's log for a tracing tool, in addition to its queues' logs.

use crate::gpu::memory::words::Words;
use bellhop_host_kmd::hardware::EXECUTED;
use bellhop_protocol::fence_log::{FenceLogEntry, FenceLogHeader};
use bellhop_protocol::handoff::fence_log::FenceLog;
use vm_memory::MmapRegion;

/// Maximum pause in nanoseconds between two turns of a queue in one entry.
const PAUSE: u64 = 2_000;
/// Maximum nanoseconds in one entry, so that a tool sees the progress of a busy queue.
const LONGEST: u64 = 1_000_000;

/// An engine's trace log, written and read like a queue's, by `protocol::handoff::fence_log`.
#[derive(Debug)]
pub struct TraceLog(Words);

impl TraceLog {
    /// An empty log, or `None` if there is no memory for it. It takes memory only as it is written.
    pub fn new(entries: u32) -> Option<Self> {
        let size = size_of::<FenceLogHeader>() + entries as usize * size_of::<FenceLogEntry>();
        let region = MmapRegion::new(size).ok()?;
        Words::new(region.into(), 0, size / size_of::<u64>()).map(Self)
    }

    /// The log.
    #[inline]
    pub fn get(&self) -> Option<FenceLog<'_>> {
        FenceLog::new(self.0.get())
    }
}

/// Consecutive turns of one queue, which share an entry: there may be a million turns a second.
#[derive(Debug, Default)]
pub struct Executed {
    queue: u64,
    since: u64,
    until: u64,
    turns: u64,
}

impl Executed {
    /// Adds a turn of a queue. Returns the entry of the earlier turns if this turn begins a new one.
    pub fn add(&mut self, queue: u64, (since, until): (u64, u64)) -> Option<FenceLogEntry> {
        let goes_on = self.queue == queue
            && since.saturating_sub(self.until) <= PAUSE
            && until.saturating_sub(self.since) <= LONGEST;
        let before = if goes_on { None } else { self.take() };
        if self.turns == 0 {
            *self = Self { queue, since, ..Self::default() };
        }
        self.until = until;
        self.turns += 1;
        before
    }

    /// Takes the entry of the turns so far, if there are any.
    pub fn take(&mut self) -> Option<FenceLogEntry> {
        let Self { queue, since, until, turns } = std::mem::take(self);
        (turns > 0).then_some(FenceLogEntry {
            fence_value: turns,
            fence: 0,
            operation: EXECUTED,
            queued_timestamp: 0,
            observed_timestamp: since,
            reserved: queue,
            end_timestamp: until,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(entry: Option<FenceLogEntry>) -> Option<(u64, u64, u64, u64)> {
        entry.map(|e| (e.reserved, e.observed_timestamp, e.end_timestamp, e.fence_value))
    }

    #[test]
    fn consecutive_turns_are_shown_as_one() {
        let mut executed = Executed::default();
        assert_eq!(told(executed.take()), None);
        assert_eq!(told(executed.add(7, (100, 200))), None);
        assert_eq!(told(executed.add(7, (200 + PAUSE, 5000))), None);
        // A turn of another queue, and one after a pause.
        assert_eq!(told(executed.add(8, (5000, 5100))), Some((7, 100, 5000, 2)));
        assert_eq!(told(executed.add(8, (9000, 9100))), Some((8, 5000, 5100, 1)));
        assert_eq!(told(executed.take()), Some((8, 9000, 9100, 1)));
        assert_eq!(told(executed.take()), None);
    }

    #[test]
    fn a_queue_that_is_always_busy_is_always_reported_as_busy() {
        let mut executed = Executed::default();
        let told =
            (0..100).filter_map(|turn| executed.add(7, (turn * 50_000, (turn + 1) * 50_000)));
        let told: Vec<_> = told.collect();
        assert_eq!(told.len(), 4);
        assert!(told.iter().all(|entry| entry.end_timestamp - entry.observed_timestamp == LONGEST));
    }

    #[test]
    fn a_trace_log_has_the_room_that_it_is_given() {
        let log = TraceLog::new(1000).unwrap();
        assert_eq!(log.get().unwrap().number_of_entries(), 1000);
        assert!(TraceLog::new(1).unwrap().get().is_none());
    }
}
