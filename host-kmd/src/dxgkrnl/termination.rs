//! The end of processes and of what they have.
//!
//! Normal: disconnect the doorbells, wait for what was queued, destroy. Abnormal: suspend the
//! contexts, wait until engines have left them, disconnect, destroy. What cannot end normally in
//! time ends abnormally.
//!
//! Source: user-mode work submission, "Normal and abnormal process termination".

use super::context::{Context, Suspension};
use super::device::Device;
use super::doorbell::DisconnectReason;
use super::error::RequestError;
use super::hw_queue::HwQueue;
use super::kernel::Kernel;
use super::retire::{Completion, Resource};
use super::scope::Scope;
use crate::hardware::{GuestId, Ticket};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
use std::time::Duration;

/// What ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
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
    /// What was queued is dropped.
    Abnormal,
}

/// How far it has come.
#[derive(Debug)]
enum Phase {
    /// Its doorbells are disconnected, and these progress fences have yet to get that far.
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
        let waits = match manner {
            Manner::Abnormal => Vec::new(),
            Manner::Normal => {
                let Some(mut scope) = self.scope(guest, process, effects) else { return };
                scope.begin_drain(target)
            }
        };
        let termination = Termination {
            guest,
            process,
            target,
            completion,
            phase: match manner {
                Manner::Normal => {
                    Phase::Draining { waits, deadline: self.now.saturating_add(self.timeout) }
                }
                Manner::Abnormal => {
                    Phase::Preempting(self.preempt(guest, process, target, effects))
                }
            },
        };
        tracing::debug!(guest = guest.0, process, ?target, ?manner, ?termination.phase, "ending");
        let drains =
            matches!(&termination.phase, Phase::Draining { waits, .. } if !waits.is_empty());
        self.terminations.push(termination);
        if drains && !self.has_power() {
            self.power_up(effects);
            self.resume_after_power_up(effects);
        }
    }

    /// Takes what ends off the run list. Engines have left it when the ticket has passed.
    fn preempt(
        &mut self,
        guest: GuestId,
        process: u32,
        target: Target,
        effects: &mut Vec<Effect>,
    ) -> Ticket {
        let suspend =
            |scope: &mut Scope<'_>, context| scope.suspend_context(context, Suspension::ERROR);
        if target == Target::Guest {
            self.each_context_of_guest(guest, effects, suspend);
            if let Some(Ok(system)) = self.guests.get(&guest).map(|guest| guest.system) {
                self.miniport.suspend_context(&[system.hw_queue]);
            }
        } else if let Some(mut scope) = self.scope(guest, process, effects) {
            scope.preempt(target);
        }
        self.hardware.quiesce()
    }

    /// Goes on with everything that is about to end.
    pub(super) fn continue_terminations(&mut self, effects: &mut Vec<Effect>) {
        let mut index = 0;
        while let Some(termination) = self.terminations.get(index) {
            let Termination { guest, process, target, completion, .. } = *termination;
            let is_done = match &termination.phase {
                Phase::Preempting(ticket) => *ticket <= self.hardware.quiesced(),
                Phase::Draining { waits, .. } => {
                    waits.iter().all(|wait| self.is_drained(guest, process, *wait))
                }
            };
            if is_done {
                self.terminations.remove(index);
                self.finish(guest, process, target, completion, effects);
                continue;
            }
            if let Phase::Draining { deadline, .. } = termination.phase
                && deadline <= self.now
            {
                let ticket = self.preempt(guest, process, target, effects);
                tracing::debug!(guest = guest.0, process, ?target, "its time is over");
                if let Some(termination) = self.terminations.get_mut(index) {
                    termination.phase = Phase::Preempting(ticket);
                }
            }
            index += 1;
        }
    }

    /// Whether a queue has nothing more to do that is worth waiting for.
    fn is_drained(&self, guest: GuestId, process: u32, wait: Drain) -> bool {
        let queue =
            self.guests.get(&guest).map(|guest| guest.handles.get::<HwQueue>(process, wait.queue));
        let Some(Ok(queue)) = queue else { return true };
        queue.in_error || self.hardware.fence_value(guest, wait.slot) >= wait.value
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
            .filter_map(|queue| self.begin_queue_drain(queue).ok().flatten())
            .collect()
    }

    fn begin_queue_drain(&mut self, handle: Handle) -> Result<Option<Drain>, RequestError> {
        let queue = self.get_mut::<HwQueue>(handle)?;
        queue.terminating = true;
        let (id, context, progress_fence) = (queue.id, queue.context, queue.progress_fence);
        let (in_error, submitted) = (queue.in_error, queue.last_submitted);
        // Connecting it again is not what a guest thread that still rings it should do.
        self.disconnect(id, DisconnectReason::Abort);
        if in_error || !self.get::<Context>(context)?.state.would_run() {
            return Ok(None);
        }
        // The guest can write what it likes there, and is waited for no longer than the time-out.
        let value = self.hardware.last_queued_value(id).max(submitted);
        let slot = self.drain_fence(progress_fence, value)?;
        Ok(slot.map(|slot| Drain { queue: handle, slot, value }))
    }

    /// Takes what ends off the run list.
    fn preempt(&mut self, target: Target) {
        if let Target::HwQueue(queue) = target {
            if let Ok(HwQueue { id, .. }) = self.get::<HwQueue>(queue) {
                let id = *id;
                self.miniport.suspend_context(&[id]);
            }
            return;
        }
        let contexts = match target {
            Target::Context(context) => vec![context],
            Target::Device(device) => match self.get::<Device>(device) {
                Ok(device) => device.contexts.iter().copied().collect(),
                Err(_) => Vec::new(),
            },
            _ => self.contexts(),
        };
        for context in contexts {
            if let Err(error) = self.suspend_context(context, Suspension::ERROR) {
                tracing::debug!(%context, %error, "gone already");
            }
        }
    }

    fn remove_target(&mut self, target: Target) -> Result<(), RequestError> {
        match target {
            Target::HwQueue(queue) => self.remove_hw_queue(queue),
            Target::Context(context) => self.remove_context(context),
            Target::Device(device) => self.remove_device(device),
            Target::Process | Target::Guest => self.remove_process(),
        }
    }
}
