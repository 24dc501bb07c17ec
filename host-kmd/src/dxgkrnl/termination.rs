//! The end of processes and of what they have.
//!
//! Normal: disconnect the doorbells, have engines look, wait for what was queued, destroy. Abnormal: mark
//! the devices in error, suspend the contexts, wait until engines have left them, destroy. What cannot end
//! normally in time ends abnormally.
//!
//! One rule holds for accepted work whatever suspends its context, wherever its doorbell is and whichever
//! power the device has: it is executed, or its queue is reported lost, with a reason. It is waited for until
//! then, with a bound.
//!
//! Source: user-mode work submission, "Normal and abnormal process termination".

use super::command::IN_ERROR;
use super::context::{Context, Suspension};
use super::device::{Device, Failing};
use super::doorbell::DisconnectReason;
use super::error::RequestError;
use super::guest::Guest;
use super::hw_queue::HwQueue;
use super::kernel::Kernel;
use super::retire::{Completion, Resource};
use super::scope::Scope;
use crate::hardware::{Fault, GuestId, Hardware, Ticket};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use std::time::Duration;

/// What ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A doorbell, with what its ring holds: the queue stays.
    Doorbell(Handle),
    /// A HW queue.
    HwQueue(Handle),
    /// A context with its queues.
    Context(Handle),
    /// A device with everything on it.
    Device(Handle),
    /// A process with everything that it has.
    Process,
    /// All processes of the guest.
    Guest,
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// What was queued is waited for.
    Normal,
    /// What was queued is lost.
    Abnormal,
}

/// How far it has come.
#[derive(Debug)]
enum Phase {
    /// Its doorbells are disconnected, and these queues have yet to do what they were given.
    Draining { waits: Vec<Drain>, deadline: Duration },
    /// Its contexts are off the run list, and engines have yet to leave them.
    Preempting(Ticket),
}

/// A queue's progress fence and the last value that it was given.
#[derive(Debug, Clone, Copy)]
struct Drain {
    queue: Handle,
    slot: u32,
    value: u64,
}

/// Something that is about to end.
#[derive(Debug)]
pub(super) struct Termination {
    guest: GuestId,
    process: u32,
    target: Target,
    phase: Phase,
    completion: Completion,
}

/// Whether a queue has done what it was given, or is lost. What it holds in its software queue was given to
/// it, too.
fn is_drained(
    guest: &Guest,
    hardware: &dyn Hardware,
    (id, process): (GuestId, u32),
    wait: Drain,
) -> bool {
    let Ok(queue) = guest.handles.get::<HwQueue>(process, wait.queue) else { return true };
    let has_done_it =
        hardware.fence_value(id, wait.slot) >= wait.value && !queue.software.has_work();
    queue.in_error || has_done_it
}

impl Kernel {
    /// Begins the end of something.
    pub(super) fn terminate(
        &mut self,
        (guest, process): (GuestId, u32),
        target: Target,
        manner: Manner,
        completion: Completion,
        effects: &mut Vec<Effect>,
    ) {
        let phase = match manner {
            Manner::Normal => {
                let Some(mut scope) = self.scope(guest, process, effects) else { return };
                let waits = scope.begin_drain(target);
                self.have_engines_look(guest, process, &waits, effects);
                Phase::Draining { waits, deadline: self.now.saturating_add(self.timeout) }
            }
            Manner::Abnormal => {
                Phase::Preempting(self.lose(guest, process, target, IN_ERROR, effects))
            }
        };
        tracing::debug!(guest = guest.0, process, ?target, ?manner, ?phase, "ending");
        self.terminations.push(Termination { guest, process, target, phase, completion });
    }

