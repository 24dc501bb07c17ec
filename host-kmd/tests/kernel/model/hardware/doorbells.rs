// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model's rings and doorbells.

use crate::model::{Call, Model};
use bellhop_host_kmd::hardware::{
    DoorbellModel, DoorbellPages, Doorbells, GuestId, HwQueueId, PhysicalDoorbell, RingBinding,
    RotationProgress, SocketId, UnknownId,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::doorbell::ConnectionStatus;

fn is_connected(status: ConnectionStatus) -> bool {
    [ConnectionStatus::CONNECTED, ConnectionStatus::CONNECTED_NOTIFY].contains(&status)
}

impl Doorbells for Model {
    fn doorbell_share(&self, guest: GuestId) -> Result<u32, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(self.state().doorbell_shares.get(&guest).copied().unwrap_or(0))
    }

    fn socket(&self, guest: GuestId) -> Result<SocketId, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(SocketId(guest.0))
    }

    fn last_use(&self, queue: HwQueueId) -> Result<u64, UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        Ok(self.state().last_uses.get(&queue).copied().unwrap_or(0))
    }

    fn bind_ring(&self, queue: HwQueueId, ring: RingBinding) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        let guest = state.queues[&queue].guest;
        let space = state.queues[&queue].address_space;
        for offset in (0..ring.ring_size).step_by(PAGE_SIZE as usize) {
            assert!(!state.mapped(space, ring.ring_va + offset).unwrap().is_writable());
        }
        assert!(state.mapped(space, ring.control_va).unwrap().is_writable());
        for (other, binding) in &state.rings {
            assert!(state.queues[other].guest != guest || binding.slot != ring.slot);
        }
        assert_eq!(state.rings.insert(queue, ring), None);
        state.status.insert(queue, ConnectionStatus::DISCONNECTED_RETRY);
        state.log.push(Call::Bind(queue, ring));
        Ok(())
    }

    fn unbind_ring(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(state.watches.values().all(|watched| *watched != queue));
        assert!(!state.global_watches.contains(&queue));
        state.rings.remove(&queue).expect("a ring");
        state.engines.forget(queue);
        state.log.push(Call::Unbind(queue));
        Ok(())
    }

    fn watch(&self, doorbell: PhysicalDoorbell, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(doorbell.0 < self.physical_doorbells);
        assert!(state.rings.contains_key(&queue));
        assert!(!state.without_power.contains(&state.queues[&queue].node), "power first");
        assert!(state.watches.values().all(|watched| *watched != queue));
        assert_eq!(state.watches.insert(doorbell, queue), None, "{doorbell:?} is taken");
        state.use_doorbell(queue);
        state.log.push(Call::Watch(doorbell, queue));
        Ok(())
    }

    fn unwatch(&self, doorbell: PhysicalDoorbell) -> Result<(), UnknownId> {
        let mut state = self.state();
        let queue = state.watches.remove(&doorbell).expect("a watch");
        assert!(!is_connected(state.status[&queue]), "the status must be published first");
        state.log.push(Call::Unwatch(doorbell));
        Ok(())
    }

    fn watch_global(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert_eq!(state.model, DoorbellModel::Global);
        assert!(state.rings.contains_key(&queue));
        assert!(state.global_watches.insert(queue), "watched already");
        state.log.push(Call::WatchGlobal(queue));
        Ok(())
    }

    fn unwatch_global(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(state.global_watches.remove(&queue), "not watched");
        assert!(!is_connected(state.status[&queue]), "the status must be published first");
        state.log.push(Call::UnwatchGlobal(queue));
        Ok(())
    }
}

impl DoorbellPages for Model {
    fn last_queued_value(&self, queue: HwQueueId) -> Result<u64, UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let state = self.state();
        Ok(state.last_queued.get(&queue).copied().unwrap_or(0))
    }

    fn rotate_to_physical(&self, queue: HwQueueId) -> Result<RotationProgress, UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        if !state.rotates {
            return Ok(RotationProgress::Done);
        }
        assert!(state.watches.values().any(|watched| *watched == queue), "watch first");
        state.log.push(Call::RotateToPhysical(queue));
        Ok(RotationProgress::Pending)
    }

    fn rotate_to_dummy(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(!is_connected(state.status[&queue]), "the status must be published first");
        if state.rotates {
            state.log.push(Call::RotateToDummy(queue));
        }
        Ok(())
    }

    fn publish_connected(
        &self,
        queue: HwQueueId,
        status: ConnectionStatus,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        let is_watched = state.watches.values().any(|watched| *watched == queue);
        assert!(is_watched || state.global_watches.contains(&queue), "watch first");
        state.status.insert(queue, status);
        state.engines.kick(queue);
        state.log.push(Call::Connected(queue, status));
        Ok(())
    }

    fn publish_disconnected(
        &self,
        queue: HwQueueId,
        reason: ConnectionStatus,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        state.status.insert(queue, reason);
        state.log.push(Call::Disconnected(queue, reason));
        Ok(())
    }
}
