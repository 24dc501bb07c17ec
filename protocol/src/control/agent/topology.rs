// SPDX-License-Identifier: MIT OR Apache-2.0

//! What monitors are to show, as a guest's programs and the host's operator say it to the guest's agent.
//!
//! Source: Windows KMD overview, "EEU".

use super::{AgentTopology, AgentWish, AskAgent, PowerPolicy};
use serde::{Deserialize, Serialize};

/// What a guest's monitors shall show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WantedTopology {
    /// A source of its own on each monitor.
    Extend,
    /// One source on all monitors.
    Clone,
    /// One source on the first monitor.
    Single,
    /// Nothing.
    Off,
    /// What the agent's own policy says, after it has looked at all connectors.
    Enumerate,
    /// This mode on one connector; the others as they are.
    Mode {
        /// The connector, counted from 0.
        connector: u32,
        /// Pixels of a line.
        width: u32,
        /// Lines.
        height: u32,
        /// Refresh rate in thousandths of a Hz; 0 is any.
        refresh: u32,
    },
}

impl AskAgent {
    /// Asks for what the monitors show.
    #[must_use]
    pub fn topology(wanted: WantedTopology) -> Self {
        let topology = |topology: AgentTopology| Self::plain(AgentWish::TOPOLOGY, topology.0);
        match wanted {
            WantedTopology::Extend => topology(AgentTopology::EXTEND),
            WantedTopology::Clone => topology(AgentTopology::CLONE),
            WantedTopology::Single => topology(AgentTopology::SINGLE),
            WantedTopology::Off => topology(AgentTopology::OFF),
            WantedTopology::Enumerate => topology(AgentTopology::ENUMERATE),
            WantedTopology::Mode { connector, width, height, refresh } => {
                Self { connector, width, height, refresh, ..topology(AgentTopology::MODE) }
            }
        }
    }

    /// Asks for how the guest uses power.
    #[must_use]
    pub fn power_policy(policy: PowerPolicy) -> Self {
        Self::plain(AgentWish::POWER_POLICY, policy.0)
    }

    /// Asks for the device and its clients to stop.
    #[must_use]
    pub fn stop() -> Self {
        Self::plain(AgentWish::STOP, 0)
    }

    /// Asks for the device and its clients to start.
    #[must_use]
    pub fn start() -> Self {
        Self::plain(AgentWish::START, 0)
    }

    fn plain(wish: AgentWish, argument: u32) -> Self {
        Self { wish, argument, connector: 0, width: 0, height: 0, refresh: 0 }
    }
}
