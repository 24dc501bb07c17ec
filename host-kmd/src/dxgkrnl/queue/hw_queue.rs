// SPDX-License-Identifier: MIT OR Apache-2.0

//! HW queues: the work given to each, and the process that owns it.

use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::recorder::Recorder;
use crate::dxgkrnl::object::resource::Hold;
use crate::dxgkrnl::queue::software_queue::{HeldSignal, SoftwareQueue};
use crate::dxgkrnl::queue::submission::{HeldSubmission, InFlight};
use crate::hardware::{GuestId, HwQueueId};
use bellhop_protocol::control::Handle;
use bellhop_protocol::trace::What;

/// Properties of a HW queue from its creation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueIdentity {
    /// The context that owns it.
    pub(crate) context: Handle,
    /// That context's device.
    pub(crate) device: Handle,
    /// The GPU's id of the queue.
    pub(crate) id: HwQueueId,
    /// Whether work comes through a doorbell rather than through requests.
    pub(crate) user_mode_submission: bool,
    /// Its progress fence.
    pub(crate) progress_fence: Handle,
}

/// The held work of a queue.
pub(crate) type HeldWork = SoftwareQueue<Vec<HeldSignal>, HeldSubmission>;

/// A HW queue.
#[derive(Debug)]
pub(crate) struct HwQueue {
    identity: QueueIdentity,
    /// Its doorbell, until engines have forgotten the doorbell.
    doorbell: Option<Handle>,
    /// The highest value to which a kernel-mode submission sets its progress fence.
    last_submitted: u64,
    /// Kernel-mode submissions in flight.
    in_flight: InFlight,
    /// Kernel-mode work that is held.
    software: HeldWork,
    /// Whether it is in error and takes no more work.
    in_error: bool,
    /// Whether it is about to be destroyed and takes no more work.
    terminating: bool,
    /// Whether it is off the run list for good, before it is destroyed.
    left: bool,
}

impl HwQueue {
    /// Creates a queue without work.
    pub(crate) fn new(identity: QueueIdentity) -> Self {
        Self {
            identity,
            doorbell: None,
            last_submitted: 0,
            in_flight: InFlight::default(),
            software: SoftwareQueue::default(),
            in_error: false,
            terminating: false,
            left: false,
        }
    }

    /// Its properties from creation.
    pub(crate) fn identity(&self) -> QueueIdentity {
        self.identity
    }

    /// The GPU's id of the queue.
    pub(crate) fn id(&self) -> HwQueueId {
        self.identity.id
    }

    /// The context that owns it.
    pub(crate) fn context(&self) -> Handle {
        self.identity.context
    }

    /// Whether work comes through a doorbell rather than through requests.
    pub(crate) fn takes_user_mode_submission(&self) -> bool {
        self.identity.user_mode_submission
    }

    /// Its doorbell, until engines have forgotten the doorbell.
    pub(crate) fn doorbell(&self) -> Option<Handle> {
        self.doorbell
    }

    /// Sets its doorbell, or `None` once engines have forgotten the doorbell.
    pub(crate) fn set_doorbell(&mut self, doorbell: Option<Handle>) {
        self.doorbell = doorbell;
    }

    /// The highest value to which a kernel-mode submission sets its progress fence.
    pub(crate) fn last_submitted(&self) -> u64 {
        self.last_submitted
    }

    /// Whether it is in error.
    pub(crate) fn is_in_error(&self) -> bool {
        self.in_error
    }

    /// Whether it is about to be destroyed.
    pub(crate) fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// Refuses a queue that is in error or about to be destroyed.
    pub(crate) fn check_alive(&self, handle: Handle) -> Result<(), RequestError> {
        let is_lost = self.in_error || self.terminating;
        if is_lost { Err(RequestError::DeviceRemoved(handle)) } else { Ok(()) }
    }

    /// Marks it as about to be destroyed.
    pub(crate) fn begin_termination(&mut self) {
        self.terminating = true;
    }

    /// It has done all its work, and leaves the run list for good.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }

    /// Whether it is on the run list while its context is.
    pub(crate) fn is_listed(&self) -> bool {
        !self.in_error && !self.left
    }

    /// Puts it in error. Returns the work that it will not do, or `None` if it was in error already.
    pub(crate) fn lose(&mut self) -> Option<(InFlight, HeldWork)> {
        if std::mem::replace(&mut self.in_error, true) {
            return None;
        }
        Some((std::mem::take(&mut self.in_flight), std::mem::take(&mut self.software)))
    }

    /// Destroys it. Returns the work that it will not do.
    pub(crate) fn destroy(self) -> (InFlight, HeldWork) {
        (self.in_flight, self.software)
    }

    /// Whether the hardware has done all its submissions.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// The held work.
    pub(crate) fn held(&self) -> &HeldWork {
        &self.software
    }

    /// The held work, mutable.
    pub(crate) fn held_mut(&mut self) -> &mut HeldWork {
        &mut self.software
    }

    /// Records an accepted submission that sets its progress fence to a value.
    pub(crate) fn note_submitted(&mut self, progress_fence_value: u64) {
        self.last_submitted = self.last_submitted.max(progress_fence_value);
    }

    /// The hardware accepted a submission with this fence id.
    pub(crate) fn begin_submission(&mut self, fence: u64, holds: Vec<Hold>) {
        self.in_flight.push(fence, holds);
    }

    /// Takes the holds of the oldest submission in flight if it is done. All submissions up to `fence` are.
    pub(crate) fn complete_submission(&mut self, fence: u64) -> Option<Vec<Hold>> {
        self.in_flight.pop_done(fence)
    }
}

/// The owner of a HW queue, for interrupts that name the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueOwner {
    /// The guest.
    pub(crate) guest: GuestId,
    /// The process.
    pub(crate) process: u32,
    /// The queue's handle.
    pub(crate) handle: Handle,
    /// The handle of its context.
    pub(crate) context: Handle,
    /// The handle of its device.
    pub(crate) device: Handle,
    /// The node that executes it.
    pub(crate) node: u32,
    /// The slot of its progress fence.
    pub(crate) progress_fence: u32,
    /// Whether it may execute without progress indefinitely.
    pub(crate) disable_gpu_timeout: bool,
}

impl QueueOwner {
    /// Records the queue for a tool that traces.
    pub(crate) fn note(&self, id: HwQueueId, recorder: &Recorder) {
        recorder.note(|| What::Queue {
            queue: id.0,
            node: self.node,
            guest: self.guest.0,
            process: self.process,
            handle: self.handle.into(),
            context: self.context.into(),
            device: self.device.into(),
            progress_fence: self.progress_fence,
        });
    }
}
