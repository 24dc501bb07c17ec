// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's agent and the requests that it has not answered. Both are bounded: an agent that never answers costs those
//! who ask it their patience, and nobody else anything.
//!
//! Source: Windows KMD overview, "EEU".

use crate::dxgkrnl::agent::consent::Consents;
use crate::dxgkrnl::agent::leave::Leave;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::promises::Promise;
use crate::port::CommandToken;
use bellhop_protocol::control::agent::{
    AGENT_VERSION, ALL_WISHES, AgentInfo, AgentResult, AgentWish, DevicePresence, PowerPolicy,
};
use bellhop_protocol::features::Version;
use bellhop_protocol::snapshot;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long an agent may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Most requests that an agent has to answer at a time: fewer than a driver keeps in flight, so that the agent can answer.
const MOST_PENDING: usize = 4;

/// Who asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The host's operator.
    Operator(CommandToken),
    /// A program of the guest.
    Program(Promise),
}

/// A request that is not answered.
#[derive(Debug)]
struct Pending {
    asker: Asker,
    deadline: Duration,
}

/// The process that is the agent.
#[derive(Debug, Clone, Copy)]
struct Agent {
    process: u32,
    wishes: u32,
}

/// A guest's agent, if it has one.
#[derive(Debug)]
pub(crate) struct AgentRegistration {
    agent: Option<Agent>,
    /// By number.
    pending: BTreeMap<u64, Pending>,
    policy: PowerPolicy,
    /// What it asks those who show something.
    pub(crate) consents: Consents,
    /// Whom it has told to leave.
    pub(crate) leave: Leave,
    asked: u64,
    answered: u64,
    refused: u64,
}

impl Default for AgentRegistration {
    fn default() -> Self {
        Self {
            agent: None,
            pending: BTreeMap::new(),
            policy: PowerPolicy::BALANCED,
            consents: Consents::default(),
            leave: Leave::default(),
            asked: 0,
            answered: 0,
            refused: 0,
        }
    }
}

impl AgentRegistration {
    /// Makes a process the agent.
    pub(crate) fn register(
        &mut self,
        process: u32,
        version: Version,
        wishes: u32,
    ) -> Result<(), RequestError> {
        if version.major != AGENT_VERSION.major {
            return Err(RequestError::AgentVersion(version));
        }
        if wishes & !ALL_WISHES != 0 {
            return Err(RequestError::parameter("wishes", wishes.into()));
        }
        if let Some(agent) = self.agent {
            return Err(RequestError::AgentBusy(agent.process));
        }
        self.agent = Some(Agent { process, wishes });
        Ok(())
    }

    /// Refuses a process that is not the agent.
    pub(crate) fn check(&self, process: u32) -> Result<(), RequestError> {
        match self.agent {
            Some(agent) if agent.process == process => Ok(()),
            _ => Err(RequestError::NotTheAgent(process)),
        }
    }

    /// The agent's process.
    pub(crate) fn process(&self) -> Option<u32> {
        self.agent.map(|agent| agent.process)
    }

    /// The agent ends. Returns those who wait for its answers, in the order in which they asked.
    pub(crate) fn unregister(&mut self) -> Vec<Asker> {
        (self.agent, self.policy) = (None, PowerPolicy::BALANCED);
        std::mem::take(&mut self.pending).into_values().map(|pending| pending.asker).collect()
    }

    /// Whether the agent can be asked for something now.
    ///
    /// # Errors
    /// Why it is not asked.
    pub(crate) fn check_ask(&self, wish: AgentWish) -> Result<(), AgentResult> {
        let agent = self.agent.ok_or(AgentResult::NO_AGENT)?;
        if agent.wishes & 1u32.checked_shl(wish.0).unwrap_or(0) == 0 {
            return Err(AgentResult::NOT_SUPPORTED);
        }
        if self.pending.len() >= MOST_PENDING { Err(AgentResult::BUSY) } else { Ok(()) }
    }

    /// Asks the agent for something. Returns the request's number, which its answer names.
    ///
    /// # Errors
    /// As [`Self::check_ask`].
    pub(crate) fn ask(
        &mut self,
        asker: Asker,
        wish: AgentWish,
        now: Duration,
    ) -> Result<u64, AgentResult> {
        self.check_ask(wish)?;
        self.asked += 1;
        let deadline = now.saturating_add(PATIENCE);
        self.pending.insert(self.asked, Pending { asker, deadline });
        Ok(self.asked)
    }

    /// The agent answers a request. Returns who asked.
    pub(crate) fn answer(&mut self, number: u64) -> Result<Asker, RequestError> {
        let pending = self.pending.remove(&number);
        let pending = pending.ok_or(RequestError::parameter("number", number))?;
        self.answered += 1;
        Ok(pending.asker)
    }

