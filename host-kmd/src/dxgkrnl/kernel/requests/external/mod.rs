// SPDX-License-Identifier: MIT OR Apache-2.0

//! Escapes of a guest's agent, and of programs that ask it.
//!
//! Source: Windows KMD overview, "EEU".

use crate::dxgkrnl::agent::state::PATIENCE;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::agents::{check_policy, check_wish};
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::agent::{
    AGENT_TEXT, AGENT_VERSION, AgentAnswer, AgentInfo, AgentRegistered, AgentResult,
    AnswerAgentRequest, AskAgent, DevicePresence, QueryAgent, RegisterAgent, SetDevicePresence,
    SetPowerPolicy, UnregisterAgent,
};

impl ProcessAccess<'_> {
    /// The process becomes the guest's agent.
    pub(crate) fn register_agent(&mut self, request: RegisterAgent) -> Handled<AgentRegistered> {
        let RegisterAgent { version, wishes } = request;
        self.counted(|access| {
            // An agent ends when the end of its process begins.
            if access.process()?.is_terminating() {
                return Err(RequestError::NoSuchProcess(access.process_id));
            }
            access.guest.agency.register(access.process_id, version, wishes)
        })?;
        let patience_ms = u32::try_from(PATIENCE.as_millis()).unwrap_or(u32::MAX);
        Ok(Answer::Done(AgentRegistered { version: AGENT_VERSION, patience_ms }))
    }

    /// The process is no longer the guest's agent.
    pub(crate) fn unregister_agent(&mut self, request: UnregisterAgent) -> Handled<()> {
        self.counted(|access| {
            zero("reserved", request.reserved)?;
            access.guest.agency.check(access.process_id)
        })?;
        self.end_agent();
        Ok(Answer::Done(()))
    }

    /// A program asks the agent.
    pub(crate) fn ask_agent(&mut self, request: AskAgent) -> Handled<AgentAnswer> {
        self.counted(|_| check_wish(&request))?;
        Ok(Answer::AskAgent(request))
    }

    /// The agent answers.
    pub(crate) fn answer_agent_request(&mut self, request: AnswerAgentRequest) -> Handled<()> {
        let AnswerAgentRequest { number, answer } = request;
        let asker = self.counted(|access| {
            access.guest.agency.check(access.process_id)?;
            check_answer(&answer)?;
            access.guest.agency.answer(number)
        })?;
        self.give_answer(asker, answer);
        Ok(Answer::Done(()))
    }

    /// The agent sets how the guest uses power.
    pub(crate) fn set_power_policy(&mut self, request: SetPowerPolicy) -> Handled<()> {
        self.counted(|access| {
            zero("reserved", request.reserved)?;
            check_policy(request.policy)?;
            access.guest.agency.check(access.process_id)
        })?;
        self.guest.agency.set_policy(request.policy);
        Ok(Answer::Done(()))
    }

    /// The agent stops or starts the guest's device.
    pub(crate) fn set_device_presence(&mut self, request: SetDevicePresence) -> Handled<()> {
        self.counted(|access| {
            zero("reserved", request.reserved)?;
            if request.presence.name().is_none() {
                return Err(RequestError::parameter("presence", request.presence.0.into()));
            }
            access.guest.agency.check(access.process_id)
        })?;
        Ok(Answer::DevicePresence(request.presence))
    }

    /// Tells of the agent.
    pub(crate) fn query_agent(&mut self, request: QueryAgent) -> Handled<AgentInfo> {
        self.counted(|_| zero("reserved", request.reserved))?;
        let presence = if self.guest.presence.is_stopped() {
            DevicePresence::STOPPED
        } else {
            DevicePresence::STARTED
        };
        Ok(Answer::Done(self.guest.agency.info(presence)))
    }

    /// Counts a refusal.
    fn counted<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        act(self).inspect_err(|_| self.guest.agency.count_refused())
    }
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
