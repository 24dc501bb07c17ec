// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences, and the fence logs of HW queues.

use super::{Gpu, each};
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, CurrentValues, FenceLogBuffer, FenceLogContents, FenceLogs, FenceStorage,
    Fences, GuestId, HwQueueId, QueueLog, SlotValue, UnknownId,
};
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::handoff::fence::FenceCell;
use bellhop_protocol::handoff::fence_log::FenceLog;
use std::sync::Arc;

/// Whether one of these fences of a guest is published, and whether it has all of them.
fn published(
    partition: &Partition,
    slots: impl Iterator<Item = u32>,
) -> (bool, Result<(), UnknownId>) {
    slots.fold((false, Ok(())), |(published, known), slot| match partition.fence(slot) {
        Some(fence) => (published || fence.published().is_some(), known),
        None => (published, known.and(Err(UnknownId::FenceSlot(slot)))),
    })
}

impl Gpu {
    /// Does something with a guest's fences, which touches memory that the guest has if they are published.
    fn publishing<T: Send + 'static>(
        &self,
        partition: &Arc<Partition>,
        are_published: bool,
        act: impl FnOnce(&Arc<Partition>) -> T + Send + 'static,
    ) -> Option<T> {
        if are_published { self.hand.touch(partition, act) } else { Some(act(partition)) }
    }
}

impl Fences for Gpu {
    fn create_fence(
        &self,
        guest: GuestId,
        slot: u32,
        storage: FenceStorage,
        initial: Option<u64>,
    ) -> Result<(), UnknownId> {
        let create =
            move |partition: &Arc<Partition>| partition.create_fence(slot, storage, initial);
        let was_made = self.publishing(&self.guest(guest)?, storage.published, create);
        was_made.unwrap_or(true).then_some(()).ok_or(UnknownId::Storage(storage.current))
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
}

impl CurrentValues for Gpu {
    fn fence_value(&self, guest: GuestId, slot: u32) -> Result<u64, UnknownId> {
        let partition = self.guest(guest)?;
        let fence = partition.fence(slot).ok_or(UnknownId::FenceSlot(slot))?;
        Ok(fence.cell.current())
    }

    fn update_current_values(
        &self,
        guest: GuestId,
        values: &[SlotValue],
        always: bool,
    ) -> Result<(), UnknownId> {
        let partition = self.guest(guest)?;
        let (are_published, known) = published(&partition, values.iter().map(|value| value.slot));
        let values = values.to_vec();
        let engines = self.publishing(&partition, are_published, move |partition| {
            // Once the guest is given up, its slots may become other fences.
            let values = values.iter().take_while(|_| !partition.is_withheld());
            let engines = values.filter_map(|SlotValue { slot, value }| {
                let fence = partition.fence(*slot)?;
                // First: a later signal then counts as one that goes backwards.
                let abandoned = if always { fence.abandon().engines } else { 0 };
                // If an engine's signal got further, there is nothing to do. The caller finds the CPU waits that the
                // value releases.
                let signaled = fence.cell.signal(fence.published(), *value);
                Some(abandoned | signaled.map_or(0, |signaled| signaled.engines))
            });
            engines.fold(0, |all, engines| all | engines)
        });
        self.chip.release_waiters(engines.unwrap_or(0));
        known
    }

    fn notify_current_values(
        &self,
        guest: GuestId,
        slots: &[u32],
        always: bool,
    ) -> Result<(), UnknownId> {
        let partition = self.guest(guest)?;
        let (are_published, known) = published(&partition, slots.iter().copied());
        let slots = slots.to_vec();
        let engines = self.publishing(&partition, are_published, move |partition| {
            let slots = slots.iter().take_while(|_| !partition.is_withheld());
            let fences = slots.filter_map(|slot| partition.fence(*slot));
            let signaled = fences.map(|fence| match always {
                true => fence.abandon(),
                false => fence.cell.evaluate(fence.published()),
            });
            signaled.fold(0, |all, signaled| all | signaled.engines)
        });
        // The caller finds the CPU waits that the values release.
        self.chip.release_waiters(engines.unwrap_or(0));
        known
    }
}

impl FenceLogs for Gpu {
    fn set_fence_log(&self, queue: HwQueueId, log: FenceLogBuffer) -> Result<(), UnknownId> {
        let queue = self.queue(queue)?;
        let was_set = queue.partition.set_fence_log(&queue.logs, log);
        was_set.then_some(()).ok_or(UnknownId::Storage(log.storage))
    }

    fn flush_fence_logs(&self, _queues: &[HwQueueId]) {
        // One barrier serves all queues.
        FenceLog::<0>::flush();
    }

    fn set_logging_level(&self, level: LoggingLevel) {
        self.chip.set_logging_level(level);
    }
}

impl FenceLogContents for Gpu {
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
}
