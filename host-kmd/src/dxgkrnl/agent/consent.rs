// SPDX-License-Identifier: MIT OR Apache-2.0

//! An agent's question to those who show something. There is one at a time, it ends at its deadline, and it asks no more
//! processes than there are sources.
//!
//! Source: Windows KMD overview, "EEU" ("Change the topology").

use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::promises::Promise;
use bellhop_protocol::control::agent::{AgentAnswer, AgentResult, answer};
use std::collections::BTreeSet;
use std::time::Duration;

/// A question that is not settled.
#[derive(Debug)]
struct Question {
    promise: Promise,
    /// The processes that have not answered.
    asked: BTreeSet<u32>,
    deadline: Duration,
    /// What the last who answered said.
    said: AgentAnswer,
}

/// How a question ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The agent's request.
    pub(crate) promise: Promise,
    /// What it is answered.
    pub(crate) answer: AgentAnswer,
    /// Those who did not answer in time.
    pub(crate) silent: BTreeSet<u32>,
}

/// An agent's questions.
#[derive(Debug, Default)]
pub(crate) struct Consents {
    /// Questions so far, which number them.
    questions: u64,
    open: Option<Question>,
    /// The sources of other processes that the agent was last told of.
    told: u64,
}

impl Consents {
    /// Whether a question is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Asks these processes. Returns the question's number.
    pub(crate) fn ask(
        &mut self,
        promise: Promise,
        asked: BTreeSet<u32>,
        deadline: Duration,
    ) -> u64 {
        self.questions += 1;
        let said = answer(AgentResult::DONE, "");
        self.open = Some(Question { promise, asked, deadline, said });
        self.questions
    }

    /// A process answers.
    pub(crate) fn answer(
        &mut self,
        process: u32,
        number: u64,
        answer: AgentAnswer,
    ) -> Result<(), RequestError> {
        let wrong = RequestError::parameter("number", number);
        let is_last = number == self.questions;
        let question = self.open.as_mut().filter(|_| is_last).ok_or(wrong)?;
        if !question.asked.remove(&process) {
            return Err(RequestError::parameter("number", number));
        }
        question.said = answer;
        if answer.result != AgentResult::DONE {
            // One refusal settles it.
            question.asked.clear();
        }
        Ok(())
    }

    /// Takes the question if it is settled: these processes show something.
    pub(crate) fn settle(&mut self, showing: &BTreeSet<u32>, now: Duration) -> Option<Settled> {
        let question = self.open.as_mut()?;
        // Who shows nothing any more stands against nothing.
        question.asked.retain(|process| showing.contains(process));
        if !question.asked.is_empty() && now < question.deadline {
            return None;
        }
        let Question { promise, asked: silent, said, .. } = self.open.take()?;
        let answer = if silent.is_empty() {
            said
        } else {
            answer(
                AgentResult::TIMED_OUT,
                "the program that shows something did not answer in time",
            )
        };
        Some(Settled { promise, answer, silent })
    }

    /// The agent ends. Returns its request.
    pub(crate) fn end(&mut self) -> Option<Promise> {
        self.told = 0;
        self.open.take().map(|question| question.promise)
    }

    /// When the answers are too late.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.open.as_ref().map(|question| question.deadline)
    }

    /// Other processes have these sources. Returns whether the agent must be told.
    pub(crate) fn must_tell(&mut self, sources: u64) -> bool {
        std::mem::replace(&mut self.told, sources) != sources
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn asked(processes: &[u32]) -> (Consents, u64) {
        let mut consents = Consents::default();
        let processes = processes.iter().copied().collect();
        let number = consents.ask(Promise::numbered(1), processes, 5 * SECOND);
        (consents, number)
    }

    fn settled(consents: &mut Consents, showing: &[u32], now: Duration) -> Option<(u32, usize)> {
        let settled = consents.settle(&showing.iter().copied().collect(), now)?;
        assert_eq!(settled.promise, Promise::numbered(1));
        Some((settled.answer.result.0, settled.silent.len()))
    }

    #[test]
    fn all_must_agree_and_one_refusal_settles_it() {
        let (mut consents, number) = asked(&[1, 2]);
        let (done, no) = (answer(AgentResult::DONE, ""), answer(AgentResult::FAILED, "no"));
        consents.answer(1, number, done).unwrap();
        assert_eq!(settled(&mut consents, &[1, 2], SECOND), None);
        // Once each, those who were asked, and to this question.
        for (process, number) in [(1, number), (3, number), (2, number + 1), (2, 0)] {
            assert!(consents.answer(process, number, done).is_err());
        }
        consents.answer(2, number, done).unwrap();
        assert_eq!(settled(&mut consents, &[1, 2], SECOND), Some((AgentResult::DONE.0, 0)));
        assert!(!consents.is_open() && consents.answer(2, number, done).is_err());
        let (mut consents, number) = asked(&[1, 2]);
        consents.answer(2, number, no).unwrap();
        assert_eq!(settled(&mut consents, &[1, 2], SECOND), Some((AgentResult::FAILED.0, 0)));
    }

    #[test]
    fn who_lets_go_agrees_and_who_is_silent_is_named_at_the_deadline() {
        let (mut consents, _) = asked(&[1, 2]);
        assert_eq!(consents.deadline(), Some(5 * SECOND));
        assert_eq!(settled(&mut consents, &[2], SECOND), None);
        assert_eq!(settled(&mut consents, &[2], 5 * SECOND), Some((AgentResult::TIMED_OUT.0, 1)));
        let (mut consents, _) = asked(&[1]);
        assert_eq!(settled(&mut consents, &[], SECOND), Some((AgentResult::DONE.0, 0)));
        let (mut consents, _) = asked(&[1]);
        assert!(consents.end().is_some() && consents.deadline().is_none());
    }

    #[test]
    fn an_agent_is_told_of_each_change_once() {
        let mut consents = Consents::default();
        let tell = [0, 1, 1, 3, 0].map(|sources| consents.must_tell(sources));
        assert_eq!(tell, [false, true, false, true, true]);
    }
}
