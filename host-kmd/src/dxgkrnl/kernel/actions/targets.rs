// SPDX-License-Identifier: MIT OR Apache-2.0

//! What ends with a target of a termination, step by step: see `rules::termination`.

use crate::dxgkrnl::doorbell::state::DisconnectReason;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::queues::doorbells::disconnect;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::object::device::{Device, Failing};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::target::Target;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::hw_queue::{HwQueue, QueueIdentity};
use crate::dxgkrnl::recovery::termination::Drain;
use crate::hardware::{Fault, Platform, Reported as _};
use bellhop_protocol::control::Handle;

/// Whether a queue has done all its work, or is lost. A kernel-mode submission is work until the hardware has done it,
/// whatever value its progress fence has by then; so is what its software queue holds.
pub(crate) fn is_drained(
    guest: &Guest,
    platform: &dyn Platform,
    process: u32,
    wait: Drain,
) -> bool {
    let Ok(queue) = guest.handles.get::<HwQueue>(process, wait.queue) else { return true };
    let has_done_it =
        platform.fence_value(guest.id, wait.slot).reported() >= wait.value && queue.is_idle();
    queue.is_in_error() || has_done_it && !queue.held().has_work()
}

impl ProcessAccess<'_> {
    /// The contexts of a target.
    fn contexts_of(&mut self, target: Target) -> Vec<Handle> {
        match target {
            Target::Context(context) => vec![context],
            Target::Device(device) => match self.get::<Device>(device) {
                Ok(device) => device.contexts().iter().copied().collect(),
                Err(_) => Vec::new(),
            },
            Target::Doorbell(_) | Target::HwQueue(_) | Target::Allocation(_) => Vec::new(),
            Target::Process | Target::Guest => self.contexts(),
        }
    }

    /// The queues of a target.
    fn queues_of(&mut self, target: Target) -> Vec<Handle> {
        match target {
            Target::Doorbell(doorbell) => {
                return self.queue_of_doorbell(doorbell).into_iter().collect();
            }
            Target::HwQueue(queue) => return vec![queue],
            _ => {}
        }
        let contexts = self.contexts_of(target);
        let queues = |context: &Handle| match self.get::<Context>(*context) {
            Ok(context) => context.hw_queues().iter().copied().collect(),
            Err(_) => Vec::new(),
        };
        contexts.iter().flat_map(queues).collect()
    }

    /// From now on nothing is created in a target that could take work: its end does not look there again.
    pub(crate) fn begin_termination(&mut self, target: Target) {
        let devices: Vec<Handle> = match target {
            Target::Process => match self.process() {
                Ok(process) => {
                    process.begin_termination();
                    process.devices().iter().copied().collect()
                }
                Err(_) => Vec::new(),
            },
            Target::Device(device) => vec![device],
            _ => Vec::new(),
        };
        for device in devices {
            if let Ok(device) = self.get_mut::<Device>(device) {
                device.begin_termination();
            }
        }
        for context in self.contexts_of(target) {
            if let Ok(context) = self.get_mut::<Context>(context) {
                context.begin_termination();
            }
        }
    }

    /// Disconnects the doorbells of a target. Returns the drains to wait for.
    pub(crate) fn begin_drain(&mut self, target: Target) -> Vec<Drain> {
        let queues = self.queues_of(target);
        queues
            .into_iter()
            .filter_map(|queue| self.begin_queue_drain(queue, target).ok().flatten())
            .collect()
    }

    fn begin_queue_drain(
        &mut self,
        handle: Handle,
        target: Target,
    ) -> Result<Option<Drain>, RequestError> {
        let queue = self.get_mut::<HwQueue>(handle)?;
        if !matches!(target, Target::Doorbell(_)) {
            queue.begin_termination();
        }
        let QueueIdentity { id, progress_fence, .. } = queue.identity();
        let (in_error, submitted) = (queue.is_in_error(), queue.last_submitted());
        // The status is aborted, so that a guest thread that still rings the doorbell does not reconnect it.
        disconnect(self.callbacks, self.miniport, id, DisconnectReason::Abort);
        if in_error {
            return Ok(None);
        }
        // The guest can write any last queued value; the time-out bounds the wait.
        let value = self.platform.last_queued_value(id).reported().max(submitted);
        let slot = self.global_of(progress_fence)?;
        self.with_signals(|signals| signals.await_drain(slot, value))?;
        let drain = Drain { queue: handle, slot, value };
        let is_done = is_drained(self.guest, self.platform, self.process_id, drain);
        Ok((!is_done).then_some(drain))
    }

    /// Makes a queue's engine look at its work. If the context is suspended, the engine looks when it resumes.
    pub(crate) fn have_engine_look(&mut self, handle: Handle) -> Result<(), RequestError> {
        let QueueIdentity { id, context, .. } = self.get::<HwQueue>(handle)?.identity();
        let node = self.get::<Context>(context)?.node();
        self.power.wake_engine(node, self.miniport);
        self.miniport.notify_work_submission(id)?;
        Ok(())
    }

    /// Takes the queues of a target off the run list that have done all their work. Returns whether there are any.
    pub(crate) fn leave_run_list(&mut self, target: Target) -> bool {
        if matches!(target, Target::Doorbell(_)) {
            // Its queue stays.
            return false;
        }
        let mut ids = Vec::new();
        for handle in self.queues_of(target) {
            if let Ok(queue) = self.get_mut::<HwQueue>(handle) {
                queue.leave();
                ids.push(queue.id());
            }
        }
        if !ids.is_empty() {
            self.miniport.suspend_context(&ids).reported();
        }
        !ids.is_empty()
    }

    /// Takes the target off the run list; its queues are lost, and its devices in error.
    pub(crate) fn lose_target(&mut self, target: Target, fault: Fault) {
        match target {
            Target::Doorbell(_) | Target::HwQueue(_) => {
                for handle in self.queues_of(target) {
                    if let Ok(queue) = self.get::<HwQueue>(handle) {
                        let id = queue.id();
                        self.miniport.suspend_context(&[id]).reported();
                    }
                    self.lose_queue(handle, fault);
                }
            }
            Target::Context(context) => self.lose_context(context, fault),
            Target::Device(device) => self.fail_device(device, fault, Failing::Alone),
            Target::Allocation(_) => {}
            Target::Process | Target::Guest => self.fail_process(fault, Failing::Alone),
        }
    }

    pub(crate) fn remove_target(&mut self, target: Target) -> Result<(), RequestError> {
        match target {
            Target::Doorbell(doorbell) => self.remove_doorbell(doorbell),
            Target::HwQueue(queue) => self.remove_hw_queue(queue),
            Target::Context(context) => self.remove_context(context),
            Target::Device(device) => self.remove_device(device),
            Target::Allocation(allocation) => self.remove_allocation(allocation),
            Target::Process | Target::Guest => self.remove_process(),
        }
    }
}
