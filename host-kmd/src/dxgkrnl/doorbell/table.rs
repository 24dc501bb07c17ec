// SPDX-License-Identifier: MIT OR Apache-2.0

//! The doorbells of all guests, by HW queue.
//!
//! One table holds them, not their processes, because connecting one guest's doorbell may take another guest's
//! physical doorbell.

use crate::ddi::ConnectedStatus;
use crate::dxgkrnl::doorbell::connect::{ConnectEnd, ConnectOutcome, Connecting};
use crate::dxgkrnl::doorbell::state::{DisconnectReason, DoorbellState};
use crate::dxgkrnl::object::recorder::Recorder;
use crate::hardware::{GuestId, HwQueueId, Platform, Reported as _};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
struct DoorbellRecord {
    guest: GuestId,
    state: DoorbellState,
    /// Unanswered requests to connect. Each holds a descriptor of its guest's control queue, which bounds their
    /// number.
    connecting: Vec<Connecting>,
}

impl DoorbellRecord {
    /// Ends all requests to connect with `outcome`.
    fn end_connects(&mut self, ended: &mut Vec<ConnectEnd>, outcome: ConnectOutcome) {
        let guest = self.guest;
        let requests = self.connecting.drain(..);
        ended.extend(requests.map(|request| ConnectEnd { guest, request, outcome }));
    }
}

/// The doorbells of all guests, by HW queue.
pub(crate) struct Doorbells {
    platform: Arc<dyn Platform>,
    doorbells: HashMap<HwQueueId, DoorbellRecord>,
    victims: HashMap<GuestId, u64>,
    ended_connects: Vec<ConnectEnd>,
    recorder: Recorder,
}

impl Doorbells {
    /// Creates an empty table.
    pub(crate) fn new(platform: Arc<dyn Platform>, recorder: Recorder) -> Self {
        let (doorbells, victims) = (HashMap::new(), HashMap::new());
        Self { platform, doorbells, victims, ended_connects: Vec::new(), recorder }
    }

    /// Adds a doorbell, disconnected. The driver published that status when it bound the ring.
    pub(crate) fn create(&mut self, guest: GuestId, queue: HwQueueId) {
        let (state, connecting) = (DoorbellState::CREATED, Vec::new());
        self.recorder.doorbell(queue, state.name());
        self.doorbells.insert(queue, DoorbellRecord { guest, state, connecting });
    }

    /// Removes the doorbell.
    pub(crate) fn destroy(&mut self, queue: HwQueueId) {
        self.doorbells.remove(&queue);
    }

    /// State of the queue's doorbell, if it has one.
    pub(crate) fn state(&self, queue: HwQueueId) -> Option<DoorbellState> {
        self.doorbells.get(&queue).map(|record| record.state)
    }

    /// The driver has connected the doorbell: publishes its status.
    pub(crate) fn publish_connected(&mut self, queue: HwQueueId, status: ConnectedStatus) {
        let Some(record) = self.doorbells.get_mut(&queue) else { return };
        record.state = record.state.connected(status);
        self.recorder.doorbell(queue, record.state.name());
        self.platform.publish_connected(queue, record.state.status()).reported();
    }

    /// The driver has connected the doorbell, but its page is not mapped yet.
    pub(crate) fn begin_connect(&mut self, queue: HwQueueId, status: ConnectedStatus) {
        let Some(record) = self.doorbells.get_mut(&queue) else { return };
        record.state = record.state.connecting(status);
        self.recorder.doorbell(queue, record.state.name());
    }

    /// Keeps a request to answer once the doorbell is connected, or will not be.
    pub(crate) fn wait_for_connect(&mut self, queue: HwQueueId, request: Connecting) {
        let Some(record) = self.doorbells.get_mut(&queue) else { return };
        record.connecting.push(request);
    }

    /// The page is mapped: publishes that the doorbell is connected, and that the guest must notify while rings may
    /// still miss the page. Returns false if the doorbell was disconnected meanwhile.
    pub(crate) fn end_connect(&mut self, queue: HwQueueId) -> bool {
        let Some(record) = self.doorbells.get_mut(&queue) else { return false };
        let shown = record.state.shown();
        if shown == record.state {
            return false;
        }
        record.state = shown;
        self.recorder.doorbell(queue, shown.name());
        self.platform.publish_connected(queue, shown.status()).reported();
        let outcome = ConnectOutcome::Connected(ConnectedStatus::ConnectedNotify);
        record.end_connects(&mut self.ended_connects, outcome);
        true
    }

