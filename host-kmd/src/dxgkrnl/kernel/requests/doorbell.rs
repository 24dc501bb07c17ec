// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about doorbells.
//!
//! Source: user-mode work submission, "User-mode work submission APIs", "Residency model of
//! doorbell memory and ring buffer allocations" and "Victimizing doorbell pseudocode in KMD".

use crate::ddi::ConnectedStatus;
use crate::dxgkrnl::doorbell::object::Doorbell;
use crate::dxgkrnl::doorbell::state::DoorbellState;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::memory::allocation::{Allocation, HostMapping};
use crate::dxgkrnl::memory::process_bar::Placed;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::hw_queue::{HwQueue, QueueIdentity};
use crate::hardware::{DoorbellModel, HwQueueId, RingBinding, Segment};
use crate::vidmm::pool::PageRange;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, ConnectDoorbellReply, CreateDoorbell, CreateDoorbellReply, DestroyDoorbell,
    NotifyWorkSubmission,
};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::doorbell::{GLOBAL_DOORBELL_SLOT, RingTag};
use bellhop_protocol::features::Features;
use bellhop_protocol::ring::{READ_POINTER_OFFSET, WRITE_POINTER_OFFSET, is_valid_ring_size};

impl ProcessAccess<'_> {
    /// `D3DKMTCreateDoorbell`. No physical doorbell is assigned yet.
    pub(crate) fn create_doorbell(
        &mut self,
        request: CreateDoorbell,
    ) -> Handled<CreateDoorbellReply> {
        zero("flags", request.flags)?;
        let queue = self.user_mode_queue(request.hw_queue)?;
        if queue.doorbell().is_some() {
            return Err(RequestError::parameter("hw_queue", request.hw_queue.0));
        }
        let QueueIdentity { id, device, .. } = queue.identity();
        let ring_size = self.ring_allocation(request.ring_buffer, device)?.size();
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
        let doorbell = self.insert(Doorbell::new(id, [unmapped; 2], Vec::new()))?;
        let mut holds = Vec::with_capacity(4);
        match self.bind_doorbell(&request, id, ring_size, &mut holds) {
            Ok((slot, ring)) => {
                *self.get_mut::<Doorbell>(doorbell)? = Doorbell::new(id, ring, holds);
                self.get_mut::<HwQueue>(request.hw_queue)?.set_doorbell(Some(doorbell));
                self.callbacks.doorbells.create(self.guest_id, id);
                let (word, ring_tag) = self.doorbell_word(slot);
                let bars = &self.guest.process_bars;
                let own = bars.find(Placed::Doorbell(slot));
                let own = own.and_then(|place| Some((bars.layout(place.bar)?, place.index)));
                // Only a dedicated doorbell, whose word is that of its slot, is in a process's own BAR.
                let (bar, word, slot) = match own {
                    Some((bar, index)) => (bar, index, index),
                    None => (self.guest.resources.bar, word, slot),
                };
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
                self.give_up_all(holds);
                Err(error)
            }
        }
    }

    /// Returns the slot of the word that the guest rings for a new doorbell, and the tag that distinguishes its rings
    /// from others at that word.
    fn doorbell_word(&mut self, slot: u32) -> (u32, RingTag) {
        match self.platform.doorbell_model() {
            DoorbellModel::Dedicated => (slot, RingTag(0)),
            DoorbellModel::Global => {
                let count = self.guest.count_global_doorbell();
                // A BAR has fewer than 2^16 doorbells, and a tag of another slot is only a hint.
                (GLOBAL_DOORBELL_SLOT, RingTag::new(slot as u16, count))
            }
        }
    }

    /// A queue that takes user-mode submissions and is not in error.
    fn user_mode_queue(&self, handle: Handle) -> Result<&HwQueue, RequestError> {
        let queue = self.own_queue(handle)?;
        if !queue.takes_user_mode_submission() {
            return Err(RequestError::NotSupported("the queue takes kernel-mode submissions"));
        }
        queue.check_alive(handle)?;
        Ok(queue)
    }

    /// A resident allocation for the ring of a queue of `device`.
    fn ring_allocation(&self, handle: Handle, device: Handle) -> Result<&Allocation, RequestError> {
        let allocation = self.get::<Allocation>(handle)?;
        if !allocation.is_open_on(device) {
            return Err(RequestError::parameter("an allocation of another device", handle.0));
        }
        // The lock keeps a paged allocation in place. It must be this process's lock: other processes that have the
        // allocation can unlock and evict it at will.
        let (vidmm, process) = (&self.guest.vidmm, self.process_id);
        let stays = |id| vidmm.is_wanted_by(process, id) && vidmm.is_locked_by(process, id);
        if !allocation.is_resident() || !allocation.paged().is_none_or(stays) {
            return Err(RequestError::NotResident(handle));
        }
        Ok(allocation)
    }

    /// Refuses a new ring buffer control with pointers that are not 0. The check only reports a driver's error early:
    /// the engine begins at 0 in any case, and checks what it reads later. Dxgkrnl has no window to system memory, so
    /// it does not check controls there.
    fn check_new_control(&self, handle: Handle, device: Handle) -> Result<(), RequestError> {
        self.ring_allocation(handle, device)?;
        let Some(page) = self.memory(handle)?.pages(0, PAGE_SIZE).next() else { return Ok(()) };
        if page.segment == Segment::Local {
            for offset in [WRITE_POINTER_OFFSET, READ_POINTER_OFFSET] {
                let address = page.address.saturating_add(offset);
                zero("a ring pointer", self.platform.read_local_word(self.guest_id, address)?)?;
            }
        }
        Ok(())
    }

    /// Takes the resources that a doorbell needs, adds each to `holds`, and gives the queue its ring. Returns the
    /// doorbell's slot and where the ring is mapped.
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
        self.place_in_own_bar(Placed::Doorbell(slot))?;
        let ring = self.map_for_host(request.ring_buffer, ring_size, Protection::empty(), holds)?;
        let control =
            self.map_for_host(request.ring_control, PAGE_SIZE, Protection::WRITE, holds)?;

        let binding = RingBinding {
            slot,
            ring_va: ring.range.start,
            ring_size,
            control_va: control.range.start,
            notify_each: false,
            has_line: self.guest.features().contains(Features::DOORBELL_LINES),
        };
        self.miniport.create_doorbell(queue, binding, request.private_data)?;
        // "Dxgkrnl does take a reference on them during the lifetime of the doorbell."
        let allocations = [request.ring_buffer, request.ring_control];
        for handle in allocations {
            self.get_mut::<Allocation>(handle)?.add_doorbell();
        }
        holds.push(Resource::DoorbellReferences {
            process: self.process_id,
            hw_queue: request.hw_queue,
            allocations,
        });
        Ok((slot, [ring, control]))
    }

    /// `D3DKMTConnectDoorbell`.
    pub(crate) fn connect_doorbell(
        &mut self,
        request: ConnectDoorbell,
    ) -> Handled<ConnectDoorbellReply> {
        let queue = self.user_mode_queue(request.hw_queue)?;
        let (queue, context) = (queue.id(), queue.context());
        let node = self.get::<Context>(context)?.node();
        let status = match self.callbacks.doorbells.state(queue) {
            None => return Err(RequestError::parameter("hw_queue", request.hw_queue.0)),
            Some(DoorbellState::Aborted) => {
                return Err(RequestError::DeviceRemoved(request.hw_queue));
            }
            // Another request connected it first. The guest may have rung unseen meanwhile.
            Some(DoorbellState::Connected(status)) => {
                self.miniport.notify_work_submission(queue)?;
                status
            }
            Some(DoorbellState::Settling(_)) => {
                self.miniport.notify_work_submission(queue)?;
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

    /// `D3DKMTDestroyDoorbell`.
    pub(crate) fn destroy_doorbell(&mut self, request: DestroyDoorbell) -> Handled<()> {
        self.get::<Doorbell>(request.doorbell)?;
        Ok(Answer::Terminate(Target::Doorbell(request.doorbell), Manner::Normal))
    }

    /// `D3DKMTNotifyWorkSubmission`. Has no effect on an aborted doorbell.
    pub(crate) fn notify_work_submission(&mut self, request: NotifyWorkSubmission) -> Handled<()> {
        self.guest.count_notify();
        let queue = self.get::<Doorbell>(request.doorbell)?.queue();
        if self.callbacks.doorbells.state(queue) != Some(DoorbellState::Aborted) {
            self.miniport.notify_work_submission(queue)?;
        }
        Ok(Answer::Done(()))
    }
}
