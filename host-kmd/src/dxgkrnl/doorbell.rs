//! Doorbells: their life, and the requests about them.
//!
//! Source: user-mode work submission, "User-mode work submission APIs", "Residency model of
//! doorbell memory and ring buffer allocations" and "Victimizing doorbell pseudocode in KMD".

use super::allocation::{Allocation, HostMapping};
use super::context::Context;
use super::error::RequestError;
use super::hw_queue::HwQueue;
use super::pool::PageRange;
use super::request::{Answer, Handled, zero};
use super::retire::Resource;
use super::scope::Scope;
use super::termination::{Manner, Target};
use crate::ddi::{ConnectedStatus, InvalidParameter};
use crate::hardware::{DoorbellModel, HwQueueId, RingBinding, RotationProgress, Segment};
use crate::vidmm::VidMmError;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, ConnectDoorbellReply, CreateDoorbell, CreateDoorbellReply, DestroyDoorbell,
    NotifyWorkSubmission,
};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::doorbell::{ConnectionStatus, GLOBAL_DOORBELL_SLOT, RingTag};
use bellhop_protocol::ring::{
    READ_POINTER_OFFSET, RING_CONTROL_SIZE, WRITE_POINTER_OFFSET, is_valid_ring_size,
};

/// Why a doorbell is disconnected: the two statuses `DISCONNECTED_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DisconnectReason {
    /// The guest may connect again.
    Retry,
    /// The queue is lost.
    Abort,
}

impl TryFrom<ConnectionStatus> for DisconnectReason {
    type Error = InvalidParameter;

    fn try_from(status: ConnectionStatus) -> Result<Self, InvalidParameter> {
        match status {
            ConnectionStatus::DISCONNECTED_RETRY => Ok(Self::Retry),
            ConnectionStatus::DISCONNECTED_ABORT => Ok(Self::Abort),
            status => Err(InvalidParameter::NotADisconnectedStatus(status)),
        }
    }
}

/// The life of a doorbell.
///
/// ```text
///  create ──> Disconnected ──connect──> Connected(how) ──┐
///                  ^ └──────abort──────────┐   │         │
///                  └──disconnect, victimise┼───┘      abort
///                                          v             │
///                                       Aborted <────────┘
/// ```
/// Where the VMM moves pages, two states come between, each of which can be disconnected and
/// aborted as `Connected` can:
///
/// ```text
///  Disconnected ──connect──> Connecting(how) ──page shown──> Settling(how) ──settled──> Connected(how)
/// ```
/// It can be destroyed in any state. An aborted doorbell stays aborted. The engine goes between
/// `CONNECTED` and `CONNECTED_NOTIFY` by itself as it falls asleep and wakes; that is not state of
/// dxgkrnl's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DoorbellState {
    /// No physical doorbell watches it; the guest may connect it.
    Disconnected,
    /// A physical doorbell watches it, and its page is on its way.
    Connecting(ConnectedStatus),
    /// Its page is there; rings may still miss it.
    Settling(ConnectedStatus),
    /// A physical doorbell watches it.
    Connected(ConnectedStatus),
    /// The queue is lost.
    Aborted,
}

impl DoorbellState {
    /// How a doorbell begins.
    pub(super) const CREATED: Self = Self::Disconnected;

    /// After a physical doorbell was made to watch it.
    pub(super) const fn connected(self, status: ConnectedStatus) -> Self {
        match self {
            Self::Aborted => Self::Aborted,
            _ => Self::Connected(status),
        }
    }

    /// After a physical doorbell was made to watch it, whose page is on its way.
    pub(super) const fn connecting(self, status: ConnectedStatus) -> Self {
        match self {
            Self::Aborted => Self::Aborted,
            _ => Self::Connecting(status),
        }
    }

    /// After the page has come. Changes nothing of a doorbell that waits for none.
    pub(super) const fn shown(self) -> Self {
        match self {
            Self::Connecting(status) => Self::Settling(status),
            state => state,
        }
    }

    /// After rings have ceased to miss the page. Changes nothing of a doorbell that does not settle.
    pub(super) const fn settled(self) -> Self {
        match self {
            Self::Settling(status) => Self::Connected(status),
            state => state,
        }
    }

    /// After it was disconnected, whether by dxgkrnl or as a victim.
    pub(super) const fn disconnected(self, reason: DisconnectReason) -> Self {
        match (self, reason) {
            (Self::Aborted, _) | (_, DisconnectReason::Abort) => Self::Aborted,
            (_, DisconnectReason::Retry) => Self::Disconnected,
        }
    }