    /// The VMM did not map the page. The caller disconnects the doorbell next.
    pub(crate) fn refuse_connect(&mut self, queue: HwQueueId) {
        let Some(record) = self.doorbells.get_mut(&queue) else { return };
        record.end_connects(&mut self.ended_connects, ConnectOutcome::Refused);
    }

    /// Rings no longer miss the page: publishes the status with which the driver connected the doorbell.
    pub(crate) fn settle(&mut self, queue: HwQueueId) {
        let Some(record) = self.doorbells.get_mut(&queue) else { return };
        let settled = record.state.settled();
        if settled != record.state {
            record.state = settled;
            self.recorder.doorbell(queue, settled.name());
            self.platform.publish_connected(queue, settled.status()).reported();
        }
    }

    /// Whether ended requests to connect wait to be taken.
    pub(crate) fn has_ended_connects(&self) -> bool {
        !self.ended_connects.is_empty()
    }

    /// Takes the ended requests to connect.
    pub(crate) fn take_ended_connects(&mut self) -> Vec<ConnectEnd> {
        std::mem::take(&mut self.ended_connects)
    }

    /// Publishes that the doorbell is disconnected, unless it is already. Returns the previous state.
    pub(crate) fn publish_disconnected(
        &mut self,
        queue: HwQueueId,
        reason: DisconnectReason,
    ) -> Option<DoorbellState> {
        let record = self.doorbells.get_mut(&queue)?;
        let before = record.state;
        record.state = before.disconnected(reason);
        if record.state != before {
            self.recorder.doorbell(queue, record.state.name());
            self.platform.publish_disconnected(queue, record.state.status()).reported();
            // After the status and its full fence: a guest that still reads a connected status has already written
            // its write pointer, wherever its ring went.
            self.platform.rotate_to_dummy(queue).reported();
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
    pub(crate) fn victims(&self, guest: GuestId) -> u64 {
        self.victims.get(&guest).copied().unwrap_or(0)
    }

    /// Drops what is kept about a guest that is gone.
    pub(crate) fn forget_guest(&mut self, guest: GuestId) {
        self.victims.remove(&guest);
    }

    /// The driver takes a queue's physical doorbell for another queue: publishes that the doorbell is disconnected.
    /// Returns `None` if the queue has no doorbell.
    pub(crate) fn victimise(&mut self, queue: HwQueueId, reason: DisconnectReason) -> Option<()> {
        let before = self.publish_disconnected(queue, reason)?;
        if before.is_connected()
            && let Some(record) = self.doorbells.get(&queue)
        {
            *self.victims.entry(record.guest).or_default() += 1;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dxgkrnl::object::promises::Promise;
    use crate::hardware::PhysicalDoorbell;
    use crate::model::{Call, Model};
    use bellhop_protocol::control::Handle;
    use bellhop_protocol::doorbell::ConnectionStatus;

    const GUEST: GuestId = GuestId(1);
    const QUEUE: HwQueueId = HwQueueId(7);
    const RETRY: ConnectionStatus = ConnectionStatus::DISCONNECTED_RETRY;
    const NOTIFY: ConnectionStatus = ConnectionStatus::CONNECTED_NOTIFY;
    const CONNECTED: ConnectionStatus = ConnectionStatus::CONNECTED;
    const ABORT: ConnectionStatus = ConnectionStatus::DISCONNECTED_ABORT;

    /// A disconnected doorbell, and a physical one that watches it, as the driver would set them up.
    fn new() -> (Arc<Model>, Doorbells) {
        let model = Arc::new(Model::new(1));
        model.state().rotates = true;
        model.state().watches.insert(PhysicalDoorbell(0), QUEUE);
        let recorder = Recorder::new(Arc::clone(&model) as _);
        let mut doorbells = Doorbells::new(Arc::clone(&model) as _, recorder);
        doorbells.create(GUEST, QUEUE);
        (model, doorbells)
    }

    /// A doorbell with two requests that wait for its page.
    fn connecting() -> (Arc<Model>, Doorbells) {
        let (model, mut doorbells) = new();
        doorbells.begin_connect(QUEUE, ConnectedStatus::Connected);
        for number in [3, 4] {
            let request = Connecting { promise: Promise::numbered(number), hw_queue: Handle(9) };
            doorbells.wait_for_connect(QUEUE, request);
        }
        (model, doorbells)
    }

    fn ended(doorbells: &mut Doorbells) -> Vec<(u64, ConnectOutcome)> {
        let ended = doorbells.take_ended_connects().into_iter();
        ended.map(|end| (end.request.promise.number(), end.outcome)).collect()
    }

    #[test]
    fn a_victim_s_status_is_published_before_its_page_is_taken_and_once() {
        let (model, mut doorbells) = new();
        doorbells.publish_connected(QUEUE, ConnectedStatus::Connected);
        assert_eq!(model.take_log(), [Call::Connected(QUEUE, CONNECTED)]);
        for _ in 0..2 {
            doorbells.victimise(QUEUE, DisconnectReason::Retry).unwrap();
        }
        let calls = [Call::Disconnected(QUEUE, RETRY), Call::RotateToDummy(QUEUE)];
        assert_eq!(model.take_log(), calls);
        // It lost a physical doorbell only once.
        assert_eq!(doorbells.victims(GUEST), 1);
        doorbells.forget_guest(GUEST);
        assert_eq!(doorbells.victims(GUEST), 0);
        assert_eq!(doorbells.victimise(HwQueueId(8), DisconnectReason::Retry), None);
    }

    #[test]
    fn a_doorbell_is_connected_notify_when_its_page_is_there_and_connected_when_no_ring_misses_it()
    {
        let (model, mut doorbells) = connecting();
        assert_eq!(model.take_log(), [], "a guest still reads that it is to be connected");
        assert!(doorbells.end_connect(QUEUE));
        assert_eq!(model.take_log(), [Call::Connected(QUEUE, NOTIFY)]);
        let outcome = ConnectOutcome::Connected(ConnectedStatus::ConnectedNotify);
        assert!(doorbells.has_ended_connects());
        assert_eq!(ended(&mut doorbells), [(3, outcome), (4, outcome)]);
        assert!(!doorbells.has_ended_connects());
        assert!(!doorbells.end_connect(QUEUE), "the page comes once");
        doorbells.settle(QUEUE);
        doorbells.settle(QUEUE);
        assert_eq!(model.take_log(), [Call::Connected(QUEUE, CONNECTED)]);
    }

    #[test]
    fn requests_to_connect_end_once_with_what_became_of_the_doorbell() {
        type End = fn(&mut Doorbells);
        let ends: [(End, ConnectOutcome); 3] = [
            (|doorbells| doorbells.refuse_connect(QUEUE), ConnectOutcome::Refused),
            (
                |doorbells| {
                    doorbells.victimise(QUEUE, DisconnectReason::Retry);
                },
                ConnectOutcome::Victimised,
            ),
            (
                |doorbells| {
                    doorbells.publish_disconnected(QUEUE, DisconnectReason::Abort);
                },
                ConnectOutcome::Aborted,
            ),
        ];
        for (end, outcome) in ends {
            let (_, mut doorbells) = connecting();
            end(&mut doorbells);
            assert_eq!(ended(&mut doorbells), [(3, outcome), (4, outcome)]);
            doorbells.publish_disconnected(QUEUE, DisconnectReason::Retry);
            assert_eq!(ended(&mut doorbells), []);
            // The page is mapped too late.
            assert!(!doorbells.end_connect(QUEUE));
        }
    }

    #[test]
    fn an_aborted_doorbell_stays_aborted() {
        let (model, mut doorbells) = new();
        doorbells.publish_disconnected(QUEUE, DisconnectReason::Abort);
        assert_eq!(model.state().status[&QUEUE], ABORT);
        model.take_log();
        doorbells.publish_disconnected(QUEUE, DisconnectReason::Retry);
        assert_eq!(model.take_log(), []);
        doorbells.publish_connected(QUEUE, ConnectedStatus::Connected);
        assert_eq!(model.state().status[&QUEUE], ABORT);
        assert_eq!(doorbells.state(QUEUE), Some(DoorbellState::Aborted));
        doorbells.destroy(QUEUE);
        assert_eq!(doorbells.state(QUEUE), None);
    }
}
