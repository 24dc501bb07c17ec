// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's agent: one process that is told what happens to the device, and does in user mode what a kernel cannot.
//!
//! A program becomes the agent with [`Adapter::register_agent`]. Others ask it with [`Adapter::ask_agent`], and the host's
//! operator does with `bellhop ctl agent`. Source: Windows KMD overview, "EEU".

pub use crate::link::agent_events::{AgentEvent, AgentRequest, PresenceChange};
pub use crate::link::display_events::HotPlug;
pub use bellhop_protocol::control::agent::topology::WantedTopology;
pub use bellhop_protocol::control::agent::{
    ALL_WISHES, AgentInfo, AgentResult, AgentWish, DevicePresence, PowerPolicy, RecoveryKind,
};

use crate::adapter::Adapter;
use crate::error::Error;
use crate::link::session::Session;
use bellhop_protocol::control::agent::consent::{AnnounceStop, AskForConsent};
use bellhop_protocol::control::agent::{
    AGENT_VERSION, AgentTopology, AnswerAgentRequest, AskAgent, QueryAgent, RegisterAgent,
    SetDevicePresence, SetPowerPolicy, UnregisterAgent, answer, printable,
};
use std::sync::Arc;
use std::time::Duration;

/// What a program asks the agent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// What the monitors show.
    Topology(WantedTopology),
    /// How the guest uses power.
    PowerPolicy(PowerPolicy),
    /// Stops the device and its clients.
    Stop,
    /// Starts the device and its clients.
    Start,
}

/// What an agent answered, or the device in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// What became of the request.
    pub result: AgentResult,
    /// A line for people.
    pub text: String,
}

/// What programs that show something said to a question of the agent's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    /// `DONE`: nobody stands against it. `FAILED`: one refused. `TIMED_OUT`: sources were taken from those who did not
    /// answer.
    pub result: AgentResult,
    /// A bit for each source that other processes have now. Without any, the agent may show something.
    pub sources: u64,
    /// A line for people: why one refused, or what the last who agreed shows.
    pub text: String,
}

/// The guest's agent, until this is dropped.
pub struct Agent {
    session: Arc<Session>,
}

impl Adapter {
    /// Makes this process the guest's agent, which grants these wishes: bit `n` for [`AgentWish`] `n`.
    ///
    /// # Errors
    /// [`Error::Refused`] with `DEVICE_BUSY` if the guest has an agent, or with `REVISION_MISMATCH` if the device speaks
    /// another version of the agent's requests.
    pub fn register_agent(&self, wishes: u32) -> Result<Agent, Error> {
        let session = Arc::clone(self.session());
        // Before the request, so that no event is missed.
        session.link.events.open_agent(session.process());
        let registered = session.call(&RegisterAgent { version: AGENT_VERSION, wishes });
        // An event pump that keeps events of a process that is not the agent gets none.
        registered.map(|_| Agent { session })
    }

    /// Asks the guest's agent for something, and waits for its answer, up to ten seconds.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn ask_agent(&self, wish: Wish) -> Result<Answered, Error> {
        let answer = self.session().call(&request(wish))?;
        Ok(Answered { result: answer.result, text: printable(&answer) })
    }

    /// Waits until the device is about to stop, or is started: the guest's agent does that. All processes of a transport
    /// together see each change once. `None` if none comes in time.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn next_presence(&self, timeout: Duration) -> Result<Option<PresenceChange>, Error> {
        let events = &self.session().link.events;
        if timeout.is_zero() {
            events.drain()?;
        }
        events.wait_for_presence(timeout)
    }

    /// The guest's agent, and how its requests ended.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn agent(&self) -> Result<AgentInfo, Error> {
        self.adapter_call(&QueryAgent { reserved: 0 })
    }
}

impl Agent {
    /// Waits for the next event. `None` if none comes in time.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn next_event(&self, timeout: Duration) -> Result<Option<AgentEvent>, Error> {
        // However fast events come, those that replace each other do so here.
        self.session.link.events.drain()?;
        self.session.link.events.wait_for_agent(self.session.process(), timeout)
    }

    /// Answers a request, with a line for people, of which the first 256 bytes count.
    ///
    /// # Errors
    /// [`Error::Refused`] if the request is answered already, or its time is over.
    pub fn answer(
        &self,
        request: AgentRequest,
        result: AgentResult,
        text: &str,
    ) -> Result<(), Error> {
        let request = AnswerAgentRequest { number: request.0, answer: answer(result, text) };
        self.session.call(&request)
    }

    /// Asks all other processes that show something for their consent, and waits until they have answered, one has
    /// refused, or the time is over: ten seconds at most.
    ///
    /// # Errors
    /// [`Error::Refused`] if the topology has no meaning, or such a question is open.
    pub fn ask_for_consent(
        &self,
        wanted: WantedTopology,
        patience: Duration,
    ) -> Result<Consent, Error> {
        let AskAgent { argument, connector, width, height, refresh, .. } =
            AskAgent::topology(wanted);
        let (topology, patience_ms) = (AgentTopology(argument), milliseconds(patience));
        let request = AskForConsent { topology, connector, width, height, refresh, patience_ms };
        let consent = self.session.call(&request)?;
        let (result, text) = (consent.answer.result, printable(&consent.answer));
        Ok(Consent { result, sources: consent.sources, text })
    }

    /// Tells all other processes that the device will stop, and waits until they have left it or the time is over: ten
    /// seconds at most. Returns how many have not left.
    ///
    /// # Errors
    /// [`Error::Refused`] if such an announcement is under way.
    pub fn announce_stop(&self, patience: Duration) -> Result<u32, Error> {
        let request = AnnounceStop { patience_ms: milliseconds(patience), reserved: 0 };
        Ok(self.session.call(&request)?.processes)
    }

    /// Sets how the guest uses power, while it has this agent.
    ///
    /// # Errors
    /// [`Error::Refused`] for a policy that there is not.
    pub fn set_power_policy(&self, policy: PowerPolicy) -> Result<(), Error> {
        self.session.call(&SetPowerPolicy { policy, reserved: 0 })
    }

    /// Stops the guest's device or starts it, while it has this agent. Stopped, all devices of all processes are lost,
    /// those of this process too.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn set_presence(&self, presence: DevicePresence) -> Result<(), Error> {
        self.session.call(&SetDevicePresence { presence, reserved: 0 })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // A device that is gone has already forgotten the agent.
        let _ = self.session.call(&UnregisterAgent { reserved: 0 });
        self.session.link.events.forget_agent(self.session.process());
    }
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn request(wish: Wish) -> AskAgent {
    match wish {
        Wish::Topology(wanted) => AskAgent::topology(wanted),
        Wish::PowerPolicy(policy) => AskAgent::power_policy(policy),
        Wish::Stop => AskAgent::stop(),
        Wish::Start => AskAgent::start(),
    }
}
