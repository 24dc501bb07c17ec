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

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::actions::flips::is_shown;
use crate::dxgkrnl::kernel::actions::targets::is_drained;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::queue_span::queue_span;
use crate::dxgkrnl::kernel::waiter::Outcome;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::faults::IN_ERROR;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::dxgkrnl::queue::context::{Context, Suspension};
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::dxgkrnl::recovery::termination::{Drain, Ending, Phase, Progress};
use crate::hardware::{Fault, GuestId, Reported as _, Ticket};
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;

impl Kernel {
    /// Begins a termination.
    pub(crate) fn terminate(
        &mut self,
        (guest, process): (GuestId, u32),
        target: Target,
        manner: Manner,
        completion: Completion,
    ) {
        self.take_display((guest, process), target);
        self.take_agent((guest, process), target);
        if let Some(mut access) = self.access(guest, process) {
            access.begin_termination(target);
        }
        let phase = match manner {
            Manner::Normal => {
                let Some(mut access) = self.access(guest, process) else { return };
                let waits = access.begin_drain(target);
                self.have_engines_look(guest, process, &waits);
                Phase::Draining { waits, deadline: self.now.saturating_add(self.timeout) }
            }
            Manner::Abnormal => Phase::Preempting(self.lose(guest, process, target, IN_ERROR)),
        };
        tracing::debug!(guest = guest.0, process, ?target, ?manner, ?phase, "ending");
        self.terminations.begin(Ending { guest, process, target }, completion, phase);
        self.work.wake(Rule::Terminations);
    }

    /// Powers engines and makes them look at queues. They have not seen what a guest wrote into a ring after its
    /// doorbell was disconnected, and the guest cannot reconnect that doorbell.
    fn have_engines_look(&mut self, guest: GuestId, process: u32, waits: &[Drain]) {
        if waits.is_empty() {
            return;
        }
        self.ensure_power();
        let Some(mut access) = self.access(guest, process) else { return };
        for wait in waits {
            if let Err(error) = access.have_engine_look(wait.queue) {
                let span = queue_span(process, wait.queue);
                tracing::error!(parent: &span, guest = guest.0, %error, "no engine looks at a queue that ends");
            }
        }
    }

    /// Takes the target off the run list, and reports its queues as lost. Engines have left them when the ticket has
    /// passed.
    fn lose(&mut self, guest: GuestId, process: u32, target: Target, fault: Fault) -> Ticket {
        if target == Target::Guest {
            self.fail_guest(guest, fault);
            if let Some(Ok(system)) = self.guests.get(&guest).map(|guest| guest.system()) {
                self.miniport.suspend_context(&[system.hw_queue]).reported();
            }
        } else {
            self.for_process(guest, process, |access| access.lose_target(target, fault));
        }
        self.platform.quiesce(Some(guest))
    }

    /// Checks all terminations.
    pub(crate) fn continue_terminations(&mut self) {
        let mut index = 0;
        while let Some(progress) = self.look_at_termination(index) {
            match progress {
                Progress::Ended(ending, completion) => {
                    self.finish(ending, completion);
                    continue;
                }
                Progress::Drained(ending) => {
                    let ticket = self.leave(ending);
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
                        Phase::Preempting(self.end_of_time(ending))
                    };
                    self.terminations.set_phase(index, phase);
                }
                Progress::Waiting => {}
            }
            index += 1;
        }
    }

    fn look_at_termination(&mut self, index: usize) -> Option<Progress> {
        let Self { terminations, guests, platform, quiesced, now, .. } = self;
        let is_done = |ending: &Ending, wait| {
            let guest = guests.get(&ending.guest);
            guest.is_none_or(|guest| is_drained(guest, platform.as_ref(), ending.process, wait))
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
        let context = context_of(state, process, wait.queue);
        context.is_ok_and(|context| {
            let suspended = |by| context.state().is_suspended_by(by);
            suspended(Suspension::HOST) || is_moved && suspended(Suspension::MEMORY)
        })
    }

    /// Whether a queue could not do its work because its engine stood in memory of another guest, in the time that the
    /// queue had.
    fn is_held_by_another(&mut self, guest: GuestId, process: u32, wait: Drain) -> bool {
        let Some(state) = self.guests.get(&guest) else { return false };
        let context = context_of(state, process, wait.queue);
        let Ok(node) = context.map(Context::node) else { return false };
        self.see_standing(node);
        self.tdr.stood_for_another(node, guest, self.now.saturating_sub(self.timeout))
    }

    /// The target has not finished its work in time, and loses it. Returns the ticket after which engines have left
    /// it.
    fn end_of_time(&mut self, ending: Ending) -> Ticket {
        let Ending { guest, process, target } = ending;
        tracing::debug!(guest = guest.0, process, ?target, "it did not end in time");
        let time = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        let fault = Fault::new(FaultReason::ENGINE_TIMEOUT, Opcode::NOP, time);
        self.lose(guest, process, target, fault)
    }

    /// Takes a target off the run list that has done all its work. Returns the ticket after which engines have left it.
    fn leave(&mut self, ending: Ending) -> Ticket {
        let Ending { guest, process, target } = ending;
        let access = self.access(guest, process);
        if access.is_some_and(|mut access| access.leave_run_list(target)) {
            self.platform.quiesce(Some(guest))
        } else {
            // No engine can be inside it.
            self.quiesced.of(guest)
        }
    }

    /// Destroys a target that no engine needs any more.
    fn finish(&mut self, ending: Ending, completion: Completion) {
        let Ending { guest, process, target } = ending;
        let processes = match (target, self.guests.get(&guest)) {
            (_, None) => return,
            (Target::Guest, Some(guest)) => guest.processes.keys().copied().collect(),
            _ => vec![process],
        };
        let mut given_up = Vec::new();
        for process in processes {
            let Some(mut access) = self.access(guest, process) else { continue };
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
        let waits = |guest: &Guest| guest.agency.leave.is_awaited();
        if self.guests.get(&guest).is_some_and(waits) {
            self.work.wake(Rule::Agents);
        }
        // Before the retirement, so that resources are freed only after the paging that uses them.
        self.begin_paging(guest, process, None);
        self.retire(guest, given_up, completion);
    }
}

/// The context of a queue.
fn context_of(guest: &Guest, process: u32, queue: Handle) -> Result<&Context, RequestError> {
    let queue = guest.handles.get::<HwQueue>(process, queue)?;
    guest.handles.get::<Context>(process, queue.context())
}
