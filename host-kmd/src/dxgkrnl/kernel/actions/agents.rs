// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an agent may be asked for, what it is told, its end, and the answers to those who ask it.

use crate::dxgkrnl::agent::state::Asker;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::outbox::Outbox;
use crate::dxgkrnl::kernel::request::zero;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::error::RequestError;
use crate::port::Effect;
use bellhop_protocol::control::agent::consent::AskForConsent;
use bellhop_protocol::control::agent::{
    AgentAnswer, AgentResult, AgentTopology, AgentWish, AskAgent, DevicePresence, PowerPolicy,
    answer,
};
use bellhop_protocol::control::display::Rotation;
use bellhop_protocol::event::{Event, EventKind};
use zerocopy::{FromZeros, IntoBytes};

/// What the kernel says in place of an agent.
pub(crate) fn without(result: AgentResult) -> AgentAnswer {
    let why = match result {
        AgentResult::NO_AGENT => "no agent is running in the guest",
        AgentResult::TIMED_OUT => "the agent in the guest did not answer within 10 seconds",
        AgentResult::AGENT_ENDED => "the agent in the guest ended before it answered",
        AgentResult::BUSY => "the agent in the guest has four requests to answer already",
        _ => "the agent in the guest does not do this",
    };
    answer(result, why)
}

/// Refuses a policy that has no name.
pub(crate) fn check_policy(policy: PowerPolicy) -> Result<(), RequestError> {
    policy.name().map(|_| ()).ok_or(RequestError::parameter("policy", policy.0.into()))
}

/// What an agent asks programs for, as programs ask the agent for it.
pub(crate) fn topology_wish(request: &AskForConsent) -> AskAgent {
    let AskForConsent { topology, connector, width, height, refresh, .. } = *request;
    let (wish, argument) = (AgentWish::TOPOLOGY, topology.0);
    AskAgent { wish, argument, connector, width, height, refresh }
}

/// Refuses what no agent can be asked for.
pub(crate) fn check_wish(request: &AskAgent) -> Result<(), RequestError> {
    let AskAgent { wish, argument, connector, width, height, refresh } = *request;
    let wrong = RequestError::parameter("argument", argument.into());
    match wish {
        AgentWish::TOPOLOGY => {
            let topology = AgentTopology(argument);
            topology.name().ok_or(wrong)?;
            match topology {
                AgentTopology::MODE => return Ok(()),
                AgentTopology::ROTATE => {
                    let wrong = RequestError::parameter("width", width.into());
                    Rotation(width).name().ok_or(wrong)?;
                    zero("height", height)?;
                    return zero("refresh", refresh);
                }
                _ => {}
            }
        }
        AgentWish::POWER_POLICY => {
            check_policy(PowerPolicy(argument)).map_err(|_| wrong)?;
        }
        AgentWish::STOP | AgentWish::START => zero("argument", argument)?,
        unknown => return Err(RequestError::parameter("wish", unknown.0.into())),
    }
    zero("connector", connector)?;
    zero("width", width)?;
    zero("height", height)?;
    zero("refresh", refresh)
}

/// The agent ends, or is one no longer: who waits for it is told, its own questions end, and the device is started.
pub(crate) fn end_agent(guest: &mut Guest, outbox: &mut Outbox, agent: u32) {
    if guest.presence.set_stopped(false) {
        tell_presence(guest, outbox, DevicePresence::STARTED, 0);
    }
    let questions = guest.agency.consents.end().into_iter().chain(guest.agency.leave.end());
    for promise in questions {
        outbox.answer(promise, Err(RequestError::NotTheAgent(agent)));
    }
    for asker in guest.agency.unregister() {
        give_answer(outbox, asker, without(AgentResult::AGENT_ENDED));
    }
}

impl ProcessAccess<'_> {
    /// Another process may show something now, or nothing any more: the agent is told, if there is one.
    pub(crate) fn tell_agent_of_sources(&mut self) {
        if self.guest.agency.process().is_some() {
            self.work.wake(Rule::Agents);
        }
    }
}

/// Answers one who asked the agent.
pub(crate) fn give_answer(outbox: &mut Outbox, asker: Asker, answer: AgentAnswer) {
    match asker {
        Asker::Operator(token) => outbox.tell(Effect::AgentAnswered { token, answer }),
        Asker::Program(promise) => outbox.answer(promise, Ok(answer.as_bytes().to_vec())),
    }
}

/// Tells all processes of a guest that the device stops or is started, in so many milliseconds.
pub(crate) fn tell_presence(guest: &Guest, outbox: &mut Outbox, to: DevicePresence, ms: u32) {
    if guest.is_open() && !guest.is_detaching() {
        outbox.event(
            guest.id,
            Event {
                kind: EventKind::PRESENCE_CHANGED,
                value: to.0.into(),
                cookie: ms.into(),
                ..Event::new_zeroed()
            },
        );
    }
}

/// Sends the agent an event, if there is an agent.
pub(crate) fn tell_agent(guest: &Guest, outbox: &mut Outbox, event: Event) {
    if let Some(process) = guest.agency.process()
        && !guest.is_detaching()
    {
        outbox.event(guest.id, Event { process, ..event });
    }
}
