//! What the driver calls dxgkrnl for, and what that works on: the doorbells of all guests.
//!
//! Doorbells are here and not with their processes because connecting one guest's may take
//! another guest's physical doorbell.

use super::doorbell::{DisconnectReason, DoorbellState};
use crate::ddi::{ConnectedStatus, DxgkCallbacks, InvalidParameter};
use crate::hardware::{GuestId, Hardware, HwQueueId, Interrupt};
use bellhop_protocol::doorbell::ConnectionStatus;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
struct DoorbellRecord {
    guest: GuestId,
    state: DoorbellState,
}

/// The doorbells of all guests, by HW queue, and the interrupts that a DPC has to handle.
pub(super) struct Callbacks {
    hardware: Arc<dyn Hardware>,
    doorbells: HashMap<HwQueueId, DoorbellRecord>,
    victims: HashMap<GuestId, u64>,
    interrupts: Vec<Interrupt>,
}

impl Callbacks {
    /// No doorbell and no interrupt.
    pub(super) fn new(hardware: Arc<dyn Hardware>) -> Self {
        let (doorbells, victims) = (HashMap::new(), HashMap::new());
        Self { hardware, doorbells, victims, interrupts: Vec::new() }
    }

    /// A new doorbell, disconnected. The driver has published that when it bound the ring.
    pub(super) fn create(&mut self, guest: GuestId, queue: HwQueueId) {
        self.doorbells.insert(queue, DoorbellRecord { guest, state: DoorbellState::CREATED });
    }

    /// The doorbell is no more.
    pub(super) fn destroy(&mut self, queue: HwQueueId) {
        self.doorbells.remove(&queue);
    }

    /// State of the queue's doorbell, if it has one.
    pub(super) fn state(&self, queue: HwQueueId) -> Option<DoorbellState> {
        self.doorbells.get(&queue).map(|record| record.state)
    }

    /// The driver has connected the doorbell: publishes that.
    pub(super) fn publish_connected(&mut self, queue: HwQueueId, status: ConnectedStatus) {
        let Some(record) = self.doorbells.get_mut(&queue) else { return };
        record.state = record.state.connected(status);
        self.hardware.publish_connected(queue, record.state.status());
    }

    /// Publishes that the doorbell is disconnected, unless that is known already. Returns the
    /// state before.
    pub(super) fn publish_disconnected(
        &mut self,
        queue: HwQueueId,
        reason: DisconnectReason,
    ) -> Option<DoorbellState> {
        let record = self.doorbells.get_mut(&queue)?;
        let before = record.state;
        record.state = before.disconnected(reason);
        if record.state != before {
            self.hardware.publish_disconnected(queue, record.state.status());
        }
        Some(before)
    }

    /// How many of the guest's doorbells were taken for another queue.
    pub(super) fn victims(&self, guest: GuestId) -> u64 {
        self.victims.get(&guest).copied().unwrap_or(0)
    }

    /// The guest is no more.
    pub(super) fn forget_guest(&mut self, guest: GuestId) {
        self.victims.remove(&guest);
    }

    /// What the interrupt routine left for the DPC.
    pub(super) fn take_interrupts(&mut self) -> Vec<Interrupt> {
        std::mem::take(&mut self.interrupts)
    }
}

impl DxgkCallbacks for Callbacks {
    fn disconnect_doorbell(
        &mut self,
        queue: HwQueueId,
        reason: ConnectionStatus,
    ) -> Result<(), InvalidParameter> {
        let reason = DisconnectReason::try_from(reason)?;
        let before = self
            .publish_disconnected(queue, reason)
            .ok_or(InvalidParameter::UnknownDoorbell(queue))?;
        if before.is_connected()
            && let Some(record) = self.doorbells.get(&queue)
        {
            *self.victims.entry(record.guest).or_default() += 1;
        }
        Ok(())
    }

    fn notify_interrupt(&mut self, interrupt: Interrupt) {
        self.interrupts.push(interrupt);
    }
}
