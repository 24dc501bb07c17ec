// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the kernel may access on behalf of a process: the process, its guest and the GPU.

use crate::ddi::Miniport;
use crate::dxgkrnl::compute::compilations::Compilations;
use crate::dxgkrnl::fence::cross::CrossFences;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::callbacks::Callbacks;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::objects::KernelObject;
use crate::dxgkrnl::kernel::outbox::Outbox;
use crate::dxgkrnl::kernel::process::Process;
use crate::dxgkrnl::kernel::work::WorkList;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::handles::Object;
use crate::dxgkrnl::object::process_ids::ProcessIds;
use crate::dxgkrnl::object::promises::Promise;
use crate::dxgkrnl::object::recorder::Recorder;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::power::gpus::GpuPower;
use crate::dxgkrnl::power::state::Power;
use crate::dxgkrnl::queue::hw_queue::QueueOwner;
use crate::dxgkrnl::queue::submission_fences::SubmissionFences;
use crate::hardware::{GuestId, HwQueueId, Platform};
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::Event;
use std::collections::BTreeMap;
use std::time::Duration;

/// What the kernel does on behalf of one process of one guest, as borrows of everything that it may access. The files
/// in `actions` and the handlers in `requests` add what is done. No other guest can be reached from here, except when the
/// driver takes another guest's doorbell.
///
/// Each subsystem behind a borrow keeps its own rules, so the fields are open to all of `kernel`.
pub(crate) struct ProcessAccess<'k> {
    /// The guest.
    pub(super) guest_id: GuestId,
    /// The process; 0 for the adapter.
    pub(super) process_id: u32,
    /// The guest's objects.
    pub(super) guest: &'k mut Guest,
    /// The driver.
    pub(super) miniport: &'k mut dyn Miniport,
    /// The GPU's memory and status pages that dxgkrnl itself accesses.
    pub(super) platform: &'k dyn Platform,
    /// All doorbells, and the driver's other callbacks.
    pub(super) callbacks: &'k mut Callbacks,
    /// The owner of each HW queue.
    pub(super) queues: &'k mut BTreeMap<HwQueueId, QueueOwner>,
    /// Power state of the device and its engines.
    pub(super) power: &'k mut Power,
    /// Power of each GPU of a chain.
    pub(super) gpu_power: &'k GpuPower,
    /// The time.
    pub(super) now: Duration,
    /// `TdrDelay`: see [`Kernel`].
    pub(super) timeout: Duration,
    /// Kernel-mode submissions in flight.
    pub(super) submissions: &'k mut SubmissionFences,
    /// Kernels of guests that the hardware compiles.
    pub(super) compilations: &'k mut Compilations,
    /// Fences that several guests share.
    pub(super) cross_fences: &'k mut CrossFences,
    /// Work that remains before the input is handled.
    pub(super) work: &'k mut WorkList,
    /// Records for a tool that traces.
    pub(super) recorder: &'k Recorder,
    process_ids: &'k mut ProcessIds,
    /// What leaves the kernel.
    pub(super) outbox: &'k mut Outbox,
    /// See [`Self::give_up`].
    given_up: Vec<Resource>,
}

impl Kernel {
    /// Returns access to one process of a guest, or to its adapter with process 0. Returns `None` if there is no such
    /// guest.
    pub(crate) fn access<'k>(
        &'k mut self,
        guest_id: GuestId,
        process_id: u32,
    ) -> Option<ProcessAccess<'k>> {
        Some(ProcessAccess {
            guest_id,
            process_id,
            guest: self.guests.get_mut(&guest_id)?,
            miniport: self.miniport.as_mut(),
            platform: self.platform.as_ref(),
            callbacks: &mut self.callbacks,
            queues: &mut self.queues,
            power: &mut self.power,
            gpu_power: &self.gpu_power,
            now: self.now,
            timeout: self.timeout,
            submissions: &mut self.submissions,
            compilations: &mut self.compilations,
            cross_fences: &mut self.cross_fences,
            work: &mut self.work,
            recorder: &self.recorder,
            process_ids: &mut self.process_ids,
            outbox: &mut self.outbox,
            given_up: Vec::new(),
        })
    }
}

impl ProcessAccess<'_> {
    /// The process.
    pub(crate) fn process(&mut self) -> Result<&mut Process, RequestError> {
        let id = self.process_id;
        self.guest.processes.get_mut(&id).ok_or(RequestError::NoSuchProcess(id))
    }

    /// The process's object of this kind and handle.
    pub(crate) fn get<T: Object<KernelObject>>(&self, handle: Handle) -> Result<&T, RequestError> {
        self.guest.handles.get(self.process_id, handle)
    }

    /// The process's object of this kind and handle, mutable.
    pub(crate) fn get_mut<T: Object<KernelObject>>(
        &mut self,
        handle: Handle,
    ) -> Result<&mut T, RequestError> {
        self.guest.handles.get_mut(self.process_id, handle)
    }

    /// Gives an object a handle, if the guest's quota allows another.
    pub(crate) fn insert<T: Object<KernelObject>>(
        &mut self,
        object: T,
    ) -> Result<Handle, RequestError> {
        self.guest.quotas.charge_object(T::KIND)?;
        Ok(self.guest.handles.insert(self.process_id, object))
    }

    /// Removes an object and its handle.
    pub(crate) fn remove<T: Object<KernelObject>>(
        &mut self,
        handle: Handle,
    ) -> Result<T, RequestError> {
        let had_name = self.guest.handles.name(self.process_id, handle).is_some();
        let object = self.guest.handles.remove(self.process_id, handle)?;
        if had_name {
            self.recorder.called((self.guest_id, self.process_id), (handle, None), None);
        }
        self.guest.quotas.refund_object(T::KIND);
        Ok(object)
    }

    /// Sends the guest an event, unless it is detaching.
    pub(crate) fn event(&mut self, event: Event) {
        if self.guest.is_detaching() {
            return;
        }
        self.outbox.event(self.guest_id, event);
    }

    /// Answers a request that was not answered before.
    pub(crate) fn answer(&mut self, promise: Promise, answer: Result<Vec<u8>, RequestError>) {
        self.outbox.answer(promise, answer);
    }

    /// Returns an id for a new process.
    pub(crate) fn new_process_id(&mut self) -> u32 {
        self.process_ids.take()
    }

    /// The process gives up a resource. Engines may still use it, so it is freed after its retirement: see
    /// `rules::retirement`.
    pub(crate) fn give_up(&mut self, resource: Resource) {
        self.given_up.push(resource);
    }

    /// The process gives up resources.
    pub(crate) fn give_up_all(&mut self, resources: impl IntoIterator<Item = Resource>) {
        self.given_up.extend(resources);
    }

    /// Returns the resources given up, for the kernel to retire.
    pub(crate) fn into_given_up(self) -> Vec<Resource> {
        self.given_up
    }
}