    /// Has engines, with power, look at queues. What a guest wrote into a ring whose doorbell was
    /// disconnected has been seen by nobody, and nobody else will ask: the doorbell can be connected no more.
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
        let Some(mut scope) = self.scope(guest, process, effects) else { return };
        for wait in waits {
            if let Err(error) = scope.have_engine_look(wait.queue) {
                tracing::error!(guest = guest.0, hw_queue = %wait.queue, %error, "it is missing");
            }
        }
    }

    /// Takes what ends off the run list, and reports its queues as lost. Engines have left it when the ticket
    /// has passed.
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
            if let Some(Ok(system)) = self.guests.get(&guest).map(|guest| guest.system) {
                self.miniport.suspend_context(&[system.hw_queue]);
            }
        } else if let Some(mut scope) = self.scope(guest, process, effects) {
            scope.lose_target(target, fault);
            let given_up = scope.given_up;
            self.retire_given_up(guest, given_up);
        }
        self.hardware.quiesce(Some(guest))
    }

    /// Goes on with everything that is about to end.
    pub(super) fn continue_terminations(&mut self, effects: &mut Vec<Effect>) {
        let mut index = 0;
        while let Some(termination) = self.terminations.get(index) {
            let Termination { guest, process, target, completion, .. } = *termination;
            let is_done = match &termination.phase {
                Phase::Preempting(ticket) => *ticket <= self.hardware.quiesced(),
                Phase::Draining { waits, .. } => self.guests.get(&guest).is_none_or(|state| {
                    let hardware = self.hardware.as_ref();
                    waits.iter().all(|wait| is_drained(state, hardware, (guest, process), *wait))
                }),
            };
            if is_done {
                self.terminations.remove(index);
                self.finish(guest, process, target, completion, effects);
                continue;
            }
            if let Phase::Draining { waits, deadline } = &termination.phase
                && *deadline <= self.now
            {
                let is_held = waits.iter().any(|wait| self.is_held_by_host(guest, process, *wait));
                let more = is_held.then(|| self.now.saturating_add(self.timeout));
                self.end_of_time(index, more, effects);
            }
            index += 1;
        }
    }

    /// Whether a queue cannot do what it was given because the host holds its context: whoever runs it, or
    /// VidMm while it moves memory. Both let go without the guest's doing, and that time is not the queue's.
    fn is_held_by_host(&self, guest: GuestId, process: u32, wait: Drain) -> bool {
        let Some(state) = self.guests.get(&guest) else { return false };
        let is_moved = state.processes.get(&process).is_some_and(|process| process.holds > 0);
        let queue = state.handles.get::<HwQueue>(process, wait.queue);
        let context = queue.and_then(|queue| state.handles.get::<Context>(process, queue.context));
        context.is_ok_and(|context| {
            let suspended = |by| context.state.is_suspended_by(by);
            suspended(Suspension::HOST) || is_moved && suspended(Suspension::MEMORY)
        })
    }

    /// What ends has not done what it was given in time: that is lost, unless it gets more time.
    fn end_of_time(&mut self, index: usize, more: Option<Duration>, effects: &mut Vec<Effect>) {
        let Some(termination) = self.terminations.get_mut(index) else { return };
        let Termination { guest, process, target, .. } = *termination;
        if let (Phase::Draining { deadline, .. }, Some(more)) = (&mut termination.phase, more) {
            *deadline = more;
            return;
        }
        tracing::debug!(guest = guest.0, process, ?target, "its time is over");
        let fault = Fault {
            reason: FaultReason::ENGINE_TIMEOUT,
            opcode: Opcode::NOP,
            address: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
            read_pointer: 0,
        };
        let ticket = self.lose(guest, process, target, fault, effects);
        if let Some(termination) = self.terminations.get_mut(index) {
            termination.phase = Phase::Preempting(ticket);
        }
    }

    /// No engine needs it any more, or ever will: destroys it.
    fn finish(
        &mut self,
        guest: GuestId,
        process: u32,
        target: Target,
        completion: Completion,
        effects: &mut Vec<Effect>,
    ) {
        let processes = match (target, self.guests.get(&guest)) {
            (_, None) => return,
            (Target::Guest, Some(guest)) => guest.processes.keys().copied().collect(),
            _ => vec![process],
        };
        let mut given_up = Vec::new();
        for process in processes {
            let Some(mut scope) = self.scope(guest, process, effects) else { continue };
            // What is gone already went with something greater.
            if let Err(error) = scope.remove_target(target) {
                tracing::debug!(guest = guest.0, process, ?target, %error, "gone already");
            }
            given_up.append(&mut scope.given_up);
        }
        if target == Target::Guest
            && let Some(Ok(system)) = self.guests.get(&guest).map(|guest| guest.system)
        {
            self.miniport.destroy_hw_queue(system.hw_queue);
            if let Some(guest) = self.guests.get_mut(&guest) {
                let freed = guest.vidmm.take_plan().freed;
                let (abandoned, deferred) = guest.paging.abandon();
                for range in freed.into_iter().chain(abandoned) {
                    guest.vidmm.give_back(range);
                }
                for submission in deferred {
                    let process = submission.process;
                    guest.release_holds(process, &submission.into_holds());
                }
            }
            given_up.push(Resource::SystemContext(system.address_space));
        }
        tracing::debug!(guest = guest.0, process, ?target, "ended");
        self.begin_paging(guest, process, None, effects);
        self.retire(guest, given_up, completion);
    }

    /// When the next of them has waited for long enough.
    pub(super) fn termination_deadline(&self) -> Option<Duration> {
        let deadlines =
            self.terminations.iter().filter_map(|termination| match termination.phase {
                Phase::Draining { deadline, .. } => Some(deadline),
                Phase::Preempting(_) => None,
            });
        deadlines.min()
    }

    /// Whether something is about to end already.
    pub(super) fn is_terminating(&self, guest: GuestId, process: u32, target: Target) -> bool {
        let wanted = (guest, process, target);
        self.terminations.iter().any(|other| (other.guest, other.process, other.target) == wanted)
    }

    /// The guest goes with everything that is about to end.
    pub(super) fn forget_terminations(&mut self, guest: GuestId) {
        self.terminations.retain(|termination| termination.guest != guest);
    }
}

