// SPDX-License-Identifier: MIT OR Apache-2.0

//! The read positions in the logs of a guest's HW queues.

use crate::hardware::{FENCE_LOGS_SIZE, HwQueueId};
use bellhop_protocol::fence_log::{FenceLogEntry, FenceLogType};
use bellhop_protocol::handoff::fence_log::{FenceLog, LogPosition, LogReader};
use std::collections::BTreeMap;

/// Both logs of a queue, in the order of their addresses.
pub(crate) const LOG_TYPES: [FenceLogType; 2] = [FenceLogType::WAITS, FenceLogType::SIGNALS];

/// The read positions in the logs of a queue.
#[derive(Debug, Default)]
pub(crate) struct QueueLogs {
    /// In the order of [`LOG_TYPES`].
    readers: [LogReader; 2],
    read: u64,
    lost: u64,
}

impl QueueLogs {
    /// The reader of one of the logs.
    fn reader(&self, log_type: FenceLogType) -> &LogReader {
        let [waits, signals] = &self.readers;
        if log_type == FenceLogType::WAITS { waits } else { signals }
    }

    /// Whether a log has unread entries before a position.
    pub(crate) fn is_behind(&self, log_type: FenceLogType, position: LogPosition) -> bool {
        self.reader(log_type).is_behind(position)
    }

    /// Hands the new entries of a log before a position to `each`. Returns how many were overwritten before they were
    /// read.
    pub(crate) fn read_entries(
        &mut self,
        (log_type, log): (FenceLogType, &FenceLog<'_>),
        until: LogPosition,
        mut each: impl FnMut(FenceLogEntry),
    ) -> u64 {
        let Self { readers: [waits, signals], read, lost } = self;
        let reader = if log_type == FenceLogType::WAITS { waits } else { signals };
        let gone = reader.read_entries(log, until, |entry| {
            *read += 1;
            each(entry);
        });
        *lost += gone;
        gone
    }

    /// Number of entries that were read.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// Number of entries that were overwritten before they were read.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

/// GPU virtual addresses at which a process finds the logs of its queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MappedLogs {
    /// The log of waits.
    pub(crate) waits: u64,
    /// The log of signals.
    pub(crate) signals: u64,
    /// Entries of each log; 0 if the queue has no logs.
    pub(crate) entries: u32,
}

/// The logs of a guest's queues.
#[derive(Debug, Default)]
pub(crate) struct FenceLogs {
    queues: BTreeMap<HwQueueId, QueueLogs>,
    /// The queue that was read last.
    last: Option<HwQueueId>,
}

impl FenceLogs {
    /// The read positions of a queue's logs.
    pub(crate) fn of(&self, queue: HwQueueId) -> Option<&QueueLogs> {
        self.queues.get(&queue)
    }

    /// The read positions of a queue's logs, mutable.
    pub(crate) fn of_mut(&mut self, queue: HwQueueId) -> Option<&mut QueueLogs> {
        self.queues.get_mut(&queue)
    }

    /// Adds a new queue that has logs.
    pub(crate) fn add(&mut self, queue: HwQueueId) {
        self.queues.insert(queue, QueueLogs::default());
    }

    /// Removes a queue. Returns whether it had logs.
    pub(crate) fn remove(&mut self, queue: HwQueueId) -> bool {
        self.queues.remove(&queue).is_some()
    }

    /// The queues to read next, at most `count`.
    pub(crate) fn next(&mut self, count: usize) -> Vec<HwQueueId> {
        let ids = self.queues.keys().copied();
        let first = self.last.map_or(0, |last| last.0 + 1);
        let later = self.queues.range(HwQueueId(first)..).map(|(id, _)| *id);
        let chosen: Vec<_> = later.chain(ids).take(count.min(self.queues.len())).collect();
        self.last = chosen.last().copied();
        chosen
    }

    /// Bytes that the logs take.
    pub(crate) fn size(&self) -> u64 {
        self.queues.len() as u64 * FENCE_LOGS_SIZE
    }

    /// Whether no queue has logs.
    pub(crate) fn is_unused(&self) -> bool {
        self.queues.is_empty()
    }
}
