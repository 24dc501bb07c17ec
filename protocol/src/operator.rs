// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a host's operator asks of a daemon: lines of JSON on the operator's socket.
//!
//! A client sends an [`OperatorRequest`] and gets an [`OperatorReply`], any number of times. The control socket, which
//! shows and changes nothing, takes none of these.
//!
//! Source: Windows KMD overview, "EEU".

pub use crate::control::agent::topology::WantedTopology;

use crate::control::power::{DevicePowerState, EnginePowerState};
use crate::snapshot::Change;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Version of these requests and replies. These types cannot read another version.
pub const OPERATOR_VERSION: u32 = 1;
/// Maximum length of an [`OperatorRequest`] line in bytes.
pub const MAX_OPERATOR_REQUEST: usize = 4096;
/// Maximum length of an [`OperatorReply`] line in bytes.
pub const MAX_OPERATOR_REPLY: usize = 1 << 20;

/// A line from an operator's tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorRequest {
    /// [`OPERATOR_VERSION`]
    pub version: u32,
    /// What the operator wants.
    pub operate: OperatorAction,
}

/// What an operator wants. `guest` is a guest's id; or its socket, by path or file name; or one connection of a socket that
/// has several, as `SOCKET#NUMBER`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum OperatorAction {
    /// The sockets, their guests, and what was changed of them.
    Guests,
    /// Nothing of the socket's guests executes from now on.
    Suspend {
        /// The guest.
        guest: String,
    },
    /// Undoes [`Self::Suspend`].
    Resume {
        /// The guest.
        guest: String,
    },
    /// Puts all devices of a guest in error.
    Fail {
        /// The guest.
        guest: String,
    },
    /// Ends a guest's connection.
    Disconnect {
        /// The guest.
        guest: String,
    },
    /// Changes an adapter's power state.
    DevicePower {
        /// The adapter's number.
        adapter: u32,
        /// The state.
        state: DevicePower,
    },
    /// Changes an engine's power state.
    EnginePower {
        /// The adapter's number.
        adapter: u32,
        /// The engine's node.
        node: u32,
        /// The state.
        state: EnginePower,
    },
    /// Changes a key of `[guest]` for the guests of one socket.
    Set {
        /// The guest.
        guest: String,
        /// The key, without its section.
        key: String,
        /// Its value, as in the configuration.
        value: String,
    },
    /// Plugs a monitor in, or unplugs it.
    Display {
        /// The guest; empty if only one has displays.
        guest: String,
        /// The connector's name; empty for the first.
        connector: String,
        /// Whether the monitor is plugged in from now on.
        plugged: bool,
    },
    /// Takes a GPU of a guest's away, or brings it back.
    Gpu {
        /// The guest.
        guest: String,
        /// Its ordinal in its chain. The master, 0, takes all along.
        #[serde(default)]
        gpu: u8,
        /// Whether the GPU is there from now on.
        plugged: bool,
    },
    /// Asks the agent in a guest for something.
    Agent {
        /// The guest.
        guest: String,
        /// What.
        wish: Wish,
    },
    /// Lets no further guest in, or lets guests in again.
    Drain {
        /// Whether guests are kept out.
        on: bool,
    },
    /// Answered when no guest is left.
    AwaitNoGuests,
    /// Ends the daemon.
    Stop,
}

/// What an agent is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wish {
    /// What its monitors show.
    Topology(WantedTopology),
    /// How the guest uses power.
    PowerPolicy(PowerPolicy),
    /// Stops the device and its clients.
    Stop,
    /// Starts the device and its clients.
    Start,
}

/// How a guest uses power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PowerPolicy {
    /// As the host's configuration says.
    Balanced,
    /// The adapter keeps its power while the guest is attached.
    Performance,
    /// The adapter goes to D3 as soon as its engines are idle, if all guests want that.
    Saving,
}

/// An adapter's power state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DevicePower {
    /// Powered.
    D0,
    /// Without power, until a guest needs it.
    D3,
}

impl From<DevicePower> for DevicePowerState {
    fn from(state: DevicePower) -> Self {
        match state {
            DevicePower::D0 => Self::D0,
            DevicePower::D3 => Self::D3,
        }
    }
}

/// An engine's power state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnginePower {
    /// Powered.
    F0,
    /// Without power, until it has work.
    F1,
}

impl From<EnginePower> for EnginePowerState {
    fn from(state: EnginePower) -> Self {
        match state {
            EnginePower::F0 => Self::F0,
            EnginePower::F1 => Self::F1,
        }
    }
}

/// The reply line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperatorReply {
    /// The daemon's sockets.
    Guests(Guests),
    /// It is done; one line says what.
    Done(String),
    /// It is not done; one line says why, and what to do instead.
    Error(String),
}

/// The daemon's sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Guests {
    /// Whether no further guest is let in.
    pub draining: bool,
    /// The sockets, in the order in which the daemon serves them; one with several connections once for each.
    pub sockets: Vec<ServedSocket>,
}

/// A connection of a socket with its guest, or a socket that nobody is connected to; and what the operator has changed of
/// the socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedSocket {
    /// The socket's path; empty for a socket that has none.
    pub socket: String,
    /// The adapter's number.
    pub adapter: u32,
    /// How many front ends may be connected to the socket at once.
    pub connections: u32,
    /// The connection's number, from 0 on, if the socket may have more than one.
    pub connection: Option<u32>,
    /// The guest's id, while there is one.
    pub guest: Option<u64>,
    /// Whether a front end is connected.
    pub connected: bool,
    /// The process that connected.
    pub pid: Option<u32>,
    /// Whether nothing of the guest executes, or of the socket's guests.
    pub suspended: bool,
    /// What was changed of the socket, the newest of each kind.
    pub changes: Vec<Change>,
}
