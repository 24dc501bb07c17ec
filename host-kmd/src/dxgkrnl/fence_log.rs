//! Logs of HW queues: given out, mapped, and read when a fence was signaled.
//!
//! What is in an entry is the guest's word, but for its times, and no value is taken from it. Which fences
//! to look at the interrupt says, and what value a fence has the fence says: so where entries were
//! overwritten before they were read, only they are lost. Where the driver's interrupts name queues, logs
//! say which fences to look at, and what was overwritten has all of the guest's looked at.
//!
//! Source: native GPU fence object, "Native fence log buffer design".

use super::error::RequestError;
use super::fence_storage::ValueStorage;
use super::gpu_va::invalidate;
use super::interrupts::Scan;
use super::kernel::Kernel;
use super::pool::PageRange;
use super::retire::Resource;
use super::scope::Scope;
use crate::ddi::paging::PageSize;
use crate::hardware::{
    FENCE_LOGS_SIZE, FenceLogBuffer, GlobalFence, HwQueueId, PhysicalPage, Pte, QueueLog,
};
use crate::port::Effect;
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::fence_log::{FENCE_LOG_ENTRIES, FENCE_LOG_SIZE, FenceLogEntry, FenceLogType};
use bellhop_protocol::handoff::fence_log::LogReader;
use std::collections::{BTreeMap, BTreeSet};

/// Queues whose logs are read each time that a fence of their guest's was signaled: a guest may have
/// thousands, and whoever waits is not to wait for that. Others are read the next times.
const QUEUES_AT_ONCE: usize = 16;

/// Both, in the order of their addresses.
const LOG_TYPES: [FenceLogType; 2] = [FenceLogType::WAITS, FenceLogType::SIGNALS];

/// How far the logs of a queue were read.
#[derive(Debug, Default)]
pub(super) struct QueueLogs {
    readers: [LogReader; 2],
    /// Entries that were read.
    pub(super) read: u64,
    /// Entries that were overwritten before.
    pub(super) lost: u64,
}

/// Where the logs of a queue are to its process: GPU virtual addresses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MappedLogs {
    /// The log of waits.
    pub(super) waits: u64,
    /// The log of signals.
    pub(super) signals: u64,
    /// Entries of each; 0 when there is none.
    pub(super) entries: u32,
}

/// The logs of a guest's queues.
#[derive(Debug, Default)]
pub(super) struct FenceLogs {
    queues: BTreeMap<HwQueueId, QueueLogs>,
    /// The queue that was read last.
    last: Option<HwQueueId>,
}

impl FenceLogs {
    /// What is known of a queue's logs.
    pub(super) fn of(&self, queue: HwQueueId) -> Option<&QueueLogs> {
        self.queues.get(&queue)
    }

    /// The queues whose turn it is to be read, at most so many.
    fn next(&mut self, count: usize) -> Vec<HwQueueId> {
        let ids = self.queues.keys().copied();
        let first = self.last.map_or(0, |last| last.0 + 1);
        let later = self.queues.range(HwQueueId(first)..).map(|(id, _)| *id);
        let chosen: Vec<_> = later.chain(ids).take(count.min(self.queues.len())).collect();
        self.last = chosen.last().copied();
        chosen
    }

    /// Bytes that they take.
    pub(super) fn size(&self) -> u64 {
        self.queues.len() as u64 * FENCE_LOGS_SIZE
    }

    /// Whether there is none.
    pub(super) fn is_unused(&self) -> bool {
        self.queues.is_empty()
    }
}

impl Kernel {
    /// Tells all drivers what to log from now on. They learn of it as they connect their doorbells again.
    ///
    /// Source: native GPU fence object, "UMD payload generation controlled by disconnecting doorbell".
    pub(super) fn set_logging_level(&mut self, level: LoggingLevel, effects: &mut Vec<Effect>) {
        if std::mem::replace(&mut self.logging_level, level) != level {
            // First: it goes with every status that is published.
            self.miniport.update_logging_level(level);
            self.disconnect_doorbells(|_| true, effects);
        }
    }

    /// A queue, or any of a node's, has signaled fences that passed their MonitoredValues, and logged that.
    ///
    /// Source: native GPU fence object, "Optimized Native Fence Signaled Interrupt".
    pub(super) fn fences_logged(
        &mut self,
        node: u32,
        queue: Option<HwQueueId>,
        effects: &mut Vec<Effect>,
    ) {
        let mut queues: BTreeMap<_, Vec<_>> = BTreeMap::new();
        match queue {
            Some(id) => match self.queues.get(&id) {
                Some(owner) => queues.entry(owner.guest).or_default().push(id),
                // Its log is gone with it, which another interrupt tells.
                None => return,
            },
            None => {
                for (id, owner) in self.queues.iter().filter(|(_, owner)| owner.node == node) {
                    queues.entry(owner.guest).or_default().push(*id);
                }
            }
        }
        let mut signaled = Vec::new();
        for (guest, queues) in queues {
            let Some(mut scope) = self.scope(guest, 0, effects) else { continue };
            let slots = scope.signaled_slots(&queues);
            signaled.extend(slots.into_iter().map(|slot| GlobalFence { guest, slot }));
        }
        if !signaled.is_empty() {
            self.fences_signaled(signaled, Scan::default(), effects);
        }
    }
}

