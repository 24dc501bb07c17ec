// SPDX-License-Identifier: MIT OR Apache-2.0

//! The configuration of the agent, `/etc/bellhop/agent.toml`: every key, declared once.
//!
//! The table in `docs/external-events.md` and the installed file are generated from this file.

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use super::screens::Layout;
use super::situation::Policies;
use bellhop_config::{Configuration, Count, Fault, Kind, Secs, Setting, at, choices, section};
use bellhop_guest_umd::agent::PowerPolicy;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where a guest's administrator has the file.
pub const USUAL_FILE: &str = "/etc/bellhop/agent.toml";

/// What the longest of an event may take, in seconds: who asked waits for ten.
type Patience = Secs<1, 8>;
/// A connector's number.
type Connector = Count<0, 63>;

section! {
    /// The whole configuration.
    pub struct AgentConfig {
        /// The agent itself.
        agent: ServingConfig;
        /// The lid of a portable computer, as UPower tells it.
        lid: LidConfig;
        /// Where power comes from, as UPower tells it.
        power: PowerConfig;
        /// Sessions of people at the guest, as logind tells them.
        session: SessionConfig;
    }
}

section! {
    /// The agent itself.
    pub struct ServingConfig {
        /// What monitors show that are plugged in. The option `--displays` takes precedence.
        displays: Layout;
        /// The folder of hooks; without one, none run. The option `--hooks` takes precedence.
        hooks: Option<PathBuf>;
        /// How long a hook may take. The option `--hook-timeout` takes precedence.
        hook_timeout: Patience = at(3);
        /// How long a program that shows something has to agree to another topology. The option `--consent-timeout` takes precedence.
        consent_timeout: Patience = at(5);
        /// How long programs have to leave a device that stops. The option `--leave-timeout` takes precedence.
        leave_timeout: Patience = at(2);
        /// Whether the agent listens to the guest's system bus. Without it, it knows of no lid, battery and session.
        system_bus: bool = true;
    }
}

section! {
    /// The lid of a portable computer.
    pub struct LidConfig {
        /// What monitors show while it is closed: `nothing` changes nothing, `others` all but the one that it covers, `off` none.
        closed: LidPolicy;
        /// The connector of the monitor that it covers, counted from 0.
        connector: Connector = at(0);
    }
}

section! {
    /// Where power comes from.
    pub struct PowerConfig {
        /// The power policy that is set when power comes from a battery; `nothing` sets none.
        on_battery: PowerChoice;
        /// The power policy that is set when power comes from the mains.
        on_ac: PowerChoice;
    }
}

section! {
    /// Sessions of people at the guest.
    pub struct SessionConfig {
        /// What monitors show while each session at a seat is locked or inactive: `nothing` changes nothing, `off` shows none.
        away: AwayPolicy;
    }
}

/// What happens to monitors under a closed lid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LidPolicy {
    /// They show what they did
    #[default]
    Nothing,
    /// The one that it covers shows nothing
    Others,
    /// None shows anything
    Off,
}

/// What happens to monitors while nobody looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AwayPolicy {
    /// They show what they did
    #[default]
    Nothing,
    /// None shows anything
    Off,
}

/// A power policy, or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PowerChoice {
    /// The policy stays
    #[default]
    Nothing,
    /// Between the others
    Balanced,
    /// Power for speed
    Performance,
    /// Speed for power
    Saving,
}

impl PowerChoice {
    /// The policy to set.
    #[must_use]
    pub fn policy(self) -> Option<PowerPolicy> {
        match self {
            Self::Nothing => None,
            Self::Balanced => Some(PowerPolicy::BALANCED),
            Self::Performance => Some(PowerPolicy::PERFORMANCE),
            Self::Saving => Some(PowerPolicy::SAVING),
        }
    }
}

impl Setting for Layout {
    const KIND: Kind = Kind::value(choices::<Self>);
}

impl Setting for LidPolicy {
    const KIND: Kind = Kind::value(choices::<Self>);
}

impl Setting for AwayPolicy {
    const KIND: Kind = Kind::value(choices::<Self>);
}

impl Setting for PowerChoice {
    const KIND: Kind = Kind::value(choices::<Self>);
}

impl Configuration for AgentConfig {
    fn validate(&self) -> Result<(), Fault> {
        // No two keys contradict each other.
        Ok(())
    }
}

impl AgentConfig {
    /// What follows from what the guest's operating system says.
    #[must_use]
    pub fn policies(&self) -> Policies {
        Policies {
            lid: self.lid.closed,
            lid_connector: self.lid.connector.get(),
            on_battery: self.power.on_battery,
            on_ac: self.power.on_ac,
            away: self.session.away,
        }
    }
}