    /// Whether a physical doorbell watches it.
    pub(super) const fn is_connected(self) -> bool {
        matches!(self, Self::Connecting(_) | Self::Settling(_) | Self::Connected(_))
    }

    /// What the guest reads.
    pub(super) fn status(self) -> ConnectionStatus {
        match self {
            Self::Disconnected | Self::Connecting(_) => ConnectionStatus::DISCONNECTED_RETRY,
            Self::Settling(_) => ConnectionStatus::CONNECTED_NOTIFY,
            Self::Connected(status) => status.into(),
            Self::Aborted => ConnectionStatus::DISCONNECTED_ABORT,
        }
    }
}

/// A doorbell. Its state is with the [`Callbacks`](super::callbacks::Callbacks), under its queue.
#[derive(Debug)]
pub(super) struct Doorbell {
    /// The queue as the GPU knows it.
    queue: HwQueueId,
    /// Where the host has mapped ring buffer and ring buffer control.
    pub(super) ring: [HostMapping; 2],
    /// What it holds until engines have forgotten it.
    holds: Vec<Resource>,
}

impl Doorbell {
    /// Bytes in its ring buffer.
    pub(super) fn ring_size(&self) -> u64 {
        let [ring, _] = self.ring;
        ring.range.length
    }
}

// A ring buffer control therefore always fits into an allocation, and into one page.
const _: () = assert!(RING_CONTROL_SIZE <= PAGE_SIZE);

