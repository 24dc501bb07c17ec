// SPDX-License-Identifier: MIT OR Apache-2.0

//! What monitors are to show, as a guest's programs and the host's operator say it to the guest's agent.
//!
//! Source: Windows KMD overview, "EEU".

use super::{AgentTopology, AgentWish, AskAgent, PowerPolicy};
use core::fmt;
use core::str::FromStr;
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
    /// One connector's picture turned; the others as they are.
    Rotate {
        /// The connector, counted from 0.
        connector: u32,
        /// Quarters of a turn, counter-clockwise: 0 to 3.
        quarters: u32,
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
            WantedTopology::Rotate { connector, quarters } => {
                Self { connector, width: quarters + 1, ..topology(AgentTopology::ROTATE) }
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

/// A text names no topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTopology;

impl fmt::Display for NoTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write extend, clone, single, off, enumerate, a connector's number and its mode, such as 1=1920x1080@60, or \
             its rotation in degrees, such as 1=90",
        )
    }
}

impl core::error::Error for NoTopology {}

impl FromStr for WantedTopology {
    type Err = NoTopology;

    fn from_str(text: &str) -> Result<Self, NoTopology> {
        Ok(match text {
            "extend" => Self::Extend,
            "clone" => Self::Clone,
            "single" => Self::Single,
            "off" => Self::Off,
            "enumerate" => Self::Enumerate,
            of_connector => {
                mode_of(of_connector).or(rotation_of(of_connector)).ok_or(NoTopology)?
            }
        })
    }
}

/// A connector and its mode: `1=1920x1080@59.94`.
fn mode_of(text: &str) -> Option<WantedTopology> {
    let (connector, mode) = text.split_once('=')?;
    let (size, rate) = match mode.split_once('@') {
        Some((size, rate)) => {
            (size, rate.parse::<f64>().ok().filter(|rate| (1.0..=1000.0).contains(rate))?)
        }
        None => (mode, 0.0),
    };
    let (width, height) = size.split_once('x')?;
    Some(WantedTopology::Mode {
        connector: connector.parse().ok()?,
        width: width.parse().ok()?,
        height: height.parse().ok()?,
        // To the nearest thousandth.
        refresh: (rate * 1000.0 + 0.5) as u32,
    })
}

/// A connector and how its picture is turned: `1=90`.
fn rotation_of(text: &str) -> Option<WantedTopology> {
    let (connector, degrees) = text.split_once('=')?;
    let degrees: u32 = degrees.parse().ok()?;
    let quarters = degrees / 90;
    let is_right = degrees.is_multiple_of(90) && quarters < 4;
    is_right.then_some(WantedTopology::Rotate { connector: connector.parse().ok()?, quarters })
}

impl fmt::Display for WantedTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Extend => f.write_str("extend"),
            Self::Clone => f.write_str("clone"),
            Self::Single => f.write_str("single"),
            Self::Off => f.write_str("off"),
            Self::Enumerate => f.write_str("enumerate"),
            Self::Mode { connector, width, height, refresh: 0 } => {
                write!(f, "{connector}={width}x{height}")
            }
            Self::Mode { connector, width, height, refresh } => {
                write!(f, "{connector}={width}x{height}@{}", f64::from(refresh) / 1000.0)
            }
            Self::Rotate { connector, quarters } => write!(f, "{connector}={}", quarters * 90),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn topologies_are_words_or_a_connector_s_mode_or_its_rotation() {
        let of = |text: &str| text.parse::<WantedTopology>();
        let mode =
            WantedTopology::Mode { connector: 1, width: 1920, height: 1080, refresh: 59_940 };
        let any = WantedTopology::Mode { connector: 0, width: 640, height: 480, refresh: 0 };
        let turned = WantedTopology::Rotate { connector: 2, quarters: 3 };
        for (text, topology) in [
            ("clone", WantedTopology::Clone),
            ("1=1920x1080@59.94", mode),
            ("0=640x480", any),
            ("2=270", turned),
        ] {
            assert_eq!(of(text), Ok(topology));
            assert_eq!(topology.to_string(), text);
        }
        for wrong in [
            "",
            "both",
            "1=",
            "1=640",
            "1=45",
            "1=360",
            "x=640x480",
            "x=90",
            "1=640x480@",
            "1=640x480@0",
            "1=640x480@NaN",
        ] {
            assert!(of(wrong).unwrap_err().to_string().contains("1=1920x1080@60"), "{wrong}");
        }
    }
}
