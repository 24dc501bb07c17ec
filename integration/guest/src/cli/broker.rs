// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of `broker`.

use super::configuration::{ConfigurationArguments, read, set};
use crate::broker::Options;
use crate::broker::config::{Accounts, BrokerConfig, DefaultConfig, SocketMode, USUAL_FILE};
use anyhow::Context;
use bellhop_config::ConfigFile;
use clap::Args;
use std::path::PathBuf;

/// The guest's broker.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Options take precedence over the sections [broker] and [default] of the configuration, and its tables
[[user]] over them. `--print-config` shows every key.

Programs with the library bellhop-guest-umd find the usual socket by themselves; BELLHOP_BROKER names another.

Examples:
  bellhop-guest broker                                    in a VM, as root
  bellhop-guest --socket-path gpu.sock broker --listen broker.sock --mode 666
  BELLHOP_BROKER=broker.sock ./my-program")]
pub struct BrokerArguments {
    /// Read the configuration from this file [default: /etc/bellhop/broker.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    configuration: ConfigurationArguments,
    /// Where programs connect [default: /run/bellhop/broker.sock]
    #[arg(long, value_name = "PATH")]
    listen: Option<PathBuf>,
    /// The socket's mode, in octal: who may connect [default: 660]
    #[arg(long, value_name = "MODE")]
    mode: Option<SocketMode>,
    /// Programs at once [default: 16]
    #[arg(long, value_name = "COUNT")]
    programs: Option<u64>,
    /// Programs of one user at once [default: 8]
    #[arg(long, value_name = "COUNT")]
    programs_of_user: Option<u64>,
    /// Processes on the device of each program [default: 16]
    #[arg(long, value_name = "COUNT")]
    processes: Option<u64>,
    /// Requests in flight of each program [default: 8]
    #[arg(long, value_name = "COUNT")]
    requests: Option<u64>,
    /// Memory of each program, in MiB [default: 64]
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// Doorbells of each program [default: 64]
    #[arg(long, value_name = "COUNT")]
    doorbells: Option<u64>,
    /// Fences of each program, those of queues included [default: 256]
    #[arg(long, value_name = "COUNT")]
    fences: Option<u64>,
}

impl BrokerArguments {
    /// How to serve; `None` if there is nothing to serve.
    pub(super) fn options(&self) -> anyhow::Result<Option<Options>> {
        let file = self.configuration()?;
        if self.configuration.is_printed(&file)? {
            return Ok(None);
        }
        let config = &file.config;
        let accounts = Accounts::read().context("cannot read /etc/passwd and /etc/group")?;
        let members = config.members(&accounts).map_err(|fault| file.error(fault))?;
        let (socket, mode) = (config.broker.listen.clone(), config.broker.mode.bits());
        let limits = config.limits(&members);
        let options = Options { socket, mode, limits, is_confined: true };
        Ok((!self.configuration.only_checks()).then_some(options))
    }

    /// The configuration of the file, with the changes of the command line.
    fn configuration(&self) -> anyhow::Result<ConfigFile<BrokerConfig>> {
        let mut file = read::<BrokerConfig>(self.config.as_deref(), USUAL_FILE)?;
        let BrokerConfig { broker, default, .. } = &mut file.config;
        if let Some(listen) = &self.listen {
            broker.listen.clone_from(listen);
        }
        broker.mode = self.mode.unwrap_or(broker.mode);
        set(&mut broker.programs, "--programs", self.programs)?;
        let DefaultConfig { programs, processes, requests, memory, doorbells, fences, .. } =
            default;
        set(programs, "--programs-of-user", self.programs_of_user)?;
        set(processes, "--processes", self.processes)?;
        set(requests, "--requests", self.requests)?;
        set(memory, "--memory", self.memory)?;
        set(doorbells, "--doorbells", self.doorbells)?;
        set(fences, "--fences", self.fences)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Limits;
    use crate::cli::configuration::testing::{arguments, assert_default};

    fn options(line: &[&str], text: &str) -> anyhow::Result<Option<Options>> {
        let (arguments, _file) = arguments::<BrokerArguments>(line, text)?;
        arguments.options()
    }

    #[test]
    fn options_take_precedence_over_the_file_and_tables_of_users_over_them() {
        let text = "[broker]\nlisten = \"/a\"\nmode = \"600\"\nprograms = 5\n[default]\nmemory = \"2MiB\"\n\
                    requests = 3\n[[user]]\nname = \"7\"\nmemory = \"4MiB\"\n";
        let line = ["--mode", "666", "--programs", "6", "--memory", "3", "--fences", "9"];
        let Options { socket, mode, limits, .. } = options(&line, text).unwrap().unwrap();
        assert_eq!((socket.to_str(), mode, limits.programs), (Some("/a"), 0o666, 6));
        assert_eq!((limits.each.memory, limits.each.requests, limits.each.fences), (3 << 20, 3, 9));
        assert_eq!((limits.of(7).memory, limits.of(7).fences), (4 << 20, 9));
        let Options { limits, .. } = options(&[], "").unwrap().unwrap();
        assert_eq!(limits, Limits::default());
    }

    #[test]
    fn the_help_says_the_defaults_that_are_declared() {
        let mut config = BrokerConfig::default();
        let (broker, each) = (&mut config.broker, &mut config.default);
        for (name, default) in [
            ("listen", broker.listen.display().to_string()),
            ("mode", format!("{:o}", broker.mode.bits())),
            ("programs", broker.programs.get().to_string()),
            ("programs_of_user", each.programs.get().to_string()),
            ("processes", each.processes.get().to_string()),
            ("requests", each.requests.get().to_string()),
            ("memory", (each.memory.get() >> 20).to_string()),
            ("doorbells", each.doorbells.get().to_string()),
            ("fences", each.fences.get().to_string()),
            ("config", format!("{USUAL_FILE}, if it is there")),
        ] {
            assert_default::<BrokerArguments>(name, &default);
        }
    }

    #[test]
    fn an_option_out_of_range_is_refused_with_its_range_and_a_file_with_its_line() {
        let error = options(&["--requests", "1"], "").unwrap_err().to_string();
        assert_eq!(error, "--requests is 1; it must be 2 to 16");
        let error = options(&[], "[default]\nfences = 0\n").unwrap_err();
        assert!(error.is::<bellhop_config::ConfigError>(), "{error}");
        let error = options(&[], "[[user]]\nname = \"no such user\"\n").unwrap_err();
        assert!(error.is::<bellhop_config::ConfigError>(), "{error}");
        assert!(options(&["--mode", "1777"], "").is_err());
        assert!(options(&["--check-config"], "").unwrap().is_none());
    }
}
