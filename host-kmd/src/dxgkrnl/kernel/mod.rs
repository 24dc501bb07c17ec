// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel: inputs go in, effects come out.
//!
//! A handler in `requests` answers a request; interrupts, commands and traces have files of their own. What is done to an
//! object of a process is in `actions`. The work list carries the consequences of an input to `rules`, until nothing is
//! left: see `settle`. Answers and events leave through the outbox.

mod access;
mod actions;
mod callbacks;
mod command;
mod guest;
mod inspect;
mod interrupts;
mod objects;
mod outbox;
mod process;
mod queue_span;
mod request;
mod request_table;
mod requests;
mod rules;
mod settle;
mod spread;
mod state;
mod trace;
mod waiter;
mod work;

pub use state::Kernel;

use crate::ddi::paging::PAGING_VA_SIZE;
use crate::dxgkrnl::compute::compilations::Compilation;
use crate::dxgkrnl::doorbell::connect::Connecting;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::request::{Answer, Body, Compiling, Handled};
use crate::dxgkrnl::kernel::request_table::{Rules, parse};
use crate::dxgkrnl::kernel::rules::migration::watch_use;
use crate::dxgkrnl::kernel::spread::spread;
use crate::dxgkrnl::kernel::waiter::{Outcome, Waiter};
use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::hardware::{GuestId, HardwareError};
use crate::port::{Effect, GuestResources, Input, RequestToken};
use std::time::Duration;

impl Kernel {
    /// When [`Input::Timeout`] is due if no other input comes, on the clock of [`Self::set_time`].
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let deadlines = [
            self.terminations.deadline(),
            self.idle_deadline().filter(|_| !self.is_lit()),
            self.tdr.deadline(),
            self.migration.deadline(),
            self.flip_deadline(),
            self.agent_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Handles one input and appends its effects. Every request gets exactly one reply, now or as an effect of a
    /// later input, unless its guest detaches first.
    pub fn handle(&mut self, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Attach { guest, resources } => self.attach(guest, resources),
            Input::Detach { guest } => {
                self.watch_engines();
                self.detach(guest);
            }
            Input::Request { guest, token, request, room } => {
                self.watch_engines();
                watch_use(&mut self.migration, self.guests.get(&guest), self.now);
                self.request(guest, token, Body { bytes: &request, room });
            }
            Input::Interrupt => self.interrupt(),
            Input::Command { token, command } => {
                self.watch_engines();
                self.command(token, command);
            }
            Input::AskAgent { token, guest, request } => {
                self.operator_asks(token, guest, &request);
            }
            Input::Note { guest, change } => self.note(guest, change),
            Input::CrossAdapterSignal { guest, fence, always } => {
                self.cross_adapter_signal(guest, fence, always);
            }
            Input::Trace { token, action } => self.trace(token, action),
            Input::Timeout => self.power_down_when_idle(),
        }
        if self.flip_deadline().is_some_and(|deadline| deadline <= self.now) {
            // The hardware may have told of the flip already.
            self.interrupt();
        }
        self.settle();
        effects.append(&mut self.outbox.take());
    }

    fn attach(&mut self, id: GuestId, resources: GuestResources) {
        if self.guests.contains_key(&id) {
            tracing::error!(guest = id.0, "a guest attached twice");
            return;
        }
        let system = self.miniport.create_system_context(id);
        if let Err(full) = system {
            tracing::error!(guest = id.0, %full, "no system context: the guest gets no service");
        }
        let window = self.paging_window(&resources);
        let native = self.native_fences;
        let gpus = self.platform.gpu_count();
        let guest = Guest::new(id, resources, system, window, &self.limits, native, gpus);
        let suggested = spread(self.miniport.as_ref(), &self.guests);
        self.guests.insert(id, guest.with_suggested(suggested));
        if let Some(mut access) = self.access(id, 0)
            && let Err(error) = access.make_window_tables(window)
            && access.guest.system().is_ok()
        {
            tracing::error!(guest = id.0, %error, "no page tables for paging");
        }
    }

    /// Size of the paging process's GPU VA space. Source: "Allocation notification", "Paging process
    /// GPU VA space size".
    fn paging_window(&self, resources: &GuestResources) -> u64 {
        match self.miniport.paging_process_gpu_va_size() {
            // "The size of the GPU VA space is a quarter of the largest local memory segment or the size of the
            // hardware scheduling log buffers"; there are no such buffers here.
            0 => resources.bar.local_memory.max(resources.segments.private) / 4,
            // Values of fences follow it.
            mebibytes => (u64::from(mebibytes) << 20).min(PAGING_VA_SIZE),
        }
    }

    /// A guest detaches: all its processes terminate abnormally. Source: user-mode work submission, "Normal and
    /// abnormal process termination".
    fn detach(&mut self, id: GuestId) {
        let Some(guest) = self.guests.get_mut(&id) else {
            self.outbox.tell(Effect::Detached { guest: id });
            return;
        };
        if !guest.begin_detach() {
            return;
        }
        self.outbox.forget_guest(id);
        self.terminations.forget_guest(id);
        self.terminate((id, 0), Target::Guest, Manner::Abnormal, Completion::Detached);
    }

