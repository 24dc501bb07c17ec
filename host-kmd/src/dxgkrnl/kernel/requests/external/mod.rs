// SPDX-License-Identifier: MIT OR Apache-2.0

//! Escapes of a guest's agent, and of programs that ask it.
//!
//! Source: Windows KMD overview, "EEU".

pub(crate) mod consent;

use crate::dxgkrnl::agent::state::PATIENCE;
use crate::dxgkrnl::kernel::actions::agents::{check_policy, check_wish, end_agent, give_answer};
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::outbox::Outbox;
use crate::dxgkrnl::kernel::process::Process;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::kernel::work::{Rule, WorkList};
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::agent::{
    AGENT_TEXT, AGENT_VERSION, AgentAnswer, AgentInfo, AgentRegistered, AgentResult,
    AnswerAgentRequest, AskAgent, DevicePresence, QueryAgent, RegisterAgent, SetDevicePresence,
    SetPowerPolicy, UnregisterAgent,
};

/// The process becomes the guest's agent.
pub(crate) fn register_agent(
    guest: &mut Guest,
    work: &mut WorkList,
    process: u32,
    request: RegisterAgent,
) -> Handled<AgentRegistered> {
    let RegisterAgent { version, wishes } = request;
    counted(guest, |guest| {
        let unknown = RequestError::NoSuchProcess(process);
        // An agent ends when the end of its process begins.
        if guest.processes.get(&process).is_none_or(Process::is_terminating) {
            return Err(unknown);
        }
        guest.agency.register(process, version, wishes)
    })?;
    // It is told who shows something.
    work.wake(Rule::Agents);
    let patience_ms = u32::try_from(PATIENCE.as_millis()).unwrap_or(u32::MAX);
    Ok(Answer::Done(AgentRegistered { version: AGENT_VERSION, patience_ms }))
}

/// The process is no longer the guest's agent.
pub(crate) fn unregister_agent(
    guest: &mut Guest,
    outbox: &mut Outbox,
    process: u32,
    request: UnregisterAgent,
) -> Handled<()> {
    counted(guest, |guest| {
        zero("reserved", request.reserved)?;
        guest.agency.check(process)
    })?;
    end_agent(guest, outbox, process);
    Ok(Answer::Done(()))
}

/// A program asks the agent.
pub(crate) fn ask_agent(guest: &mut Guest, request: AskAgent) -> Handled<AgentAnswer> {
    counted(guest, |_| check_wish(&request))?;
    Ok(Answer::AskAgent(request))
}

/// The agent answers.
pub(crate) fn answer_agent_request(
    guest: &mut Guest,
    outbox: &mut Outbox,
    process: u32,
    request: AnswerAgentRequest,
) -> Handled<()> {
    let AnswerAgentRequest { number, answer } = request;
    let asker = counted(guest, |guest| {
        guest.agency.check(process)?;
        check_answer(&answer)?;
        guest.agency.answer(number)
    })?;
    give_answer(outbox, asker, answer);
    Ok(Answer::Done(()))
}

/// The agent sets how the guest uses power.
pub(crate) fn set_power_policy(
    guest: &mut Guest,
    process: u32,
    request: SetPowerPolicy,
) -> Handled<()> {
    counted(guest, |guest| {
        zero("reserved", request.reserved)?;
        check_policy(request.policy)?;
        guest.agency.check(process)
    })?;
    guest.agency.set_policy(request.policy);
    Ok(Answer::Done(()))
}

/// The agent stops or starts the guest's device.
pub(crate) fn set_device_presence(
    guest: &mut Guest,
    process: u32,
    request: SetDevicePresence,
) -> Handled<()> {
    counted(guest, |guest| {
        zero("reserved", request.reserved)?;
        if request.presence.name().is_none() {
            return Err(RequestError::parameter("presence", request.presence.0.into()));
        }
        guest.agency.check(process)
    })?;
    Ok(Answer::DevicePresence(request.presence))
}

/// Tells of the agent.
pub(crate) fn query_agent(guest: &mut Guest, request: QueryAgent) -> Handled<AgentInfo> {
    counted(guest, |_| zero("reserved", request.reserved))?;
    let presence =
        if guest.presence.is_stopped() { DevicePresence::STOPPED } else { DevicePresence::STARTED };
    Ok(Answer::Done(guest.agency.info(presence)))
}

/// Counts a refusal.
fn counted<T>(
    guest: &mut Guest,
    act: impl FnOnce(&mut Guest) -> Result<T, RequestError>,
) -> Result<T, RequestError> {
    act(guest).inspect_err(|_| guest.agency.count_refused())
}

/// Refuses what is no agent's answer.
fn check_answer(answer: &AgentAnswer) -> Result<(), RequestError> {
    let AgentAnswer { result, length, text } = answer;
    if ![AgentResult::DONE, AgentResult::FAILED, AgentResult::NOT_SUPPORTED].contains(result) {
        return Err(RequestError::parameter("result", result.0.into()));
    }
    let wrong = RequestError::parameter("length", (*length).into());
    if *length as usize > AGENT_TEXT {
        return Err(wrong);
    }
    let rest = text.get(*length as usize..).unwrap_or_default();
    if rest.iter().any(|byte| *byte != 0) { Err(wrong) } else { Ok(()) }
}
