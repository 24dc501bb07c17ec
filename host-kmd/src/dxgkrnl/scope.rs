//! What a request may touch: one process of one guest, and the GPU.

use super::callbacks::Callbacks;
use super::cross_fences::CrossFences;
use super::error::RequestError;
use super::guest::Guest;
use super::handles::Object;
use super::hw_queue::QueueOwner;
use super::power::Power;
use super::process::{Process, ProcessIds};
use super::retire::Resource;
use super::software_queue::Released;
use super::submissions::Submissions;
use super::trace::Recorder;
use crate::ddi::Miniport;
use crate::hardware::{GuestId, Hardware, HwQueueId};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::Event;
use std::collections::{BTreeMap, VecDeque};

/// One process of one guest, with everything that its requests are answered from. Each object's
/// file adds its own requests; another guest cannot be reached from here, save by the driver when
/// it takes a doorbell.
pub(super) struct Scope<'k> {
    /// The guest.
    pub(super) guest_id: GuestId,
    /// The process; 0 for requests about the adapter.
    pub(super) process_id: u32,
    /// The guest's objects.
    pub(super) guest: &'k mut Guest,
    /// The driver.
    pub(super) miniport: &'k mut dyn Miniport,
    /// The GPU's memory and status pages, which dxgkrnl accesses itself.
    pub(super) hardware: &'k dyn Hardware,
    /// All doorbells, and what the driver calls dxgkrnl for.
    pub(super) callbacks: &'k mut Callbacks,
    /// Whose a HW queue is.
    pub(super) queues: &'k mut BTreeMap<HwQueueId, QueueOwner>,
    /// Power of the device and its engines.
    pub(super) power: &'k mut Power,
    /// Kernel-mode submissions that are not done.
    pub(super) submissions: &'k mut Submissions,
    /// Ids for processes.
    pub(super) process_ids: &'k mut ProcessIds,
    /// Fences that it may have together with other guests.
    pub(super) cross_fences: &'k mut CrossFences,
    /// Queues whose software queues are to be looked at after this input.
    pub(super) released: &'k mut VecDeque<Released>,
    /// What a tool that traces is told.
    pub(super) recorder: &'k Recorder,
    /// What goes out.
    pub(super) effects: &'k mut Vec<Effect>,
    /// What was taken away from the process and may still be in use by an engine; see `retire`.
    pub(super) given_up: Vec<Resource>,
}

impl Scope<'_> {
    /// The process.
    pub(super) fn process(&mut self) -> Result<&mut Process, RequestError> {
        let id = self.process_id;
        self.guest.processes.get_mut(&id).ok_or(RequestError::NoSuchProcess(id))
    }

    /// The process's object of this kind and handle.
    pub(super) fn get<T: Object>(&self, handle: Handle) -> Result<&T, RequestError> {
        self.guest.handles.get(self.process_id, handle)
    }

    /// The same, to change.
    pub(super) fn get_mut<T: Object>(&mut self, handle: Handle) -> Result<&mut T, RequestError> {
        self.guest.handles.get_mut(self.process_id, handle)
    }

    /// Gives an object a handle, if the guest may have another.
    pub(super) fn insert<T: Object>(&mut self, object: T) -> Result<Handle, RequestError> {
        self.guest.quotas.charge_object(T::KIND)?;
        Ok(self.guest.handles.insert(self.process_id, object))
    }

    /// Takes an object's handle away.
    pub(super) fn remove<T: Object>(&mut self, handle: Handle) -> Result<T, RequestError> {
        let object = self.guest.handles.remove(self.process_id, handle)?;
        self.guest.quotas.refund_object(T::KIND);
        Ok(object)
    }

    /// Tells the guest something, unless it goes.
    pub(super) fn event(&mut self, event: Event) {
        if self.guest.detaching {
            return;
        }
        self.effects.push(Effect::Event { guest: self.guest_id, event });
    }
}
