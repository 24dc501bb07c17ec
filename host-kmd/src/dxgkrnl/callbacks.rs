//! What the driver calls dxgkrnl for, and what that works on: the doorbells of all guests.
//!
//! Doorbells are here and not with their processes because connecting one guest's may take
//! another guest's physical doorbell.

use super::doorbell::{DisconnectReason, DoorbellState};
use super::rotation::{ConnectEnd, ConnectOutcome, Connecting};
use super::trace::Recorder;
use crate::ddi::{ConnectedStatus, DxgkCallbacks, InvalidParameter};
use crate::hardware::{GuestId, Hardware, HwQueueId, Interrupt};
use bellhop_protocol::doorbell::ConnectionStatus;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
struct DoorbellRecord {
    guest: GuestId,
    state: DoorbellState,
    /// Requests to connect that are not answered yet. Each holds a descriptor of its guest's
    /// control queue, which bounds them.
    connecting: Vec<Connecting>,
}

impl DoorbellRecord {
    /// All requests to connect end like this.
    fn end_connects(&mut self, ended: &mut Vec<ConnectEnd>, outcome: ConnectOutcome) {
        let guest = self.guest;
        let requests = self.connecting.drain(..);
        ended.extend(requests.map(|request| ConnectEnd { guest, request, outcome }));
    }
}

/// The doorbells of all guests, by HW queue, and the interrupts that a DPC has to handle.
pub(super) struct Callbacks {
    hardware: Arc<dyn Hardware>,
    doorbells: HashMap<HwQueueId, DoorbellRecord>,
    victims: HashMap<GuestId, u64>,
    interrupts: Vec<Interrupt>,
    ended_connects: Vec<ConnectEnd>,
    recorder: Recorder,
}

impl Callbacks {
    /// No doorbell and no interrupt.
    pub(super) fn new(hardware: Arc<dyn Hardware>, recorder: Recorder) -> Self {
        let (doorbells, victims) = (HashMap::new(), HashMap::new());
        let (interrupts, ended_connects) = (Vec::new(), Vec::new());
        Self { hardware, doorbells, victims, interrupts, ended_connects, recorder }
    }

    /// A new doorbell, disconnected. The driver has published that when it bound the ring.
    pub(super) fn create(&mut self, guest: GuestId, queue: HwQueueId) {
        let (state, connecting) = (DoorbellState::CREATED, Vec::new());
        self.recorder.doorbell(queue, state);
        self.doorbells.insert(queue, DoorbellRecord { guest, state, connecting });
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
        self.recorder.doorbell(queue, record.state);
        self.hardware.publish_connected(queue, record.state.status());
    }

    /// The driver has connected the doorbell, whose page is still on its way.
    pub(super) fn begin_connect(&mut self, queue: HwQueueId, status: ConnectedStatus) {
        let Some(record) = self.doorbells.get_mut(&queue) else { return };
        record.state = record.state.connecting(status);
        self.recorder.doorbell(queue, record.state);
    }

    /// A request is answered when the doorbell is connected, or is not going to be.
    pub(super) fn wait_for_connect(&mut self, queue: HwQueueId, request: Connecting) {
        let Some(record) = self.doorbells.get_mut(&queue) else { return };
        record.connecting.push(request);
    }

    /// The page is there: publishes that the doorbell is connected, and that the guest must notify
    /// for as long as rings may still miss the page. False when it was disconnected meanwhile.
    pub(super) fn end_connect(&mut self, queue: HwQueueId) -> bool {
        let Some(record) = self.doorbells.get_mut(&queue) else { return false };
        let shown = record.state.shown();
        if shown == record.state {
            return false;
        }
        record.state = shown;
        self.recorder.doorbell(queue, shown);
        self.hardware.publish_connected(queue, shown.status());
        let outcome = ConnectOutcome::Connected(ConnectedStatus::ConnectedNotify);
        record.end_connects(&mut self.ended_connects, outcome);
        true
    }

    /// The VMM did not map the page. The doorbell is to be disconnected next.
    pub(super) fn refuse_connect(&mut self, queue: HwQueueId) {
        let Some(record) = self.doorbells.get_mut(&queue) else { return };
        record.end_connects(&mut self.ended_connects, ConnectOutcome::Refused);
    }

    /// Rings miss the page no more: publishes what the driver has connected the doorbell as.
    pub(super) fn settle(&mut self, queue: HwQueueId) {
        let Some(record) = self.doorbells.get_mut(&queue) else { return };
        let settled = record.state.settled();
        if settled != record.state {
            record.state = settled;
            self.recorder.doorbell(queue, settled);
            self.hardware.publish_connected(queue, settled.status());
        }
    }

    /// The requests to connect that have ended.
    pub(super) fn take_ended_connects(&mut self) -> Vec<ConnectEnd> {
        std::mem::take(&mut self.ended_connects)
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
            self.recorder.doorbell(queue, record.state);
            self.hardware.publish_disconnected(queue, record.state.status());
            // After the status and its full fence: a guest that reads a connected status yet has
            // written its write pointer, wherever its ring went.
            self.hardware.rotate_to_dummy(queue);
        }
        record.end_connects(
            &mut self.ended_connects,
            match reason {
                DisconnectReason::Retry => ConnectOutcome::Victimised,
                DisconnectReason::Abort => ConnectOutcome::Aborted,
            },
        );
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
