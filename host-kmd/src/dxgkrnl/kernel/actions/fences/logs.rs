// SPDX-License-Identifier: MIT OR Apache-2.0

//! The logs of HW queues: mapped, unmapped, and read after a signal.
//!
//! The guest can write every field of its log entries but their times, so the kernel takes no value from an entry.
//! The interrupt names the fences, and each fence holds its value: an entry overwritten before it is read is lost,
//! but nothing else is. If the driver's interrupts name queues instead, the logs name the fences; after an
//! overwritten entry the kernel checks all fences of the guest.
//!
//! Source: native GPU fence object, "Native fence log buffer design".

use crate::ddi::paging::PageSize;
use crate::dxgkrnl::fence::log::{LOG_TYPES, MappedLogs};
use crate::dxgkrnl::fence::storage::ValueStorage;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::memory::page_tables::invalidate_entries;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Resource;
use crate::hardware::{
    FENCE_LOGS_SIZE, FenceLogBuffer, HwQueueId, PhysicalPage, Pte, QueueLog, Reported as _,
    UnknownId,
};
use crate::vidmm::pool::PageRange;
use bellhop_protocol::fence_log::{FENCE_LOG_ENTRIES, FENCE_LOG_SIZE, FenceLogEntry, FenceLogType};
use std::collections::BTreeSet;

/// Number of queues with logs that the kernel reads when a fence of their guest is signaled. A guest may have
/// thousands of queues, and ending a wait must not take that long. The next signals read the other logs.
pub(crate) const QUEUES_AT_ONCE: usize = 16;

impl ProcessAccess<'_> {
    /// Where the values and logs of the guest's fences are.
    fn storage(&self) -> &ValueStorage {
        self.guest.fences.storage()
    }

    /// Maps the logs of a queue for packets to read; `slot` is that of its progress fence. Without native fences
    /// there is nothing to log.
    pub(crate) fn map_logs(&mut self, slot: u32) -> Result<MappedLogs, RequestError> {
        if !self.guest.has_native_fences() {
            return Ok(MappedLogs::default());
        }
        let space = self.process()?.space();
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

    /// Unmaps the logs. Once a later quiesce has passed, no packet reaches them.
    pub(crate) fn unmap_logs(&mut self, slot: u32) {
        let Ok(space) = self.process().map(|process| process.space()) else { return };
        let range = PageRange { start: self.storage().logs_va(slot), length: FENCE_LOGS_SIZE };
        invalidate_entries(self.miniport, space, range);
    }

    /// Gives a new queue its logs.
    pub(crate) fn create_logs(&mut self, queue: HwQueueId, slot: u32) -> Result<(), UnknownId> {
        if !self.guest.has_native_fences() {
            return Ok(());
        }
        self.guest.logs.add(queue);
        for log_type in LOG_TYPES {
            let storage = self.storage().log(slot, log_type);
            let log = FenceLogBuffer { log_type, storage };
            self.miniport.set_native_fence_log_buffer(queue, log)?;
        }
        Ok(())
    }

    /// Removes the logs of a destroyed queue, which engines may still know.
    pub(crate) fn remove_logs(&mut self, queue: HwQueueId, slot: u32) {
        if self.guest.logs.remove(queue) {
            self.unmap_logs(slot);
            self.give_up(Resource::FenceLogs(slot));
        }
    }

    /// Reads the new entries in the logs of some of the guest's queues.
    pub(crate) fn read_some_logs(&mut self) {
        let queues = self.guest.logs.next(QUEUES_AT_ONCE);
        self.read_logs(&queues, |_, _| {});
    }

    /// The global fences that new entries of the queues' logs name, or all fences of the guest if entries were
    /// overwritten. A slot that no process has any more names no fence; the kernel checks that fence when engines
    /// have forgotten the slot.
    pub(crate) fn signaled_slots(&mut self, queues: &[HwQueueId]) -> BTreeSet<u32> {
        let mut named = BTreeSet::new();
        let overwritten = self.read_logs(queues, |log, entry| {
            if log.log_type == FenceLogType::SIGNALS {
                named.insert(entry.fence);
            }
        });
        let fences = &self.guest.fences;
        match overwritten {
            0 => named.into_iter().filter_map(|slot| fences.named_by(slot)).collect(),
            _ => fences.slots().collect(),
        }
    }

    /// Reads the new entries in the logs of queues, and hands each to `each`. Returns how many were overwritten
    /// before they were read. The order is that of protocol::handoff::fence_log: positions, the driver's barrier if
    /// there are new entries, entries.
    fn read_logs(
        &mut self,
        queues: &[HwQueueId],
        mut each: impl FnMut(QueueLog, FenceLogEntry),
    ) -> u64 {
        let mut overwritten = 0;
        let mut found = Vec::new();
        for queue in queues.iter().copied() {
            let Some(logs) = self.guest.logs.of(queue) else { continue };
            for log_type in LOG_TYPES {
                let log = QueueLog { queue, log_type };
                self.platform
                    .with_fence_log(log, &mut |content| {
                        let position = content.position();
                        if logs.is_behind(log_type, position) {
                            found.push((log, position));
                        }
                    })
                    .reported();
            }
        }
        if found.is_empty() {
            return 0;
        }
        let mut written: Vec<_> = found.iter().map(|(log, ..)| log.queue).collect();
        written.dedup();
        self.miniport.update_native_fence_logs(&written);
        for (log, until) in found {
            let Some(logs) = self.guest.logs.of_mut(log.queue) else { continue };
            self.platform
                .with_fence_log(log, &mut |content| {
                    let entries = (log.log_type, &content);
                    overwritten += logs.read_entries(entries, until, |entry| each(log, entry));
                })
                .reported();
        }
        overwritten
    }
}
