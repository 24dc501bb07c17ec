// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a request may touch: one process of one guest, and the GPU.

use crate::ddi::Miniport;
use crate::dxgkrnl::fence::cross::CrossFences;
use crate::dxgkrnl::kernel::callbacks::Callbacks;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::objects::KernelObject;
use crate::dxgkrnl::kernel::process::Process;
use crate::dxgkrnl::kernel::work::WorkList;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::handles::Object;
use crate::dxgkrnl::object::process_ids::ProcessIds;
use crate::dxgkrnl::object::recorder::Recorder;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::power::state::Power;
use crate::dxgkrnl::queue::hw_queue::QueueOwner;
use crate::dxgkrnl::queue::submission_fences::SubmissionFences;
use crate::hardware::{GuestId, Hardware, HwQueueId};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::Event;
use std::collections::BTreeMap;

/// One process of one guest, with the state that its requests may touch. The files in `requests` add the
/// handlers. No other guest can be reached from here, except by the driver when it takes a doorbell.
pub(crate) struct Scope<'k> {
    /// The guest.
    pub(crate) guest_id: GuestId,
    /// The process; 0 for requests about the adapter.
    pub(crate) process_id: u32,
    /// The guest's objects.
    pub(crate) guest: &'k mut Guest,
    /// The driver.
    pub(crate) miniport: &'k mut dyn Miniport,
    /// The GPU's memory and status pages that dxgkrnl itself accesses.
    pub(crate) hardware: &'k dyn Hardware,
    /// All doorbells, and the other callbacks of the driver.
    pub(crate) callbacks: &'k mut Callbacks,
    /// The owner of each HW queue.
    pub(crate) queues: &'k mut BTreeMap<HwQueueId, QueueOwner>,
    /// Power of the device and its engines.
    pub(crate) power: &'k mut Power,
    /// Kernel-mode submissions in flight.
    pub(crate) submissions: &'k mut SubmissionFences,
    /// Ids for processes.
    pub(crate) process_ids: &'k mut ProcessIds,
    /// Fences that several guests share.
    pub(crate) cross_fences: &'k mut CrossFences,
    /// Work that is left before the input is handled.
    pub(crate) work: &'k mut WorkList,
    /// What is recorded for a tool that traces.
    pub(crate) recorder: &'k Recorder,
    /// The effects of the input.
    pub(crate) effects: &'k mut Vec<Effect>,
    /// Resources that the process gave up and an engine may still use; see `rules::retirement`.
    pub(crate) given_up: Vec<Resource>,
}

impl Scope<'_> {
    /// The process.
    pub(crate) fn process(&mut self) -> Result<&mut Process, RequestError> {
        let id = self.process_id;
        self.guest.processes.get_mut(&id).ok_or(RequestError::NoSuchProcess(id))
    }

    /// The process's object of this kind and handle.
    pub(crate) fn get<T: Object<KernelObject>>(&self, handle: Handle) -> Result<&T, RequestError> {
        self.guest.handles.get(self.process_id, handle)
    }

    /// The process's object of this kind and handle, to change.
    pub(crate) fn get_mut<T: Object<KernelObject>>(
        &mut self,
        handle: Handle,
    ) -> Result<&mut T, RequestError> {
        self.guest.handles.get_mut(self.process_id, handle)
    }

    /// Gives an object a handle, if the guest may have another.
    pub(crate) fn insert<T: Object<KernelObject>>(
        &mut self,
        object: T,
    ) -> Result<Handle, RequestError> {
        self.guest.quotas.charge_object(T::KIND)?;
        Ok(self.guest.handles.insert(self.process_id, object))
    }

    /// Takes an object's handle away.
    pub(crate) fn remove<T: Object<KernelObject>>(
        &mut self,
        handle: Handle,
    ) -> Result<T, RequestError> {
        let object = self.guest.handles.remove(self.process_id, handle)?;
        self.guest.quotas.refund_object(T::KIND);
        Ok(object)
    }

    /// Sends the guest an event, unless it is detaching.
    pub(crate) fn event(&mut self, event: Event) {
        if self.guest.is_detaching() {
            return;
        }
        self.effects.push(Effect::Event { guest: self.guest_id, event });
    }
}
