// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's agent: one process that is told what happens to the device, and does in user mode what a kernel cannot.
//!
//! A program becomes the agent with [`Adapter::register_agent`]. Others ask it with [`Adapter::ask_agent`], and the host's
//! operator does with `bellhop ctl agent`. Source: Windows KMD overview, "EEU".

pub use crate::link::agent_events::{AgentEvent, AgentRequest};
pub use crate::link::display_events::HotPlug;
pub use bellhop_protocol::control::agent::topology::WantedTopology;
pub use bellhop_protocol::control::agent::{
    ALL_WISHES, AgentInfo, AgentResult, AgentWish, DevicePresence, PowerPolicy, RecoveryKind,
};

use crate::adapter::Adapter;
use crate::error::Error;
use crate::link::session::Session;
use bellhop_protocol::control::agent::{
    AGENT_VERSION, AnswerAgentRequest, AskAgent, QueryAgent, RegisterAgent, SetDevicePresence,
    SetPowerPolicy, UnregisterAgent, answer, printable,
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

fn request(wish: Wish) -> AskAgent {
    match wish {
        Wish::Topology(wanted) => AskAgent::topology(wanted),
        Wish::PowerPolicy(policy) => AskAgent::power_policy(policy),
        Wish::Stop => AskAgent::stop(),
        Wish::Start => AskAgent::start(),
    }
}
