// SPDX-License-Identifier: MIT OR Apache-2.0

//! Termination: the end of a process, or of one of its devices, contexts, queues or doorbells.
//!
//! Normal: disconnect the doorbells, make engines look, wait for the queued work, take the queues off the run list.
//! Abnormal: put the devices in error, suspend the contexts. Then, in both: wait until engines have left the queues,
//! destroy. A normal termination that takes too long becomes abnormal.
//!
//! A queue is never destroyed with an engine inside it, whatever its progress fence says: the engine may be in a packet
//! behind the last-queued value. So recovery knows each queue in which an engine can hang.
//!
//! One rule holds for accepted work, no matter what suspends its context, disconnects its doorbell or removes power:
//! an engine executes it, or its queue is reported lost, with a reason. Termination waits for that, with a bound.
//!
//! Source: user-mode work submission, "Normal and abnormal process termination".

use crate::dxgkrnl::doorbell::state::DisconnectReason;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::queue_span::queue_span;
use crate::dxgkrnl::kernel::rules::display::is_shown;
use crate::dxgkrnl::kernel::waiter::Outcome;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::device::{Device, Failing};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::faults::IN_ERROR;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::dxgkrnl::queue::context::{Context, Suspension};
use crate::dxgkrnl::queue::hw_queue::{HwQueue, QueueIdentity};
use crate::dxgkrnl::recovery::termination::{Drain, Ending, Phase, Progress};
use crate::hardware::{Fault, GuestId, Hardware, Reported as _, Ticket};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;

/// Whether a queue has done all its work, or is lost. A kernel-mode submission is work until the hardware has done it,
/// whatever value its progress fence has by then; so is what its software queue holds.
fn is_drained(
    guest: &Guest,
    hardware: &dyn Hardware,
    (id, process): (GuestId, u32),
    wait: Drain,
) -> bool {
    let Ok(queue) = guest.handles.get::<HwQueue>(process, wait.queue) else { return true };
    let has_done_it =
        hardware.fence_value(id, wait.slot).reported() >= wait.value && queue.is_idle();
    queue.is_in_error() || has_done_it && !queue.held().has_work()
}

impl Kernel {
    /// Begins a termination.
    pub(crate) fn terminate(
        &mut self,
        (guest, process): (GuestId, u32),
        target: Target,
        manner: Manner,
        completion: Completion,
        effects: &mut Vec<Effect>,
    ) {
        self.take_display((guest, process), target, effects);
        self.take_agent((guest, process), target, effects);
        if let Some(mut access) = self.access(guest, process, effects) {
            access.begin_termination(target);
        }
        let phase = match manner {
            Manner::Normal => {
                let Some(mut access) = self.access(guest, process, effects) else { return };
                let waits = access.begin_drain(target);
                self.have_engines_look(guest, process, &waits, effects);
                Phase::Draining { waits, deadline: self.now.saturating_add(self.timeout) }
            }
            Manner::Abnormal => {
                Phase::Preempting(self.lose(guest, process, target, IN_ERROR, effects))
            }
        };
        tracing::debug!(guest = guest.0, process, ?target, ?manner, ?phase, "ending");
        self.terminations.begin(Ending { guest, process, target, completion }, phase);
        self.work.wake(Rule::Terminations);
    }

    /// Powers engines and makes them look at queues. They have not seen what a guest wrote into a ring after its
    /// doorbell was disconnected, and the guest cannot reconnect that doorbell.
    fn have_engines_look(
        &mut self,
        guest: GuestId,
        process: u32,
        waits: &[Drain],
        effects: &mut Vec<Effect>,
    ) {
        if waits.is_empty() {
            return;
        }
        self.ensure_power(effects);
        let Some(mut access) = self.access(guest, process, effects) else { return };
        for wait in waits {
            if let Err(error) = access.have_engine_look(wait.queue) {
                let span = queue_span(process, wait.queue);
                tracing::error!(parent: &span, guest = guest.0, %error, "no engine looks at a queue that ends");
            }
        }
    }

