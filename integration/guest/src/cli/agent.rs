// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of `agent`.

use super::configuration::{ConfigurationArguments, read, set};
use crate::agent::config::{AgentConfig, USUAL_FILE};
use crate::agent::{Hooks, Layout, Options};
use bellhop_config::ConfigFile;
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
  lid-closed, lid-opened               BELLHOP_LID; of these and those below
  on-battery, on-ac                    BELLHOP_POWER_SOURCE, BELLHOP_POWER_POLICY
  session-locked, session-unlocked     BELLHOP_SESSION
  prepare-for-sleep, after-sleep

Options take precedence over the configuration, which has the policies for lid, power and sessions too.
`--print-config` shows every key.

Examples:
  agent --displays clone
  agent --hooks /etc/bellhop/hooks.d")]
pub struct AgentArguments {
    /// Read the configuration from this file [default: /etc/bellhop/agent.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    configuration: ConfigurationArguments,
    /// What monitors show that are plugged in [default: extend]
    #[arg(long, value_enum, value_name = "LAYOUT")]
    displays: Option<Layout>,
    /// Run the executable files of this folder at events
    #[arg(long, value_name = "FOLDER")]
    hooks: Option<PathBuf>,
    /// How long a hook may take, in seconds [default: 3]
    #[arg(long, value_name = "SECONDS")]
    hook_timeout: Option<u64>,
    /// How long a program that shows something has to agree to another topology, in seconds; then it loses its monitors
    /// [default: 5]
    #[arg(long, value_name = "SECONDS")]
    consent_timeout: Option<u64>,
    /// How long programs have to leave a device that stops, in seconds; then they lose what they have on it [default: 2]
    #[arg(long, value_name = "SECONDS")]
    leave_timeout: Option<u64>,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

impl AgentArguments {
    /// How to serve; `None` if there is nothing to serve.
    pub(super) fn options(&self) -> anyhow::Result<Option<Options>> {
        let file = self.file()?;
        if self.configuration.is_printed(&file)? || self.configuration.only_checks() {
            return Ok(None);
        }
        let AgentConfig { agent, .. } = &file.config;
        Ok(Some(Options {
            layout: agent.displays,
            hooks: Hooks::new(agent.hooks.clone(), agent.hook_timeout.get()),
            consent: agent.consent_timeout.get(),
            leave: agent.leave_timeout.get(),
            policies: agent.system_bus.then(|| file.config.policies()),
            time: self.seconds.map(Duration::from_secs),
        }))
    }

    /// The configuration of the file, with the changes of the command line.
    fn file(&self) -> anyhow::Result<ConfigFile<AgentConfig>> {
        let mut file = read::<AgentConfig>(self.config.as_deref(), USUAL_FILE)?;
        let agent = &mut file.config.agent;
        agent.displays = self.displays.unwrap_or(agent.displays);
        if let Some(hooks) = &self.hooks {
            agent.hooks = Some(hooks.clone());
        }
        set(&mut agent.hook_timeout, "--hook-timeout", self.hook_timeout)?;
        set(&mut agent.consent_timeout, "--consent-timeout", self.consent_timeout)?;
        set(&mut agent.leave_timeout, "--leave-timeout", self.leave_timeout)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Policies;
    use crate::cli::configuration::testing::{arguments, assert_default};
    use clap::ValueEnum;

    fn options(line: &[&str], text: &str) -> anyhow::Result<Option<Options>> {
        let (arguments, _file) = arguments::<AgentArguments>(line, text)?;
        arguments.options()
    }

    #[test]
    fn options_take_precedence_over_the_file() {
        let text = "[agent]\ndisplays = \"clone\"\nconsent_timeout = \"7s\"\nleave_timeout = \"4s\"\n\
                    [power]\non_battery = \"saving\"\n";
        let line = ["--displays", "single", "--leave-timeout", "8"];
        let chosen = options(&line, text).unwrap().unwrap();
        assert_eq!((chosen.layout, chosen.consent.as_secs()), (Layout::Single, 7));
        assert_eq!((chosen.leave.as_secs(), chosen.time), (8, None));
        assert_ne!(chosen.policies, Some(Policies::default()));
        let silent = options(&[], "[agent]\nsystem_bus = false\n").unwrap().unwrap();
        assert_eq!((silent.policies, silent.layout), (None, Layout::Extend));
        assert!(options(&["--check-config"], text).unwrap().is_none());
        assert!(options(&["--print-config"], text).unwrap().is_none());
    }

    #[test]
    fn the_help_says_the_defaults_that_are_declared() {
        let agent = AgentConfig::default().agent;
        let layout = agent.displays.to_possible_value().unwrap();
        for (name, default) in [
            ("config", format!("{USUAL_FILE}, if it is there")),
            ("displays", layout.get_name().to_owned()),
            ("hook_timeout", agent.hook_timeout.get().as_secs().to_string()),
            ("consent_timeout", agent.consent_timeout.get().as_secs().to_string()),
            ("leave_timeout", agent.leave_timeout.get().as_secs().to_string()),
        ] {
            assert_default::<AgentArguments>(name, &default);
        }
    }

    #[test]
    fn an_option_out_of_range_is_refused_with_its_range_and_a_file_with_its_line() {
        let error = options(&["--hook-timeout", "9"], "").unwrap_err().to_string();
        assert_eq!(error, "--hook-timeout is 9; it must be 1 to 8");
        let error = options(&[], "[lid]\nclosed = \"dark\"\n").unwrap_err();
        assert!(error.is::<bellhop_config::ConfigError>(), "{error}");
    }
}
