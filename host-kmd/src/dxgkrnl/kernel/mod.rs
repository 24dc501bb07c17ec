// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel: inputs go in, effects come out.
//!
//! A handler in `requests` answers a request; interrupts, commands and traces have files of their own. The work list
//! carries the consequences of an input to `rules`, until nothing is left: see `settle`.

mod access;
mod actions;
mod callbacks;
mod command;
mod guest;
mod inspect;
mod interrupts;
mod objects;
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
use crate::dxgkrnl::kernel::request::{Answer, Body, Compiling, Handled, reply};
use crate::dxgkrnl::kernel::request_table::{Rules, parse};
use crate::dxgkrnl::kernel::waiter::{Outcome, Waiter};
use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::hardware::{GuestId, HardwareError};
use crate::port::{Effect, GuestResources, Input, RequestToken};
use bellhop_protocol::status::Status;
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
                self.detach(guest, effects);
            }
            Input::Request { guest, token, request, room } => {
                self.watch_engines();
                self.watch_use(guest);
                self.request(guest, token, Body { bytes: &request, room }, effects);
            }
            Input::Interrupt => self.interrupt(effects),
            Input::Command { token, command } => {
                self.watch_engines();
                self.command(token, command, effects);
            }
            Input::AskAgent { token, guest, request } => {
                self.operator_asks(token, guest, &request, effects);
            }
            Input::Note { guest, change } => self.note(guest, change),
            Input::CrossAdapterSignal { guest, fence, always } => {
                self.cross_adapter_signal(guest, fence, always, effects);
            }
            Input::Trace { token, action } => self.trace(token, action, effects),
            Input::Timeout => self.power_down_when_idle(effects),
        }
        if self.flip_deadline().is_some_and(|deadline| deadline <= self.now) {
            // The hardware may have told of the flip already.
            self.interrupt(effects);
        }
        self.settle(effects);
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
        let gpus = self.hardware.gpu_count();
        let guest = Guest::new(id, resources, system, window, &self.limits, native, gpus);
        let suggested = self.spread();
        self.guests.insert(id, guest.with_suggested(suggested));
        let mut effects = Vec::new();
        if let Some(mut access) = self.access(id, 0, &mut effects)
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
    fn detach(&mut self, id: GuestId, effects: &mut Vec<Effect>) {
        let Some(guest) = self.guests.get_mut(&id) else {
            effects.push(Effect::Detached { guest: id });
            return;
        };
        if !guest.begin_detach() {
            return;
        }
        self.terminations.forget_guest(id);
        self.terminate((id, 0), Target::Guest, Manner::Abnormal, Completion::Detached, effects);
    }

    fn request(
        &mut self,
        id: GuestId,
        token: RequestToken,
        request: Body<'_>,
        effects: &mut Vec<Effect>,
    ) {
        match self.guests.get_mut(&id) {
            Some(guest) if !guest.is_detaching() => guest.count_control_message(),
            _ => {
                tracing::debug!(guest = id.0, "ignored a request of a guest that is gone");
                return;
            }
        }
        let (process, answer, given_up) = self.answer(id, request, effects);
        let (mut completion, mut waiter) = (Completion::Nothing, None);
        let reply = match answer {
            Ok(Answer::Done(body)) => Some(reply(Status::SUCCESS, 0, &body)),
            Ok(Answer::Pending) => Some(reply(Status::PENDING, 0, &[])),
            Ok(Answer::AfterRotation(queue, hw_queue)) => {
                self.callbacks.doorbells.wait_for_connect(queue, Connecting { token, hw_queue });
                None
            }
            Ok(Answer::AfterQuiesce) => {
                completion = Completion::Reply(token);
                None
            }
            Ok(Answer::AfterPaging(body)) => {
                waiter = Some(Waiter { token, outcome: Outcome::Reply(body) });
                None
            }
            Ok(Answer::SubmitAfterPaging(deferred)) => {
                waiter = Some(Waiter { token, outcome: Outcome::Submit(deferred) });
                None
            }
            Ok(Answer::AfterCompiling(Compiling { space, kernel, device })) => {
                let compilation = Compilation { guest: id, process, device, token };
                self.compilations.begin(space, kernel, compilation);
                None
            }
            Ok(Answer::CompileAfterPaging(deferred)) => {
                waiter = Some(Waiter { token, outcome: Outcome::Compile(deferred) });
                None
            }
            Ok(Answer::AfterDisplay(ticket)) => {
                if let Some(guest) = self.guests.get_mut(&id) {
                    guest.display.wait(ticket, token);
                }
                None
            }
            Ok(Answer::AfterFlip(flip)) => {
                let guest = self.guests.get_mut(&id);
                let flip = guest.and_then(|guest| guest.display.waiting_flip(flip));
                if let Some(flip) = flip {
                    flip.token = Some(token);
                }
                None
            }
            Ok(Answer::FlipAfterPaging(flip)) => {
                waiter = Some(Waiter { token, outcome: Outcome::Flip(flip) });
                None
            }
            Ok(Answer::Terminate(target, manner)) => {
                let completion = Completion::Reply(token);
                if self.terminations.contains(id, process, target) {
                    let error = RequestError::Terminating(target);
                    Some(reply(error.status(), error.detail(), &[]))
                } else {
                    self.terminate((id, process), target, manner, completion, effects);
                    None
                }
            }
            Ok(Answer::DevicePower(state)) => {
                self.set_device_power(state, (id, Completion::Reply(token)), effects);
                None
            }
            Ok(Answer::AskAgent(request)) => {
                self.program_asks(id, token, &request, effects);
                None
            }
            Ok(Answer::DevicePresence(presence)) => {
                self.set_presence(id, presence, effects);
                completion = Completion::Reply(token);
                None
            }
            Ok(Answer::EnginePower(node, state)) => {
                self.set_engine_power(node, state, effects);
                completion = Completion::Reply(token);
                None
            }
            Err(error) => {
                if let RequestError::UnknownId(unknown) = error {
                    HardwareError::from(unknown).report();
                }
                tracing::debug!(guest = id.0, %error, "request refused");
                Some(reply(error.status(), error.detail(), &[]))
            }
        };
        effects.extend(reply.map(|reply| Effect::Reply { guest: id, token, reply }));
        // A refused request gets here too: VidMm may have made room for it. Paging begins before the retirement, so
        // that resources are freed only after the paging that uses them.
        self.begin_paging(id, process, waiter, effects);
        if !given_up.is_empty() || matches!(completion, Completion::Reply(_)) {
            self.retire(id, given_up, completion);
        }
    }

    /// Lets a handler answer a request. Returns the process, the answer, and what the request gave up.
    fn answer(
        &mut self,
        guest: GuestId,
        request: Body<'_>,
        effects: &mut Vec<Effect>,
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
        let Some(mut access) = self.access(guest, process, effects) else {
            return (process, Err(no_process), Vec::new());
        };
        if let Err(error) = declaration.check(&mut access) {
            return (process, Err(error), Vec::new());
        }
        if declaration.rules.contains(Rules::NEEDS_POWER) {
            self.ensure_power(effects);
        }
        let Some(mut access) = self.access(guest, process, effects) else {
            return (process, Err(no_process), Vec::new());
        };
        let answer = (declaration.serve)(&mut access, body);
        (process, answer, access.into_given_up())
    }
}
