// SPDX-License-Identifier: MIT OR Apache-2.0

//! Escapes between a guest's agent and the kernel: a namespace with a version of its own.
//!
//! One process of a guest is its agent. It gets events (`TOPOLOGY_WANTED` and the kinds behind it), does in user mode what
//! a kernel cannot, and answers here. Programs of the guest and the host's operator ask it through the kernel.
//!
//! Source: Windows KMD overview, "EEU": "Sends messages to the KMD via escape calls. Receives messages from the KMD
//! through event objects and message queues".

pub mod consent;
pub mod topology;

use super::request;
use crate::features::Version;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of the namespace: two sides work together if `major` is equal.
pub const AGENT_VERSION: Version = Version { major: 1, minor: 1 };

/// Most bytes of an agent's text.
pub const AGENT_TEXT: usize = 256;

/// The first and the last code of the namespace. Those without a name are refused and counted.
pub const AGENT_CODES: core::ops::RangeInclusive<u32> = 0x90..=0x9F;

open_enum! {
    /// What an agent is asked for.
    pub struct AgentWish: u32 {
        /// What the monitors show: [`AskAgent::argument`] is an [`AgentTopology`].
        TOPOLOGY = 1;
        /// How the guest uses power: [`AskAgent::argument`] is a [`PowerPolicy`].
        POWER_POLICY = 2;
        /// Stops the device and its clients.
        STOP = 3;
        /// Starts the device and its clients.
        START = 4;
    }
}

open_enum! {
    /// What the monitors show.
    pub struct AgentTopology: u32 {
        /// A source of its own on each monitor.
        EXTEND = 1;
        /// One source on all monitors.
        CLONE = 2;
        /// One source on the first monitor.
        SINGLE = 3;
        /// Nothing.
        OFF = 4;
        /// What the agent's own policy says, after it has looked at all connectors.
        ENUMERATE = 5;
        /// A mode of one connector; the others as they are.
        MODE = 6;
        /// One connector's picture turned; the others as they are.
        ROTATE = 7;
    }
}

open_enum! {
    /// How a guest uses power.
    pub struct PowerPolicy: u32 {
        /// As the host's configuration says.
        BALANCED = 1;
        /// The adapter does not go to D3 by itself while the guest is attached.
        PERFORMANCE = 2;
        /// The adapter goes to D3 as soon as all its engines are in F1, if all guests want that.
        SAVING = 3;
    }
}

open_enum! {
    /// What became of a request to an agent.
    pub struct AgentResult: u32 {
        /// It is done.
        DONE = 0;
        /// It could not be done; the text says why.
        FAILED = 1;
        /// The agent does not do this.
        NOT_SUPPORTED = 2;
        /// Set by the device alone: no agent is registered.
        NO_AGENT = 3;
        /// Set by the device alone: the agent did not answer in time.
        TIMED_OUT = 4;
        /// Set by the device alone: the agent ended, or unregistered, before it answered.
        AGENT_ENDED = 5;
        /// Set by the device alone: the agent has as many requests to answer as it may have.
        BUSY = 6;
    }
}

open_enum! {
    /// Whether a guest's device is there, as its agent wants.
    pub struct DevicePresence: u32 {
        /// It takes work.
        STARTED = 1;
        /// All its devices are lost, and it takes no work.
        STOPPED = 2;
    }
}

open_enum! {
    /// What was reset, in the event `RECOVERED`.
    pub struct RecoveryKind: u32 {
        /// A queue of the guest was pre-empted and lost.
        QUEUE = 1;
        /// The engine of a node was reset, over a queue of the guest.
        ENGINE = 2;
        /// The adapter was reset, over a queue of any guest.
        ADAPTER = 3;
    }
}

/// Makes the process the guest's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RegisterAgent {
    /// The version of the namespace that the agent speaks.
    pub version: Version,
    /// The wishes that it grants: bit `n` for the wish with the number `n`.
    pub wishes: u32,
}
crate::assert_layout!(RegisterAgent, 8, version at 0, wishes at 4);
request!(RegisterAgent, REGISTER_AGENT -> AgentRegistered);

/// The wishes that exist, as [`RegisterAgent::wishes`] has them.
pub const ALL_WISHES: u32 = 1 << AgentWish::TOPOLOGY.0
    | 1 << AgentWish::POWER_POLICY.0
    | 1 << AgentWish::STOP.0
    | 1 << AgentWish::START.0;

/// The device's side of the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AgentRegistered {
    /// [`AGENT_VERSION`]
    pub version: Version,
    /// Milliseconds that the agent has for an answer.
    pub patience_ms: u32,
}
crate::assert_layout!(AgentRegistered, 8, version at 0, patience_ms at 4);