impl Scope<'_> {
    /// The queues of what ends.
    fn queues_of(&mut self, target: Target) -> Vec<Handle> {
        let contexts: Vec<Handle> = match target {
            Target::Doorbell(doorbell) => {
                return self.queue_of_doorbell(doorbell).into_iter().collect();
            }
            Target::HwQueue(queue) => return vec![queue],
            Target::Context(context) => vec![context],
            Target::Device(device) => match self.get::<Device>(device) {
                Ok(device) => device.contexts.iter().copied().collect(),
                Err(_) => Vec::new(),
            },
            Target::Process | Target::Guest => self.contexts(),
        };
        let queues = |context: &Handle| match self.get::<Context>(*context) {
            Ok(context) => context.hw_queues.iter().copied().collect(),
            Err(_) => Vec::new(),
        };
        contexts.iter().flat_map(queues).collect()
    }

    /// Disconnects the doorbells of what ends. Returns what is to be waited for.
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
        queue.terminating |= !matches!(target, Target::Doorbell(_));
        let (id, progress_fence) = (queue.id, queue.progress_fence);
        let (in_error, submitted) = (queue.in_error, queue.last_submitted);
        // Connecting it again is not what a guest thread that still rings it should do.
        self.disconnect(id, DisconnectReason::Abort);
        if in_error {
            return Ok(None);
        }
        // The guest can write what it likes there, and is waited for no longer than the time-out.
        let value = self.hardware.last_queued_value(id).max(submitted);
        let slot = self.monitor_drain(progress_fence, value)?;
        let (drain, owner) =
            (Drain { queue: handle, slot, value }, (self.guest_id, self.process_id));
        Ok((!is_drained(self.guest, self.hardware, owner, drain)).then_some(drain))
    }

    /// Has a queue's engine look at what the queue was given. That of a suspended context does so when that
    /// is resumed.
    fn have_engine_look(&mut self, handle: Handle) -> Result<(), RequestError> {
        let HwQueue { id, context, .. } = *self.get::<HwQueue>(handle)?;
        let node = self.get::<Context>(context)?.node;
        self.power.wake_engine(node, self.miniport);
        self.miniport.notify_work_submission(id);
        Ok(())
    }

    /// Takes what ends off the run list; its queues are lost, and its devices in error.
    fn lose_target(&mut self, target: Target, fault: Fault) {
        match target {
            Target::Doorbell(_) | Target::HwQueue(_) => {
                for handle in self.queues_of(target) {
                    if let Ok(HwQueue { id, .. }) = self.get::<HwQueue>(handle) {
                        let id = *id;
                        self.miniport.suspend_context(&[id]);
                    }
                    self.lose_queue(handle, fault);
                }
            }
            Target::Context(context) => self.lose_context(context, fault),
            Target::Device(device) => self.fail_device(device, fault, Failing::Alone),
            Target::Process | Target::Guest => self.fail_process(fault, Failing::Alone),
        }
    }

    fn remove_target(&mut self, target: Target) -> Result<(), RequestError> {
        match target {
            Target::Doorbell(doorbell) => self.remove_doorbell(doorbell),
            Target::HwQueue(queue) => self.remove_hw_queue(queue),
            Target::Context(context) => self.remove_context(context),
            Target::Device(device) => self.remove_device(device),
            Target::Process | Target::Guest => self.remove_process(),
        }
    }
}
