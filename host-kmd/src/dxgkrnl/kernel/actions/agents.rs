// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an agent may be asked for, what it is told, its end, and the answers to those who ask it.

use crate::dxgkrnl::agent::state::Asker;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::outbox::Outbox;
use crate::dxgkrnl::kernel::request::zero;
use crate::dxgkrnl::object::error::RequestError;
use crate::port::Effect;
use bellhop_protocol::control::agent::{
    AgentAnswer, AgentResult, AgentTopology, AgentWish, AskAgent, PowerPolicy, answer,
};
use bellhop_protocol::event::Event;
use zerocopy::IntoBytes;

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

/// Refuses what no agent can be asked for.
pub(crate) fn check_wish(request: &AskAgent) -> Result<(), RequestError> {
    let AskAgent { wish, argument, connector, width, height, refresh } = *request;
    let wrong = RequestError::parameter("argument", argument.into());
    let is_mode = match wish {
        AgentWish::TOPOLOGY => {
            let topology = AgentTopology(argument);
            topology.name().ok_or(wrong)?;
            topology == AgentTopology::MODE
        }
        AgentWish::POWER_POLICY => {
            check_policy(PowerPolicy(argument)).map_err(|_| wrong)?;
            false
        }
        AgentWish::STOP | AgentWish::START => {
            zero("argument", argument)?;
            false
        }
        unknown => return Err(RequestError::parameter("wish", unknown.0.into())),
    };
    if is_mode {
        return Ok(());
    }
    zero("connector", connector)?;
    zero("width", width)?;
    zero("height", height)?;
    zero("refresh", refresh)
}

/// The agent ends, or is one no longer: who waits for it is told, and the device is started.
pub(crate) fn end_agent(guest: &mut Guest, outbox: &mut Outbox) {
    guest.presence.set_stopped(false);
    for asker in guest.agency.unregister() {
        give_answer(outbox, asker, without(AgentResult::AGENT_ENDED));
    }
}

/// Answers one who asked the agent.
pub(crate) fn give_answer(outbox: &mut Outbox, asker: Asker, answer: AgentAnswer) {
    match asker {
        Asker::Operator(token) => outbox.tell(Effect::AgentAnswered { token, answer }),
        Asker::Program(promise) => outbox.answer(promise, Ok(answer.as_bytes().to_vec())),
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