    /// Takes the target off the run list, and reports its queues as lost. Engines have left them when the ticket has
    /// passed.
    fn lose(
        &mut self,
        guest: GuestId,
        process: u32,
        target: Target,
        fault: Fault,
        effects: &mut Vec<Effect>,
    ) -> Ticket {
        if target == Target::Guest {
            self.fail_guest(guest, fault, effects);
            if let Some(Ok(system)) = self.guests.get(&guest).map(|guest| guest.system()) {
                self.miniport.suspend_context(&[system.hw_queue]).reported();
            }
        } else if let Some(mut access) = self.access(guest, process, effects) {
            access.lose_target(target, fault);
            let given_up = access.into_given_up();
            self.retire_given_up(guest, given_up);
        }
        self.hardware.quiesce(Some(guest))
    }

    /// Checks all terminations.
    pub(crate) fn continue_terminations(&mut self, effects: &mut Vec<Effect>) {
        let mut index = 0;
        while let Some(progress) = self.look_at_termination(index) {
            match progress {
                Progress::Ended(ending) => {
                    self.finish(ending, effects);
                    continue;
                }
                Progress::Drained(ending) => {
                    let ticket = self.leave(ending, effects);
                    self.terminations.set_phase(index, Phase::Preempting(ticket));
                    continue;
                }
                Progress::Late(ending, waits) => {
                    let Ending { guest, process, .. } = ending;
                    let is_held = waits.iter().any(|wait| {
                        self.is_held_by_host(guest, process, *wait)
                            || self.is_held_by_another(guest, process, *wait)
                    });
                    let phase = if is_held {
                        // The host or another guest took that time, so the queues get it again.
                        let deadline = self.now.saturating_add(self.timeout);
                        Phase::Draining { waits, deadline }
                    } else {
                        self.work.wake(Rule::Terminations);
                        Phase::Preempting(self.end_of_time(ending, effects))
                    };
                    self.terminations.set_phase(index, phase);
                }
                Progress::Waiting => {}
            }
            index += 1;
        }
    }

    fn look_at_termination(&mut self, index: usize) -> Option<Progress> {
        let Self { terminations, guests, hardware, quiesced, now, .. } = self;
        let is_done = |ending: &Ending, wait| {
            let owner = (ending.guest, ending.process);
            let guest = guests.get(&ending.guest);
            guest.is_none_or(|guest| is_drained(guest, hardware.as_ref(), owner, wait))
        };
        let is_seen = |ending: &Ending| {
            guests.get(&ending.guest).is_some_and(|guest| is_shown(guest, ending))
        };
        terminations.look(index, (quiesced, *now), is_done, is_seen)
    }

    /// Whether a queue cannot do its work because the host holds its context: the operator, or VidMm while it moves
    /// memory. Either can take any time, which does not count against the queue.
    fn is_held_by_host(&self, guest: GuestId, process: u32, wait: Drain) -> bool {
        let Some(state) = self.guests.get(&guest) else { return false };
        let is_moved = state.processes.get(&process).is_some_and(|process| process.is_held());
        let queue = state.handles.get::<HwQueue>(process, wait.queue);
        let context =
            queue.and_then(|queue| state.handles.get::<Context>(process, queue.context()));
        context.is_ok_and(|context| {
            let suspended = |by| context.state().is_suspended_by(by);
            suspended(Suspension::HOST) || is_moved && suspended(Suspension::MEMORY)
        })
    }

    /// Whether a queue could not do its work because its engine stood in memory of another guest, in the time that the
    /// queue had.
    fn is_held_by_another(&mut self, guest: GuestId, process: u32, wait: Drain) -> bool {
        let Some(state) = self.guests.get(&guest) else { return false };
        let queue = state.handles.get::<HwQueue>(process, wait.queue);
        let context =
            queue.and_then(|queue| state.handles.get::<Context>(process, queue.context()));
        let Ok(node) = context.map(Context::node) else { return false };
        self.see_standing(node);
        self.tdr.stood_for_another(node, guest, self.now.saturating_sub(self.timeout))
    }

