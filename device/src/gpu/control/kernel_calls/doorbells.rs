// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbells: rings, the physical doorbells that watch them, and the statuses that guests read.

use super::Gpu;
use crate::gpu::memory::bar::BarDoorbell;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::hardware::{
    DoorbellModel, DoorbellPages, Doorbells, GuestId, HwQueueId, PhysicalDoorbell, RingBinding,
    RotationProgress, SocketId, UnknownId,
};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus};
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use bellhop_protocol::handoff::publication;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Gpu {
    /// Calls `act` with the words of a queue's doorbell.
    fn with_doorbell(
        &self,
        queue: &Arc<HwQueue>,
        act: impl FnOnce(DoorbellWords<'_>) + Send + 'static,
    ) -> Result<(), UnknownId> {
        let touched = Arc::clone(queue);
        let has_words = self.hand.touch(&queue.partition, move |_| {
            let ring = touched.ring.load_full();
            let doorbell = ring.as_ref().and_then(|ring| touched.doorbell(ring));
            doorbell.as_ref().map(BarDoorbell::words).map(act).is_some()
        });
        has_words.unwrap_or(true).then_some(()).ok_or(UnknownId::Ring(queue.id))
    }

    /// The status word to publish.
    fn status(&self, connection: ConnectionStatus) -> DoorbellStatus {
        DoorbellStatus::new(connection).with_logging_level(self.chip.logging_level())
    }
}

impl Doorbells for Gpu {
    fn doorbell_share(&self, guest: GuestId) -> Result<u32, UnknownId> {
        let own = self.guest(guest)?.doorbell_share();
        Ok(own.unwrap_or_else(|| self.equal_doorbell_share()))
    }

    fn socket(&self, guest: GuestId) -> Result<SocketId, UnknownId> {
        Ok(self.guest(guest)?.account().id())
    }

    fn last_use(&self, queue: HwQueueId) -> Result<u64, UnknownId> {
        Ok(self.queue(queue)?.last_use())
    }

    fn bind_ring(&self, queue: HwQueueId, ring: RingBinding) -> Result<(), UnknownId> {
        let queue = self.queue(queue)?;
        let (slot, status) = (ring.slot, self.status(ConnectionStatus::DISCONNECTED_RETRY));
        let is_dedicated = self.doorbell_model == DoorbellModel::Dedicated;
        let is_there = self.hand.touch(&queue.partition, move |partition| {
            let bar = partition.bar();
            let words = (bar.doorbell(slot), bar.doorbell_line(slot), bar.last_queued(slot));
            let (Some(doorbell), Some(line), Some(last_queued)) = words else { return false };
            doorbell.words().connect(status);
            // Other queues share the word of a global doorbell, and it need not be initialised.
            if is_dedicated {
                // Relaxed, like the next store: `ring` hands all over to the engine, and the reply to the guest. The
                // slot's last process has copied its packets there.
                line.get().iter().for_each(|word| word.store(0, Ordering::Relaxed));
            }
            last_queued.store(0, Ordering::Relaxed);
            true
        });
        if !is_there.unwrap_or(true) {
            return Err(UnknownId::DoorbellSlot(slot));
        }
        queue.ring.store(Some(Arc::new(ring)));
        Ok(())
    }

    fn unbind_ring(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        let queue = self.queue(queue)?;
        queue.ring.store(None);
        // The kick makes the engine drop its reference to the ring.
        self.kick_queue(&queue);
        Ok(())
    }

    fn watch(&self, doorbell: PhysicalDoorbell, queue: HwQueueId) -> Result<(), UnknownId> {
        let queue = self.queue(queue)?;
        let is_there = self.registry().set_watch(&self.chip, doorbell.0, Some(queue));
        is_there.then_some(()).ok_or(UnknownId::PhysicalDoorbell(doorbell))
    }

    fn unwatch(&self, doorbell: PhysicalDoorbell) -> Result<(), UnknownId> {
        let is_there = self.registry().set_watch(&self.chip, doorbell.0, None);
        is_there.then_some(()).ok_or(UnknownId::PhysicalDoorbell(doorbell))
    }

    fn watch_global(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        let queue = self.queue(queue)?;
        self.registry().watch_global(&self.chip, queue);
        Ok(())
    }

    fn unwatch_global(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        let was_watched = self.registry().unwatch_global(&self.chip, queue);
        was_watched.then_some(()).ok_or(UnknownId::HwQueue(queue))
    }
}

impl DoorbellPages for Gpu {
    fn last_queued_value(&self, queue: HwQueueId) -> Result<u64, UnknownId> {
        let queue = self.queue(queue)?;
        let ring = queue.ring.load_full();
        let Some(slot) = ring.map(|ring| ring.slot) else { return Ok(0) };
        let read = move |partition: &Arc<Partition>| {
            partition.bar().last_queued(slot).map_or(0, |value| publication::read(&value))
        };
        Ok(self.hand.touch(&queue.partition, read).unwrap_or(0))
    }

    fn rotate_to_physical(&self, queue: HwQueueId) -> Result<RotationProgress, UnknownId> {
        let queue = self.queue(queue)?;
        let doorbell = self.registry().doorbell_of(queue.id);
        let ring = queue.ring.load_full();
        let (Some(rotation), Some(doorbell), Some(ring)) =
            (queue.partition.rotation(), doorbell, ring)
        else {
            return Ok(RotationProgress::Done);
        };
        queue.set_settling(true);
        rotation.connect(ring.slot, doorbell, queue.id);
        Ok(RotationProgress::Pending)
    }

    fn rotate_to_dummy(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        let queue = self.queue(queue)?;
        if let (Some(rotation), Some(ring)) = (queue.partition.rotation(), queue.ring.load_full()) {
            rotation.disconnect(ring.slot);
        }
        Ok(())
    }

    fn publish_connected(
        &self,
        queue: HwQueueId,
        status: ConnectionStatus,
    ) -> Result<(), UnknownId> {
        let queue = self.queue(queue)?;
        if status == ConnectionStatus::CONNECTED {
            queue.set_settling(false);
        }
        let status = self.status(status);
        let published = self.with_doorbell(&queue, move |words| words.connect(status));
        // The kick comes last: an engine that fell asleep before this has not armed the doorbell, which was not yet
        // connected; and a guest may have rung before an engine watched.
        self.kick_queue(&queue);
        published
    }

    fn publish_disconnected(
        &self,
        queue: HwQueueId,
        reason: ConnectionStatus,
    ) -> Result<(), UnknownId> {
        let queue = self.queue(queue)?;
        let status = self.status(reason);
        self.with_doorbell(&queue, move |words| words.disconnect(status))
    }
}
