// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of `agent`.

use crate::agent::{Hooks, Layout, Options};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// The guest's agent.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Hooks are executable files, which run by name for each event. Arguments: the event, and what it is about.
  display-plugged, display-unplugged   BELLHOP_CONNECTOR
  topology                             BELLHOP_TOPOLOGY; BELLHOP_MODE: a connector's mode or rotation
  power-policy                         BELLHOP_POWER_POLICY
  stop, start                          the device and its clients
  gpu-left, gpu-arrived
  recovered                            BELLHOP_NODE

Examples:
  agent --displays clone
  agent --hooks /etc/bellhop/hooks.d")]
pub struct AgentArguments {
    /// What monitors show that are plugged in
    #[arg(long, value_enum, value_name = "LAYOUT", default_value_t = Layout::Extend)]
    displays: Layout,
    /// Run the executable files of this folder at events
    #[arg(long, value_name = "FOLDER")]
    hooks: Option<PathBuf>,
    /// How long a hook may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=8))]
    hook_timeout: u64,
    /// How long a program that shows something has to agree to another topology, in seconds; then it loses its monitors
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=8))]
    consent_timeout: u64,
    /// How long programs have to leave a device that stops, in seconds; then they lose what they have on it
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=8))]
    leave_timeout: u64,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

impl AgentArguments {
    pub(super) fn options(&self) -> Options {
        Options {
            layout: self.displays,
            hooks: Hooks::new(self.hooks.clone(), Duration::from_secs(self.hook_timeout)),
            consent: Duration::from_secs(self.consent_timeout),
            leave: Duration::from_secs(self.leave_timeout),
            time: self.seconds.map(Duration::from_secs),
        }
    }
}
