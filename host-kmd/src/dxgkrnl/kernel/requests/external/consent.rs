// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an agent asks other programs for, and their answers.
//!
//! Source: Windows KMD overview, "EEU".

use super::{check_answer, counted};
use crate::dxgkrnl::kernel::actions::agents::{check_wish, topology_wish};
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::kernel::work::{Rule, WorkList};
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::agent::AgentResult;
use bellhop_protocol::control::agent::consent::{
    AnnounceStop, AnswerConsent, AskForConsent, Consent, MOST_PATIENCE_MS, Stayed,
};

/// The agent asks those who show something.
pub(crate) fn ask_for_consent(
    guest: &mut Guest,
    process: u32,
    request: AskForConsent,
) -> Handled<Consent> {
    counted(guest, |guest| {
        check_wish(&topology_wish(&request))?;
        check_patience(request.patience_ms)?;
        guest.agency.check(process)?;
        if guest.agency.consents.is_open() { Err(RequestError::AgentBusy(process)) } else { Ok(()) }
    })?;
    Ok(Answer::AskForConsent(request))
}

/// A process that was asked answers.
pub(crate) fn answer_consent(
    guest: &mut Guest,
    work: &mut WorkList,
    process: u32,
    request: AnswerConsent,
) -> Handled<()> {
    let AnswerConsent { number, answer } = request;
    counted(guest, |guest| {
        check_answer(&answer)?;
        if answer.result == AgentResult::NOT_SUPPORTED {
            return Err(RequestError::parameter("result", answer.result.0.into()));
        }
        guest.agency.consents.answer(process, number, answer)
    })?;
    work.wake(Rule::Agents);
    Ok(Answer::Done(()))
}

/// The agent tells programs that it will stop the device.
pub(crate) fn announce_stop(
    guest: &mut Guest,
    process: u32,
    request: AnnounceStop,
) -> Handled<Stayed> {
    counted(guest, |guest| {
        zero("reserved", request.reserved)?;
        check_patience(request.patience_ms)?;
        guest.agency.check(process)?;
        if guest.agency.leave.is_awaited() { Err(RequestError::AgentBusy(process)) } else { Ok(()) }
    })?;
    Ok(Answer::AnnounceStop(request.patience_ms))
}

fn check_patience(patience_ms: u32) -> Result<(), RequestError> {
    let is_right = (1..=MOST_PATIENCE_MS).contains(&patience_ms);
    is_right.then_some(()).ok_or(RequestError::parameter("patience_ms", patience_ms.into()))
}
