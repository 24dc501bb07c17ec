// SPDX-License-Identifier: MIT OR Apache-2.0

//! A compositor's side of the guest's agent: the agent wants monitors to show something else, and who shows something
//! agrees or refuses.
//!
//! Source: Windows KMD overview, "EEU" ("Change the topology").

use super::error::DisplayError;
use super::object::Display;
use crate::link::display_events::{ConsentRequest, TopologyWanted};
use bellhop_protocol::control::agent::consent::AnswerConsent;
use bellhop_protocol::control::agent::{AgentResult, answer};
use std::time::Duration;

impl Display {
    /// Waits until the guest's agent wants monitors to show something else. Only a process that shows something is asked.
    /// `None` if it is not asked in time.
    ///
    /// # Errors
    /// None but those of every request.
    pub fn next_topology_wanted(
        &self,
        timeout: Duration,
    ) -> Result<Option<TopologyWanted>, DisplayError> {
        self.wait(timeout, |inbox| inbox.consents.pop())
    }

    /// Agrees: the process has let go of its sources, or has committed what was wanted itself. The text, of which the
    /// first 256 bytes count, says for people what monitors show now.
    ///
    /// # Errors
    /// [`DisplayError::Device`] if it was answered already, or the time is over.
    pub fn agree(&self, request: ConsentRequest, shown: &str) -> Result<(), DisplayError> {
        self.answer_consent(request, AgentResult::DONE, shown)
    }

    /// Refuses, with a reason for people, of which the first 256 bytes count.
    ///
    /// # Errors
    /// As [`Self::agree`].
    pub fn refuse(&self, request: ConsentRequest, reason: &str) -> Result<(), DisplayError> {
        self.answer_consent(request, AgentResult::FAILED, reason)
    }

    fn answer_consent(
        &self,
        request: ConsentRequest,
        result: AgentResult,
        text: &str,
    ) -> Result<(), DisplayError> {
        let request = AnswerConsent { number: request.0, answer: answer(result, text) };
        self.session().call(&request).map_err(DisplayError::of_display)
    }

    /// Whether the guest's agent has taken this process's sources since the last call, because it did not answer. The
    /// process may commit a topology again.
    ///
    /// # Errors
    /// None but those of every request.
    pub fn was_taken(&self) -> Result<bool, DisplayError> {
        let taken = self.wait(Duration::ZERO, |inbox| Some(std::mem::take(&mut inbox.is_taken)))?;
        Ok(taken.unwrap_or(false))
    }
}