    fn request(&mut self, id: GuestId, token: RequestToken, request: Body<'_>) {
        match self.guests.get_mut(&id) {
            Some(guest) if !guest.is_detaching() => guest.count_control_message(),
            _ => {
                tracing::debug!(guest = id.0, "ignored a request of a guest that is gone");
                return;
            }
        }
        let (process, answer, given_up) = self.answer(id, request);
        let promise = self.outbox.promise(id, token);
        let (mut completion, mut waiter) = (Completion::Nothing, None);
        let mut after_paging = |promise, outcome| waiter = Some(Waiter { promise, outcome });
        match answer {
            Ok(Answer::Done(body)) => self.outbox.answer(promise, Ok(body)),
            Ok(Answer::Pending) => self.outbox.answer_pending(promise),
            Ok(Answer::AfterRotation(queue, hw_queue)) => {
                let request = Connecting { promise, hw_queue };
                self.callbacks.doorbells.wait_for_connect(queue, request);
            }
            Ok(Answer::AfterQuiesce) => completion = Completion::Reply(promise),
            Ok(Answer::AfterPaging(body)) => after_paging(promise, Outcome::Reply(body)),
            Ok(Answer::SubmitAfterPaging(deferred)) => {
                after_paging(promise, Outcome::Submit(deferred));
            }
            Ok(Answer::AfterCompiling(Compiling { space, kernel, device })) => {
                let compilation = Compilation { guest: id, process, device, promise };
                self.compilations.begin(space, kernel, compilation);
            }
            Ok(Answer::CompileAfterPaging(deferred)) => {
                after_paging(promise, Outcome::Compile(deferred));
            }
            Ok(Answer::AfterDisplay(ticket)) => {
                if let Some(guest) = self.guests.get_mut(&id) {
                    guest.display.wait(ticket, promise);
                }
            }
            Ok(Answer::AfterFlip(flip)) => {
                let guest = self.guests.get_mut(&id);
                if let Some(flip) = guest.and_then(|guest| guest.display.waiting_flip(flip)) {
                    flip.promise = Some(promise);
                }
            }
            Ok(Answer::FlipAfterPaging(flip)) => after_paging(promise, Outcome::Flip(flip)),
            Ok(Answer::Terminate(target, manner)) => {
                if self.terminations.contains(id, process, target) {
                    self.outbox.answer(promise, Err(RequestError::Terminating(target)));
                } else {
                    self.terminate((id, process), target, manner, Completion::Reply(promise));
                }
            }
            Ok(Answer::DevicePower(state)) => {
                self.set_device_power(state, (id, Completion::Reply(promise)));
            }
            Ok(Answer::AskAgent(request)) => self.program_asks(id, promise, &request),
            Ok(Answer::AskForConsent(request)) => self.ask_for_consent(id, promise, &request),
            Ok(Answer::AnnounceStop(patience_ms)) => self.announce_stop(id, promise, patience_ms),
            Ok(Answer::DevicePresence(presence)) => {
                self.set_presence(id, presence);
                completion = Completion::Reply(promise);
            }
            Ok(Answer::EnginePower(node, state)) => {
                self.set_engine_power(node, state);
                completion = Completion::Reply(promise);
            }
            Err(error) => {
                if let RequestError::UnknownId(unknown) = error {
                    HardwareError::from(unknown).report();
                }
                tracing::debug!(guest = id.0, %error, "request refused");
                self.outbox.answer(promise, Err(error));
            }
        }
        // A refused request gets here too: VidMm may have made room for it. Paging begins before the retirement, so
        // that resources are freed only after the paging that uses them.
        self.begin_paging(id, process, waiter);
        if !given_up.is_empty() || matches!(completion, Completion::Reply(_)) {
            self.retire(id, given_up, completion);
        }
    }

    /// Lets a handler answer a request. Returns the process, the answer, and what the request gave up.
    fn answer(
        &mut self,
        guest: GuestId,
        request: Body<'_>,
    ) -> (u32, Handled<Vec<u8>>, Vec<Resource>) {
        let (header, declaration, body) = match parse(request) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.count_unknown_escape(guest, &error);
                return (0, Err(error), Vec::new());
            }
        };
        let process = header.process;
        let no_process = RequestError::NoSuchProcess(process);
        let Some(mut access) = self.access(guest, process) else {
            return (process, Err(no_process), Vec::new());
        };
        if let Err(error) = declaration.check(&mut access) {
            return (process, Err(error), Vec::new());
        }
        if declaration.rules.contains(Rules::NEEDS_POWER) {
            self.ensure_power();
        }
        let Some(mut access) = self.access(guest, process) else {
            return (process, Err(no_process), Vec::new());
        };
        let answer = (declaration.serve)(&mut access, body);
        (process, answer, access.into_given_up())
    }
}
