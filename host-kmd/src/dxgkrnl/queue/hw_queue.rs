// SPDX-License-Identifier: MIT OR Apache-2.0

//! HW queues: what each was given, and which process owns it.

use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::recorder::Recorder;
use crate::dxgkrnl::object::resource::Hold;
use crate::dxgkrnl::queue::software_queue::{HeldSignal, SoftwareQueue};
use crate::dxgkrnl::queue::submission::{HeldSubmission, InFlight};
use crate::hardware::{GuestId, HwQueueId};
use bellhop_protocol::control::Handle;
use bellhop_protocol::trace::What;

/// What a HW queue was created with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueIdentity {
    /// The context that it goes with.
    pub(crate) context: Handle,
    /// That context's device.
    pub(crate) device: Handle,
    /// The queue as the GPU knows it.
    pub(crate) id: HwQueueId,
    /// Whether work comes through a doorbell, or else through requests.
    pub(crate) user_mode_submission: bool,
    /// Its progress fence.
    pub(crate) progress_fence: Handle,
}

/// What is held for a queue.
pub(crate) type HeldWork = SoftwareQueue<Vec<HeldSignal>, HeldSubmission>;

/// A HW queue.
#[derive(Debug)]
pub(crate) struct HwQueue {
    identity: QueueIdentity,
    /// Its doorbell, until engines have forgotten that one.
    doorbell: Option<Handle>,
    /// The last value that a kernel-mode submission gives its progress fence.
    last_submitted: u64,
    /// What was submitted in kernel mode and is not done.
    in_flight: InFlight,
    /// What it was given in kernel mode and is held.
    software: HeldWork,
    /// It made an error and takes nothing more.
    in_error: bool,
    /// It is about to be destroyed and takes nothing more.
    terminating: bool,
}

impl HwQueue {
    /// A queue that was given nothing yet.
    pub(crate) fn new(identity: QueueIdentity) -> Self {
        Self {
            identity,
            doorbell: None,
            last_submitted: 0,
            in_flight: InFlight::default(),
            software: SoftwareQueue::default(),
            in_error: false,
            terminating: false,
        }
    }

    /// What it was created with.
    pub(crate) fn identity(&self) -> QueueIdentity {
        self.identity
    }

    /// The queue as the GPU knows it.
    pub(crate) fn id(&self) -> HwQueueId {
        self.identity.id
    }

    /// The context that it goes with.
    pub(crate) fn context(&self) -> Handle {
        self.identity.context
    }

    /// Whether work comes through a doorbell, or else through requests.
    pub(crate) fn takes_user_mode_submission(&self) -> bool {
        self.identity.user_mode_submission
    }

    /// Its doorbell, until engines have forgotten that one.
    pub(crate) fn doorbell(&self) -> Option<Handle> {
        self.doorbell
    }

    /// It has this doorbell, or engines have forgotten the one that it had.
    pub(crate) fn set_doorbell(&mut self, doorbell: Option<Handle>) {
        self.doorbell = doorbell;
    }

    /// The last value that a kernel-mode submission gives its progress fence.
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

    /// It is about to be destroyed.
    pub(crate) fn begin_termination(&mut self) {
        self.terminating = true;
    }

    /// It is in error from now on. Returns what it was given and will not do; `None` when it was in error.
    pub(crate) fn lose(&mut self) -> Option<(InFlight, HeldWork)> {
        if std::mem::replace(&mut self.in_error, true) {
            return None;
        }
        Some((std::mem::take(&mut self.in_flight), std::mem::take(&mut self.software)))
    }

    /// It is destroyed. Returns what it was given and will not do.
    pub(crate) fn destroy(self) -> (InFlight, HeldWork) {
        (self.in_flight, self.software)
    }

    /// Whether the hardware has done everything that it was given.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// What is held.
    pub(crate) fn held(&self) -> &HeldWork {
        &self.software
    }

    /// What is held, to change.
    pub(crate) fn held_mut(&mut self) -> &mut HeldWork {
        &mut self.software
    }

    /// A submission was accepted that gives its progress fence a value.
    pub(crate) fn note_submitted(&mut self, progress_fence_value: u64) {
        self.last_submitted = self.last_submitted.max(progress_fence_value);
    }

    /// The hardware took a submission with this fence id.
    pub(crate) fn begin_submission(&mut self, fence: u64, holds: Vec<Hold>) {
        self.in_flight.push(fence, holds);
    }

    /// Takes what the oldest submission holds if it is done, as all up to `fence` are.
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
    /// The node that executes it.
    pub(crate) node: u32,
    /// The slot of its progress fence.
    pub(crate) progress_fence: u32,
    /// It may make no progress for as long as it likes.
    pub(crate) disable_gpu_timeout: bool,
}

impl QueueOwner {
    /// Tells a tool that traces of the queue.
    pub(crate) fn note(&self, id: HwQueueId, recorder: &Recorder) {
        recorder.note(|| What::Queue {
            queue: id.0,
            node: self.node,
            guest: self.guest.0,
            process: self.process,
            handle: self.handle.into(),
            progress_fence: self.progress_fence,
        });
    }
}