impl Scope<'_> {
    /// `D3DKMTCreateDoorbell`. No physical doorbell is assigned yet.
    pub(super) fn create_doorbell(
        &mut self,
        request: CreateDoorbell,
    ) -> Handled<CreateDoorbellReply> {
        zero("flags", request.flags)?;
        let queue = self.user_mode_queue(request.hw_queue)?;
        if queue.doorbell.is_some() {
            return Err(RequestError::parameter("hw_queue", request.hw_queue.0));
        }
        let (id, device) = (queue.id, queue.device);
        let ring_size = self.ring_allocation(request.ring_buffer, device)?.size;
        if !is_valid_ring_size(ring_size) {
            return Err(RequestError::parameter("ring_buffer's size", ring_size));
        }
        if request.ring_control == request.ring_buffer {
            return Err(RequestError::parameter("ring_control", request.ring_control.0));
        }
        self.check_new_control(request.ring_control, device)?;

        let unmapped = HostMapping {
            allocation: request.ring_buffer,
            range: PageRange { start: 0, length: 0 },
            protection: Protection::empty(),
        };
        let doorbell =
            self.insert(Doorbell { queue: id, ring: [unmapped; 2], holds: Vec::new() })?;
        let mut holds = Vec::with_capacity(4);
        match self.bind_doorbell(&request, id, ring_size, &mut holds) {
            Ok((slot, ring)) => {
                let state = self.get_mut::<Doorbell>(doorbell)?;
                (state.ring, state.holds) = (ring, holds);
                self.get_mut::<HwQueue>(request.hw_queue)?.doorbell = Some(doorbell);
                self.callbacks.create(self.guest_id, id);
                let (word, ring_tag) = self.doorbell_word(slot);
                let bar = &self.guest.resources.bar;
                Ok(Answer::Done(CreateDoorbellReply {
                    doorbell,
                    doorbell_offset: bar.doorbell(word),
                    status_offset: bar.status(slot),
                    last_queued_offset: bar.last_queued(slot),
                    ring_tag,
                    reserved: 0,
                }))
            }
            Err(error) => {
                self.remove::<Doorbell>(doorbell)?;
                self.forget_host_mappings([request.ring_buffer, request.ring_control], &holds);
                self.given_up.append(&mut holds);
                Err(error)
            }
        }
    }

    /// Which slot's word the new doorbell of this slot is rung through, and what tells its rings
    /// from others there.
    fn doorbell_word(&mut self, slot: u32) -> (u32, RingTag) {
        match self.hardware.doorbell_model() {
            DoorbellModel::Dedicated => (slot, RingTag(0)),
            DoorbellModel::Global => {
                let count = self.guest.global_doorbells.wrapping_add(1);
                self.guest.global_doorbells = count;
                // A BAR has fewer than 2^16 doorbells, and a tag of another slot is a hint only.
                (GLOBAL_DOORBELL_SLOT, RingTag::new(slot as u16, count))
            }
        }
    }

    /// The queue, if it takes work through a doorbell and is not in error.
    fn user_mode_queue(&self, handle: Handle) -> Result<&HwQueue, RequestError> {
        let queue = self.own_queue(handle)?;
        if !queue.user_mode_submission {
            return Err(RequestError::NotSupported("the queue takes kernel-mode submissions"));
        }
        queue.check_alive(handle)?;
        Ok(queue)
    }

    /// A resident allocation for the ring of a queue of `device`.
    fn ring_allocation(&self, handle: Handle, device: Handle) -> Result<&Allocation, RequestError> {
        let allocation = self.get::<Allocation>(handle)?;
        if !allocation.opened.contains(&device) {
            return Err(RequestError::parameter("an allocation of another device", handle.0));
        }
        // "Locked" is what keeps a paged one where it is. By this process: others that have it can evict and
        // unlock it when they like.
        let (vidmm, process) = (&self.guest.vidmm, self.process_id);
        let stays = |id| vidmm.is_wanted_by(process, id) && vidmm.is_locked_by(process, id);
        if !allocation.resident || !allocation.paged().is_none_or(stays) {
            return Err(RequestError::NotResident(handle));
        }
        Ok(allocation)
    }

    /// The pointers in a new ring buffer control must be 0. This only tells a driver early that it
    /// is wrong: the engine begins at 0 whatever they are, and checks what it reads later. So
    /// controls in system memory, which dxgkrnl has no window to, are not looked at.
    fn check_new_control(&self, handle: Handle, device: Handle) -> Result<(), RequestError> {
        self.ring_allocation(handle, device)?;
        let Some(page) = self.memory(handle)?.pages(0, PAGE_SIZE).next() else { return Ok(()) };
        if page.segment == Segment::Local {
            for offset in [WRITE_POINTER_OFFSET, READ_POINTER_OFFSET] {
                let address = page.address.saturating_add(offset);
                zero("a ring pointer", self.hardware.read_local_word(self.guest_id, address))?;
            }
        }
        Ok(())
    }

    /// Takes what a doorbell needs, noting each thing in `holds`, and gives the queue its ring.
    /// Returns the doorbell's slot and where the ring is mapped.
    fn bind_doorbell(
        &mut self,
        request: &CreateDoorbell,
        queue: HwQueueId,
        ring_size: u64,
        holds: &mut Vec<Resource>,
    ) -> Result<(u32, [HostMapping; 2]), RequestError> {
        let slot = self.guest.doorbell_slots.take().ok_or(RequestError::QuotaExceeded {
            what: "doorbells",
            limit: self.guest.resources.bar.doorbell_count.into(),
        })?;
        holds.push(Resource::DoorbellSlot(slot));
        let ring = self.map_for_host(request.ring_buffer, ring_size, Protection::empty(), holds)?;
        let control =
            self.map_for_host(request.ring_control, PAGE_SIZE, Protection::WRITE, holds)?;

        let binding = RingBinding {
            slot,
            ring_va: ring.range.start,
            ring_size,
            control_va: control.range.start,
            notify_each: false,
        };
        self.miniport.create_doorbell(queue, binding, request.private_data)?;
        // "Dxgkrnl does take a reference on them during the lifetime of the doorbell."
        let allocations = [request.ring_buffer, request.ring_control];
        for handle in allocations {
            self.get_mut::<Allocation>(handle)?.doorbells += 1;
        }
        holds.push(Resource::DoorbellReferences {
            process: self.process_id,
            hw_queue: request.hw_queue,
            allocations,
        });
        Ok((slot, [ring, control]))
    }

    /// Maps the start of an allocation where the guest cannot unmap it.
    pub(super) fn map_for_host(
        &mut self,
        allocation: Handle,
        length: u64,
        protection: Protection,
        holds: &mut Vec<Resource>,
    ) -> Result<HostMapping, RequestError> {
        let range =
            self.process()?.gpu_va.take_for_host(length).ok_or(VidMmError::NoRoom(length))?;
        holds.push(Resource::GpuVa { process: self.process_id, range, paged: false });
        self.write_mapping(allocation, range, 0, protection)?;
        let mapping = HostMapping { allocation, range, protection };
        self.get_mut::<Allocation>(allocation)?.host_mappings.push(mapping);
        Ok(mapping)
    }

    /// Forgets where these allocations were mapped for a doorbell that holds this.
    fn forget_host_mappings(&mut self, allocations: [Handle; 2], holds: &[Resource]) {
        let is_held = |mapping: &HostMapping| {
            let is_it = |hold: &Resource| matches!(hold, Resource::GpuVa { range, .. } if *range == mapping.range);
            holds.iter().any(is_it)
        };
        for handle in allocations {
            // It goes before its doorbell when its device goes.
            if let Ok(allocation) = self.get_mut::<Allocation>(handle) {
                allocation.host_mappings.retain(|mapping| !is_held(mapping));
            }
        }
    }

    /// `D3DKMTConnectDoorbell`.
    pub(super) fn connect_doorbell(
        &mut self,
        request: ConnectDoorbell,
    ) -> Handled<ConnectDoorbellReply> {
        let queue = self.user_mode_queue(request.hw_queue)?;
        let (queue, context) = (queue.id, queue.context);
        let node = self.get::<Context>(context)?.node;
        let status = match self.callbacks.state(queue) {
            None => return Err(RequestError::parameter("hw_queue", request.hw_queue.0)),
            Some(DoorbellState::Aborted) => {
                return Err(RequestError::DeviceRemoved(request.hw_queue));
            }
            // Somebody else connected it first. The guest rang meanwhile, perhaps unseen.
            Some(DoorbellState::Connected(status)) => {
                self.miniport.notify_work_submission(queue);
                status
            }
            Some(DoorbellState::Settling(_)) => {
                self.miniport.notify_work_submission(queue);
                ConnectedStatus::ConnectedNotify
            }
            Some(DoorbellState::Connecting(_)) => {
                return Ok(Answer::AfterRotation(queue, request.hw_queue));
            }
            Some(DoorbellState::Disconnected) => match self.connect(queue, node)? {
                Some(status) => status,
                None => return Ok(Answer::AfterRotation(queue, request.hw_queue)),
            },
        };
        Ok(Answer::Done(ConnectDoorbellReply { status: status.into(), reserved: 0 }))
    }

    /// Connects a disconnected doorbell. The order is protocol::handoff::doorbell's, `connect`
    /// there: watch, status, and then one look at the ring, because a guest may have rung the page
    /// while nobody watched it and have read the new status, or an older connected one, after.
    ///
    /// None where status and look come later, when the doorbell's page does.
    fn connect(
        &mut self,
        queue: HwQueueId,
        node: u32,
    ) -> Result<Option<ConnectedStatus>, RequestError> {
        self.power.wake_engine(node, self.miniport);
        let status = self.miniport.connect_doorbell(queue, self.callbacks)?;
        if self.hardware.rotate_to_physical(queue) == RotationProgress::Pending {
            self.callbacks.begin_connect(queue, status);
            return Ok(None);
        }
        self.callbacks.publish_connected(queue, status);
        self.miniport.notify_work_submission(queue);
        Ok(Some(status))
    }

    /// Disconnects a queue's doorbell. The order is protocol::handoff::doorbell's, `disconnect`
    /// there: status and full fence here, then the driver stops the watch and looks once more.
    pub(super) fn disconnect(&mut self, queue: HwQueueId, reason: DisconnectReason) {
        self.callbacks.publish_disconnected(queue, reason);
        self.miniport.disconnect_doorbell(queue);
    }

    /// `D3DKMTDestroyDoorbell`.
    pub(super) fn destroy_doorbell(&mut self, request: DestroyDoorbell) -> Handled<()> {
        self.get::<Doorbell>(request.doorbell)?;
        Ok(Answer::Terminate(Target::Doorbell(request.doorbell), Manner::Normal))
    }

    /// The queue that has a doorbell.
    pub(super) fn queue_of_doorbell(&self, doorbell: Handle) -> Option<Handle> {
        let queue = self.get::<Doorbell>(doorbell).ok()?.queue;
        self.queues.get(&queue).map(|owner| owner.handle)
    }

    /// Destroys a doorbell. The queue and the allocations of the ring stay.
    pub(super) fn remove_doorbell(&mut self, handle: Handle) -> Result<(), RequestError> {
        let mut doorbell = self.remove::<Doorbell>(handle)?;
        let allocations = doorbell.ring.map(|mapping| mapping.allocation);
        self.forget_host_mappings(allocations, &doorbell.holds);
        // Connecting it again is not what a guest thread that still rings it should do.
        self.disconnect(doorbell.queue, DisconnectReason::Abort);
        self.miniport.destroy_doorbell(doorbell.queue);
        self.callbacks.destroy(doorbell.queue);
        self.given_up.append(&mut doorbell.holds);
        Ok(())
    }

    /// `D3DKMTNotifyWorkSubmission`. Without effect on a doorbell that is lost.
    pub(super) fn notify_work_submission(&mut self, request: NotifyWorkSubmission) -> Handled<()> {
        self.guest.notifies += 1;
        let queue = self.get::<Doorbell>(request.doorbell)?.queue;
        if self.callbacks.state(queue) != Some(DoorbellState::Aborted) {
            self.miniport.notify_work_submission(queue);
        }
        Ok(Answer::Done(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, Copy)]
    enum Event {
        Connect(ConnectedStatus),
        BeginConnect(ConnectedStatus),
        Show,
        Settle,
        Disconnect,
        Victimise,
        Fault,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Connect(ConnectedStatus::Connected)),
            Just(Event::Connect(ConnectedStatus::ConnectedNotify)),
            Just(Event::BeginConnect(ConnectedStatus::Connected)),
            Just(Event::BeginConnect(ConnectedStatus::ConnectedNotify)),
            Just(Event::Show),
            Just(Event::Settle),
            Just(Event::Disconnect),
            Just(Event::Victimise),
            Just(Event::Fault),
        ]
    }

    #[test]
    fn a_doorbell_begins_as_disconnected_retry() {
        assert_eq!(DoorbellState::CREATED.status(), ConnectionStatus::DISCONNECTED_RETRY);
    }

    #[test]
    fn only_the_two_disconnected_statuses_are_reasons() {
        for status in ConnectionStatus::ALL {
            let is_reason = matches!(
                *status,
                ConnectionStatus::DISCONNECTED_RETRY | ConnectionStatus::DISCONNECTED_ABORT
            );
            assert_eq!(DisconnectReason::try_from(*status).is_ok(), is_reason);
        }
        assert!(DisconnectReason::try_from(ConnectionStatus(4)).is_err());
    }

    proptest! {
        /// The reference's rules: what the guest reads is what happened last, nothing comes after an
        /// abort, and a doorbell whose page is on its way, or may still be missed, reads as one that
        /// is to be connected, or notified.
        #[test]
        fn the_status_is_that_of_the_last_event_until_an_abort(
            events in proptest::collection::vec(event(), 0..40),
        ) {
            use ConnectionStatus as Status;
            let mut state = DoorbellState::CREATED;
            let mut expected = Status::DISCONNECTED_RETRY;
            // What it will be connected as, and whether its page is there.
            let mut on_its_way: Option<(ConnectedStatus, bool)> = None;
            for event in events {
                let is_aborted = expected == Status::DISCONNECTED_ABORT;
                let next = match event {
                    Event::Connect(status) => state.connected(status),
                    Event::BeginConnect(status) => state.connecting(status),
                    Event::Show => state.shown(),
                    Event::Settle => state.settled(),
                    Event::Disconnect | Event::Victimise => {
                        state.disconnected(DisconnectReason::Retry)
                    }
                    Event::Fault => state.disconnected(DisconnectReason::Abort),
                };
                if !is_aborted {
                    match (event, on_its_way) {
                        (Event::Connect(status), _) => {
                            (expected, on_its_way) = (status.into(), None);
                        }
                        (Event::BeginConnect(status), _) => {
                            expected = Status::DISCONNECTED_RETRY;
                            on_its_way = Some((status, false));
                        }
                        (Event::Show, Some((status, false))) => {
                            expected = Status::CONNECTED_NOTIFY;
                            on_its_way = Some((status, true));
                        }
                        (Event::Settle, Some((status, true))) => {
                            (expected, on_its_way) = (status.into(), None);
                        }
                        (Event::Show | Event::Settle, _) => {}
                        (Event::Disconnect | Event::Victimise, _) => {
                            (expected, on_its_way) = (Status::DISCONNECTED_RETRY, None);
                        }
                        (Event::Fault, _) => {
                            (expected, on_its_way) = (Status::DISCONNECTED_ABORT, None);
                        }
                    }
                }
                prop_assert_eq!(next.status(), expected);
                let connected = [Status::CONNECTED, Status::CONNECTED_NOTIFY];
                let has_one = connected.contains(&expected) || on_its_way.is_some();
                prop_assert_eq!(next.is_connected(), has_one);
                state = next;
            }
        }
    }
}