impl Scope<'_> {
    fn storage(&self) -> &ValueStorage {
        self.guest.fences.storage()
    }

    /// Maps the logs of the queue whose progress fence is in `slot`, for packets to read. Where there are no
    /// native fences, there is nothing to log.
    pub(super) fn map_logs(&mut self, slot: u32) -> Result<MappedLogs, RequestError> {
        if !self.has_native_fences() {
            return Ok(MappedLogs::default());
        }
        let space = self.process()?.space;
        let entries = LOG_TYPES.map(|log_type| {
            let log = self.storage().log(slot, log_type);
            Pte::new(PhysicalPage { segment: log.segment, address: log.address }, false)
        });
        let va = self.storage().logs_va(slot);
        let mapped = self.miniport.update_page_table(space, va, PageSize::Small, &entries);
        if mapped.is_err() {
            self.unmap_logs(slot);
        }
        mapped?;
        Ok(MappedLogs { waits: va, signals: va + FENCE_LOG_SIZE, entries: FENCE_LOG_ENTRIES })
    }

    /// No packet reaches the logs, once a later quiesce has passed.
    pub(super) fn unmap_logs(&mut self, slot: u32) {
        let Ok(space) = self.process().map(|process| process.space) else { return };
        let range = PageRange { start: self.storage().logs_va(slot), length: FENCE_LOGS_SIZE };
        invalidate(self.miniport, space, range);
    }

    /// Gives a new queue its logs.
    pub(super) fn create_logs(&mut self, queue: HwQueueId, slot: u32) {
        if !self.has_native_fences() {
            return;
        }
        for log_type in LOG_TYPES {
            let storage = self.storage().log(slot, log_type);
            self.miniport.set_native_fence_log_buffer(queue, FenceLogBuffer { log_type, storage });
        }
        self.guest.logs.queues.insert(queue, QueueLogs::default());
    }

    /// A queue is gone, which engines may not know yet.
    pub(super) fn remove_logs(&mut self, queue: HwQueueId, slot: u32) {
        if self.guest.logs.queues.remove(&queue).is_some() {
            self.unmap_logs(slot);
            self.given_up.push(Resource::FenceLogs(slot));
        }
    }

    /// Reads what is new in the logs of some of the guest's queues.
    pub(super) fn read_some_logs(&mut self) {
        let queues = self.guest.logs.next(QUEUES_AT_ONCE);
        self.read_logs(&queues, |_, _| {});
    }

    /// The global fences that new entries of queues' logs are of, or all of the guest's where some were
    /// overwritten. A name that nobody has any more is nobody's fence: who goes on to have that has it
    /// looked at when engines have forgotten the name.
    fn signaled_slots(&mut self, queues: &[HwQueueId]) -> BTreeSet<u32> {
        let mut named = BTreeSet::new();
        let overwritten = self.read_logs(queues, |log, entry| {
            if log.log_type == FenceLogType::SIGNALS {
                named.insert(entry.fence);
            }
        });
        let fences = &self.guest.fences;
        match overwritten {
            0 => named.into_iter().filter_map(|slot| fences.named_by(slot)).collect(),
            _ => fences.globals.keys().copied().collect(),
        }
    }

    /// Reads what is new in the logs of queues, and hands each entry to `each`. Returns how many were
    /// overwritten before. The order is protocol::handoff::fence_log's: positions, the driver's barrier
    /// where there is anything new, entries.
    fn read_logs(
        &mut self,
        queues: &[HwQueueId],
        mut each: impl FnMut(QueueLog, FenceLogEntry),
    ) -> u64 {
        let mut overwritten = 0;
        let mut found = Vec::new();
        for queue in queues.iter().copied() {
            let Some(logs) = self.guest.logs.queues.get(&queue) else { continue };
            for (index, log_type) in LOG_TYPES.into_iter().enumerate() {
                let (Some(reader), log) = (logs.readers.get(index), QueueLog { queue, log_type })
                else {
                    continue;
                };
                self.hardware.with_fence_log(log, &mut |content| {
                    let position = content.position();
                    if reader.is_behind(position) {
                        found.push((log, index, position));
                    }
                });
            }
        }
        if found.is_empty() {
            return 0;
        }
        let mut written: Vec<_> = found.iter().map(|(log, ..)| log.queue).collect();
        written.dedup();
        self.miniport.update_native_fence_logs(&written);
        for (log, index, until) in found {
            let Some(logs) = self.guest.logs.queues.get_mut(&log.queue) else { continue };
            let QueueLogs { readers, read, lost } = logs;
            let Some(reader) = readers.get_mut(index) else { continue };
            self.hardware.with_fence_log(log, &mut |content| {
                let gone = reader.read_entries(&content, until, |entry| {
                    *read += 1;
                    each(log, entry);
                });
                *lost += gone;
                overwritten += gone;
            });
        }
        overwritten
    }
}