    /// Takes those whose time is over.
    pub(crate) fn expire(&mut self, now: Duration) -> Vec<Asker> {
        let expired = self.pending.extract_if(.., |_, pending| pending.deadline <= now);
        expired.map(|(_, pending)| pending.asker).collect()
    }

    /// When the first answer is too late, of the agent or to it.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let pending = self.pending.first_key_value().map(|(_, pending)| pending.deadline);
        let deadlines = [pending, self.consents.deadline(), self.leave.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Sets the guest's power policy.
    pub(crate) fn set_policy(&mut self, policy: PowerPolicy) {
        self.policy = policy;
    }

    /// The guest's power policy.
    pub(crate) fn policy(&self) -> PowerPolicy {
        self.policy
    }

    /// Counts a refused request of the namespace.
    pub(crate) fn count_refused(&mut self) {
        self.refused += 1;
    }

    /// What tools see.
    pub(crate) fn describe(&self) -> snapshot::Agent {
        snapshot::Agent {
            process: self.process(),
            power_policy: self.policy.name().unwrap_or_default().to_lowercase(),
            pending: u32::try_from(self.pending.len()).unwrap_or(u32::MAX),
            asked: self.asked,
            answered: self.answered,
            refused: self.refused,
        }
    }

    /// What programs see.
    pub(crate) fn info(&self, presence: DevicePresence) -> AgentInfo {
        AgentInfo {
            version: AGENT_VERSION,
            process: self.process().unwrap_or(0),
            wishes: self.agent.map_or(0, |agent| agent.wishes),
            policy: self.policy,
            presence,
            pending: u32::try_from(self.pending.len()).unwrap_or(u32::MAX),
            asked: self.asked,
            answered: self.answered,
            refused: self.refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn asker(number: u64) -> Asker {
        Asker::Program(Promise::numbered(number))
    }

    fn registered() -> AgentRegistration {
        let mut agency = AgentRegistration::default();
        agency.register(7, AGENT_VERSION, ALL_WISHES).unwrap();
        agency
    }

    #[test]
    fn a_guest_has_one_agent_of_the_device_s_version_that_knows_its_wishes() {
        let mut agency = registered();
        let second = agency.register(8, AGENT_VERSION, 0);
        assert_eq!(second, Err(RequestError::AgentBusy(7)));
        assert_eq!(agency.register(7, AGENT_VERSION, 0), Err(RequestError::AgentBusy(7)));
        assert!(agency.check(7).is_ok() && agency.check(8).is_err());
        assert_eq!(agency.unregister(), []);
        let other = Version { major: 2, minor: 0 };
        assert_eq!(agency.register(8, other, 0), Err(RequestError::AgentVersion(other)));
        assert!(agency.register(8, AGENT_VERSION, 1).is_err(), "there is no wish 0");
        let later = Version { major: 1, minor: 9 };
        agency.register(8, later, 1 << AgentWish::STOP.0).unwrap();
        let refused = agency.ask(asker(1), AgentWish::TOPOLOGY, SECOND);
        assert_eq!(refused, Err(AgentResult::NOT_SUPPORTED));
        assert!(agency.ask(asker(1), AgentWish(77), SECOND).is_err());
        assert!(agency.ask(asker(1), AgentWish::STOP, SECOND).is_ok());
    }

    #[test]
    fn each_request_is_answered_once_and_no_later_than_its_deadline() {
        let mut agency = registered();
        let first = agency.ask(asker(1), AgentWish::STOP, SECOND).unwrap();
        let second = agency.ask(asker(2), AgentWish::START, 3 * SECOND).unwrap();
        assert_eq!(agency.deadline(), Some(11 * SECOND));
        assert_eq!(agency.answer(first), Ok(asker(1)));
        assert!(agency.answer(first).is_err() && agency.answer(0).is_err());
        assert_eq!(agency.expire(12 * SECOND), []);
        assert_eq!(agency.expire(13 * SECOND), [asker(2)]);
        assert!(agency.answer(second).is_err() && agency.deadline().is_none());
        let info = agency.info(DevicePresence::STARTED);
        assert_eq!((info.asked, info.answered, info.pending), (2, 1, 0));
    }

    #[test]
    fn an_agent_has_few_requests_to_answer_and_its_end_ends_them() {
        let mut agency = registered();
        for number in 0..MOST_PENDING as u64 {
            agency.ask(asker(number), AgentWish::STOP, SECOND).unwrap();
        }
        assert_eq!(agency.ask(asker(99), AgentWish::STOP, SECOND), Err(AgentResult::BUSY));
        agency.set_policy(PowerPolicy::SAVING);
        let all: Vec<_> = (0..MOST_PENDING as u64).map(asker).collect();
        assert_eq!(agency.unregister(), all);
        assert_eq!(agency.policy(), PowerPolicy::BALANCED);
        assert_eq!(agency.ask(asker(1), AgentWish::STOP, SECOND), Err(AgentResult::NO_AGENT));
    }
}
