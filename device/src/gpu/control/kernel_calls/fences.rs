// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences, and the fence logs of HW queues.

use super::{Gpu, each};
use bellhop_host_kmd::hardware::{
    AddressSpaceId, FenceLogBuffer, FenceLogs, FenceStorage, Fences, GuestId, HwQueueId, QueueLog,
    SlotValue, UnknownId,
};
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::handoff::fence::FenceCell;
use bellhop_protocol::handoff::fence_log::FenceLog;

impl Fences for Gpu {
    fn create_fence(
        &self,
        guest: GuestId,
        slot: u32,
        storage: FenceStorage,
        initial: Option<u64>,
    ) -> Result<(), UnknownId> {
        let was_made = self.guest(guest)?.create_fence(slot, storage, initial);
        was_made.then_some(()).ok_or(UnknownId::Storage(storage.current))
    }

    fn open_fence(
        &self,
        guest: GuestId,
        slot: u32,
        global: u32,
        owner: AddressSpaceId,
    ) -> Result<(), UnknownId> {
        self.guest(guest)?.fences().open(slot, global, owner);
        Ok(())
    }

    fn close_fence(&self, guest: GuestId, slot: u32) -> Result<(), UnknownId> {
        let partition = self.guest(guest)?;
        self.chip.release_waiters(partition.fences().close(slot, partition.bar()));
        Ok(())
    }

    fn fence_value(&self, guest: GuestId, slot: u32) -> Result<u64, UnknownId> {
        let partition = self.guest(guest)?;
        let fence = partition.fence(slot).ok_or(UnknownId::FenceSlot(slot))?;
        Ok(fence.cell.current())
    }

    fn update_monitored_values(
        &self,
        guest: GuestId,
        values: &[SlotValue],
    ) -> Result<(), UnknownId> {
        let partition = self.guest(guest)?;
        FenceCell::monitor(
            values.iter().filter_map(|SlotValue { slot, value }| {
                Some((partition.fence(*slot)?.cell, *value))
            }),
        );
        each(values, |SlotValue { slot, .. }| {
            partition.fence(*slot).map(|_| ()).ok_or(UnknownId::FenceSlot(*slot))
        })
    }

    fn update_current_values(
        &self,
        guest: GuestId,
        values: &[SlotValue],
        always: bool,
    ) -> Result<(), UnknownId> {
        let partition = self.guest(guest)?;
        each(values, |SlotValue { slot, value }| {
            let fence = partition.fence(*slot).ok_or(UnknownId::FenceSlot(*slot))?;
            if always {
                // First: a later signal then counts as one that goes backwards.
                self.chip.release_waiters(fence.abandon().engines);
            }
            // If an engine's signal got further, there is nothing to do. The caller finds the CPU waits that the
            // value releases.
            if let Ok(signaled) = fence.cell.signal(fence.published, *value) {
                self.chip.release_waiters(signaled.engines);
            }
            Ok(())
        })
    }

    fn notify_current_values(
        &self,
        guest: GuestId,
        slots: &[u32],
        always: bool,
    ) -> Result<(), UnknownId> {
        let partition = self.guest(guest)?;
        each(slots, |slot| {
            let fence = partition.fence(*slot).ok_or(UnknownId::FenceSlot(*slot))?;
            let signaled =
                if always { fence.abandon() } else { fence.cell.evaluate(fence.published) };
            // The caller finds the CPU waits that the value releases.
            self.chip.release_waiters(signaled.engines);
            Ok(())
        })
    }
}

impl FenceLogs for Gpu {
    fn set_fence_log(&self, queue: HwQueueId, log: FenceLogBuffer) -> Result<(), UnknownId> {
        let queue = self.queue(queue)?;
        let was_set = queue.partition.set_fence_log(&queue.logs, log);
        was_set.then_some(()).ok_or(UnknownId::Storage(log.storage))
    }

    fn with_fence_log(
        &self,
        log: QueueLog,
        act: &mut dyn FnMut(FenceLog<'_>),
    ) -> Result<(), UnknownId> {
        let QueueLog { queue, log_type } = log;
        let known = self.queue(queue)?;
        let content = known.logs.get(log_type);
        act(content.ok_or(UnknownId::FenceLog { queue, log_type })?);
        Ok(())
    }

    fn flush_fence_logs(&self, _queues: &[HwQueueId]) {
        // One barrier serves all queues.
        FenceLog::<0>::flush();
    }

    fn set_logging_level(&self, level: LoggingLevel) {
        self.chip.set_logging_level(level);
    }
}