    /// The target has not finished its work in time, and loses it. Returns the ticket after which engines have left
    /// it.
    fn end_of_time(&mut self, ending: Ending, effects: &mut Vec<Effect>) -> Ticket {
        let Ending { guest, process, target, .. } = ending;
        tracing::debug!(guest = guest.0, process, ?target, "it did not end in time");
        let time = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        let fault = Fault::new(FaultReason::ENGINE_TIMEOUT, Opcode::NOP, time);
        self.lose(guest, process, target, fault, effects)
    }

    /// Takes a target off the run list that has done all its work. Returns the ticket after which engines have left it.
    fn leave(&mut self, ending: Ending, effects: &mut Vec<Effect>) -> Ticket {
        let Ending { guest, process, target, .. } = ending;
        let access = self.access(guest, process, effects);
        if access.is_some_and(|mut access| access.leave_run_list(target)) {
            self.hardware.quiesce(Some(guest))
        } else {
            // No engine can be inside it.
            self.quiesced.of(guest)
        }
    }

    /// Destroys a target that no engine needs any more.
    fn finish(&mut self, ending: Ending, effects: &mut Vec<Effect>) {
        let Ending { guest, process, target, completion } = ending;
        let processes = match (target, self.guests.get(&guest)) {
            (_, None) => return,
            (Target::Guest, Some(guest)) => guest.processes.keys().copied().collect(),
            _ => vec![process],
        };
        let mut given_up = Vec::new();
        for process in processes {
            let Some(mut access) = self.access(guest, process, effects) else { continue };
            // The target may have been destroyed with the object that contains it.
            if let Err(error) = access.remove_target(target) {
                tracing::debug!(guest = guest.0, process, ?target, %error, "gone already");
            }
            given_up.extend(access.into_given_up());
        }
        if target == Target::Guest
            && let Some(Ok(system)) = self.guests.get(&guest).map(|guest| guest.system())
        {
            self.miniport.destroy_hw_queue(system.hw_queue);
            if let Some(guest) = self.guests.get_mut(&guest) {
                let freed = guest.vidmm.take_plan().freed;
                let (abandoned, waiters) = guest.paging.abandon();
                for range in freed.into_iter().chain(abandoned) {
                    guest.vidmm.give_back(range);
                }
                for waiter in waiters {
                    if let Outcome::Submit(submission) = waiter.outcome {
                        let process = submission.process;
                        guest.release_holds(process, &submission.into_holds());
                    }
                }
            }
            given_up.push(Resource::SystemContext(system.address_space));
        }
        tracing::debug!(guest = guest.0, process, ?target, "ended");
        // Before the retirement, so that resources are freed only after the paging that uses them.
        self.begin_paging(guest, process, None, effects);
        self.retire(guest, given_up, completion);
    }
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
    fn begin_termination(&mut self, target: Target) {
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
    fn begin_drain(&mut self, target: Target) -> Vec<Drain> {
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
        self.disconnect(id, DisconnectReason::Abort);
        if in_error {
            return Ok(None);
        }
        // The guest can write any last queued value; the time-out bounds the wait.
        let value = self.hardware.last_queued_value(id).reported().max(submitted);
        let slot = self.monitor_drain(progress_fence, value)?;
        let (drain, owner) =
            (Drain { queue: handle, slot, value }, (self.guest_id, self.process_id));
        Ok((!is_drained(self.guest, self.hardware, owner, drain)).then_some(drain))
    }

    /// Makes a queue's engine look at its work. If the context is suspended, the engine looks when it resumes.
    fn have_engine_look(&mut self, handle: Handle) -> Result<(), RequestError> {
        let QueueIdentity { id, context, .. } = self.get::<HwQueue>(handle)?.identity();
        let node = self.get::<Context>(context)?.node();
        self.power.wake_engine(node, self.miniport);
        self.miniport.notify_work_submission(id)?;
        Ok(())
    }

    /// Takes the queues of a target off the run list that have done all their work. Returns whether there are any.
    fn leave_run_list(&mut self, target: Target) -> bool {
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
    fn lose_target(&mut self, target: Target, fault: Fault) {
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

    fn remove_target(&mut self, target: Target) -> Result<(), RequestError> {
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
