// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's agent is asked by events, and answers by escapes. Each request to it has one answer: the agent's, or the
//! kernel's when the agent's time is over or the agent ends. A device that its agent stopped starts when the agent ends.
//!
//! Source: Windows KMD overview, "EEU".

use crate::dxgkrnl::agent::state::Asker;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::actions::agents::{
    check_wish, end_agent, give_answer, tell_agent, tell_presence, without,
};
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::outbox::Outbox;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::faults::DEVICE_STOPPED;
use crate::dxgkrnl::object::promises::Promise;
use crate::dxgkrnl::object::target::Target;
use crate::hardware::{GpuOrdinal, GuestId};
use crate::port::{CommandToken, Effect};
use bellhop_protocol::control::agent::consent::Stayed;
use bellhop_protocol::control::agent::{
    AGENT_CODES, AgentResult, AgentWish, AskAgent, DevicePresence, RecoveryKind,
};
use bellhop_protocol::event::{Event, EventKind};
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

impl Kernel {
    /// The host's operator asks a guest's agent.
    pub(crate) fn operator_asks(
        &mut self,
        token: CommandToken,
        guest: GuestId,
        request: &AskAgent,
    ) {
        let is_there = self.guests.get(&guest).is_some_and(|guest| !guest.is_detaching());
        if !is_there || check_wish(request).is_err() {
            let answer =
                without(if is_there { AgentResult::NOT_SUPPORTED } else { AgentResult::NO_AGENT });
            self.outbox.tell(Effect::AgentAnswered { token, answer });
            return;
        }
        self.ask_agent(guest, Asker::Operator(token), request);
    }

    /// A program of the guest asks its agent.
    pub(crate) fn program_asks(&mut self, guest: GuestId, promise: Promise, request: &AskAgent) {
        self.ask_agent(guest, Asker::Program(promise), request);
    }

    fn ask_agent(&mut self, guest: GuestId, asker: Asker, request: &AskAgent) {
        let Self { guests, outbox, now, .. } = self;
        let Some(guest) = guests.get_mut(&guest) else { return };
        if let Err(result) = guest.agency.check_ask(request.wish) {
            give_answer(outbox, asker, without(result));
        } else if let Ok(number) = guest.agency.ask(asker, request.wish, *now) {
            tell_agent(guest, outbox, wanted(request, number));
        }
    }

    /// Counts a request of the agents' namespace that has no name.
    pub(crate) fn count_unknown_escape(&mut self, guest: GuestId, error: &RequestError) {
        if let RequestError::UnknownRequest(code) = error
            && AGENT_CODES.contains(&code.0)
            && let Some(guest) = self.guests.get_mut(&guest)
        {
            guest.agency.count_refused();
        }
    }

    /// When the first agent is too late.
    pub(crate) fn agent_deadline(&self) -> Option<Duration> {
        self.guests.values().filter_map(|guest| guest.agency.deadline()).min()
    }

    /// Wakes the rule if an agent is too late.
    pub(crate) fn wake_late_agents(&mut self) {
        if self.agent_deadline().is_some_and(|deadline| deadline <= self.now) {
            self.work.wake(Rule::Agents);
        }
    }

    /// Answers those who have waited for an agent for long enough, and agents that wait for programs.
    pub(crate) fn continue_agents(&mut self) {
        let Self { guests, outbox, now, .. } = self;
        for guest in guests.values_mut() {
            for asker in guest.agency.expire(*now) {
                give_answer(outbox, asker, without(AgentResult::TIMED_OUT));
            }
            end_leave(guest, outbox, *now);
        }
        self.continue_consents();
    }

    /// The agent tells all programs that it will stop the device, and waits until they have left it.
    pub(crate) fn announce_stop(&mut self, id: GuestId, promise: Promise, patience_ms: u32) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let patience = Duration::from_millis(patience_ms.into());
        guest.agency.leave.begin(promise, self.now.saturating_add(patience));
        tell_presence(guest, &mut self.outbox, DevicePresence::STOPPED, patience_ms);
        self.work.wake(Rule::Agents);
    }

    /// A target begins to end: its agent, if it takes one with it.
    pub(crate) fn take_agent(&mut self, (id, process): (GuestId, u32), target: Target) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let agent = guest.agency.process();
        let ends = match target {
            Target::Guest => agent.is_some(),
            Target::Process => agent == Some(process),
            _ => false,
        };
        if let Some(agent) = agent.filter(|_| ends) {
            end_agent(guest, &mut self.outbox, agent);
        }
    }

    /// The agent of a guest stops the device, or starts it.
    pub(crate) fn set_presence(&mut self, id: GuestId, presence: DevicePresence) {
        let is_stopped = presence == DevicePresence::STOPPED;
        let Some(guest) = self.guests.get_mut(&id) else { return };
        if !guest.presence.set_stopped(is_stopped) {
            return;
        }
        tell_presence(guest, &mut self.outbox, presence, 0);
        if is_stopped {
            self.fail_guest(id, DEVICE_STOPPED);
            self.darken((id, GpuOrdinal::MASTER));
        }
    }

    /// Tells a guest's agent that a GPU is there, or no longer.
    pub(crate) fn tell_gpu(&mut self, guest: GuestId, gpu: GpuOrdinal, is_there: bool) {
        let kind = if is_there { EventKind::GPU_ARRIVED } else { EventKind::GPU_LEFT };
        if let Some(guest) = self.guests.get(&guest) {
            tell_agent(
                guest,
                &mut self.outbox,
                Event { kind, object: gpu.0.into(), ..Event::new_zeroed() },
            );
        }
    }

    /// Tells a guest's agent of a recovery from a hang. Without a node it was the adapter's.
    pub(crate) fn tell_recovery(&mut self, guest: GuestId, kind: RecoveryKind, node: Option<u32>) {
        if let Some(guest) = self.guests.get(&guest) {
            tell_agent(
                guest,
                &mut self.outbox,
                Event {
                    kind: EventKind::RECOVERED,
                    object: node.map_or(u64::MAX, u64::from),
                    value: kind.0.into(),
                    ..Event::new_zeroed()
                },
            );
        }
    }
}

/// Answers an agent that waits for programs to leave, if all have or the time is over.
fn end_leave(guest: &mut Guest, outbox: &mut Outbox, now: Duration) {
    if !guest.agency.leave.is_awaited() {
        return;
    }
    let agent = guest.agency.process();
    let others = guest.processes.iter().filter(|(id, _)| Some(**id) != agent);
    let stayed = others.filter(|(_, process)| !process.devices().is_empty()).count() as u32;
    if let Some(promise) = guest.agency.leave.settle(stayed, now) {
        let stayed = Stayed { processes: stayed, reserved: 0 };
        outbox.answer(promise, Ok(stayed.as_bytes().to_vec()));
    }
}

/// The event that asks an agent.
pub(super) fn wanted(request: &AskAgent, number: u64) -> Event {
    let AskAgent { wish, argument, connector, width, height, refresh } = *request;
    let kind = match wish {
        AgentWish::TOPOLOGY => EventKind::TOPOLOGY_WANTED,
        AgentWish::POWER_POLICY => EventKind::POWER_POLICY_WANTED,
        AgentWish::STOP => EventKind::DEVICE_STOP_WANTED,
        _ => EventKind::DEVICE_START_WANTED,
    };
    // Those but `MODE` and `ROTATE` have zeroes.
    let (object, time) = (connector.into(), refresh.into());
    let context = u64::from(height) << 32 | u64::from(width);
    let (value, cookie) = (argument.into(), number);
    Event { kind, object, value, cookie, context, time, ..Event::new_zeroed() }
}