/// The process is no longer the guest's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct UnregisterAgent {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(UnregisterAgent, 8, reserved at 0);
request!(UnregisterAgent, UNREGISTER_AGENT -> ());

/// A program of the guest asks the agent for something. The reply comes with the agent's answer, or without one when its
/// time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AskAgent {
    /// What is wanted.
    pub wish: AgentWish,
    /// Which: see [`AgentWish`]; 0 for others.
    pub argument: u32,
    /// `MODE`, `ROTATE`: the connector; otherwise 0.
    pub connector: u32,
    /// `MODE`: pixels of a line; `ROTATE`: a [`Rotation`](super::display::Rotation); otherwise 0.
    pub width: u32,
    /// `MODE`: lines; otherwise 0.
    pub height: u32,
    /// `MODE`: refresh rate in thousandths of a Hz, 0 for any; otherwise 0.
    pub refresh: u32,
}
crate::assert_layout!(
    AskAgent, 24,
    wish at 0, argument at 4, connector at 8, width at 12, height at 16, refresh at 20,
);
request!(AskAgent, ASK_AGENT -> AgentAnswer);

/// An agent's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AgentAnswer {
    /// What became of the request.
    pub result: AgentResult,
    /// Bytes of `text` that are used.
    pub length: u32,
    /// UTF-8 for people; zeroes behind it.
    pub text: [u8; AGENT_TEXT],
}
crate::assert_layout!(AgentAnswer, 264, result at 0, length at 4, text at 8);

/// The agent answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AnswerAgentRequest {
    /// The request's number, from the event's `cookie`.
    pub number: u64,
    /// The answer: `DONE`, `FAILED` or `NOT_SUPPORTED`.
    pub answer: AgentAnswer,
}
crate::assert_layout!(AnswerAgentRequest, 272, number at 0, answer at 8);
request!(AnswerAgentRequest, ANSWER_AGENT_REQUEST -> ());

/// The agent sets how the guest uses power. Holds until it is set again, the agent ends or the guest is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetPowerPolicy {
    /// The policy.
    pub policy: PowerPolicy,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(SetPowerPolicy, 8, policy at 0, reserved at 4);
request!(SetPowerPolicy, SET_POWER_POLICY -> ());

/// The agent stops the guest's device, or starts it. Stopped, all devices of all processes are in error and the guest gets
/// no new ones. Holds until it is started, the agent ends or the guest is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetDevicePresence {
    /// Whether the device is there.
    pub presence: DevicePresence,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(SetDevicePresence, 8, presence at 0, reserved at 4);
request!(SetDevicePresence, SET_DEVICE_PRESENCE -> ());

/// Queries the guest's agent, from any process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryAgent {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(QueryAgent, 8, reserved at 0);
request!(QueryAgent, QUERY_AGENT -> AgentInfo);

/// The guest's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AgentInfo {
    /// [`AGENT_VERSION`]
    pub version: Version,
    /// The agent's process; 0 if there is none.
    pub process: u32,
    /// The wishes that it grants: see [`RegisterAgent::wishes`].
    pub wishes: u32,
    /// The guest's power policy.
    pub policy: PowerPolicy,
    /// Whether the device is stopped.
    pub presence: DevicePresence,
    /// Requests that the agent has not answered.
    pub pending: u32,
    /// Requests to the agent so far.
    pub asked: u64,
    /// Requests that it answered in time.
    pub answered: u64,
    /// Requests of this namespace that were refused: unknown ones, those of another process than the agent, answers to
    /// nothing that was asked.
    pub refused: u64,
}
crate::assert_layout!(
    AgentInfo, 48,
    version at 0, process at 4, wishes at 8, policy at 12, presence at 16, pending at 20, asked at 24,
    answered at 32, refused at 40,
);

/// The used part of an agent's text, as one line of printable characters. It is a guest's, so it steers no terminal.
#[must_use]
pub fn printable(answer: &AgentAnswer) -> alloc::string::String {
    let length = (answer.length as usize).min(AGENT_TEXT);
    let text =
        alloc::string::String::from_utf8_lossy(answer.text.get(..length).unwrap_or_default());
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Text of an answer, cut where it is too long.
#[must_use]
pub fn answer(result: AgentResult, text: &str) -> AgentAnswer {
    let cut = text.floor_char_boundary(AGENT_TEXT);
    let bytes = text.as_bytes().get(..cut).unwrap_or_default();
    let mut all = [0; AGENT_TEXT];
    for (to, from) in all.iter_mut().zip(bytes) {
        *to = *from;
    }
    // At most `AGENT_TEXT`.
    AgentAnswer { result, length: bytes.len() as u32, text: all }
}
