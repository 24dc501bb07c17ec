// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `bellhopd`.

use super::access::{self, SocketAccess};
use super::config::ConfigFile;
use super::control::ControlSocket;
use super::operator::OperatorSocket;
use super::socket::{self, Inherited};
use super::{Worker, capabilities, daemon, hardening, manager};
use crate::gpu::processors;
use crate::log::{self, FILTER_VARIABLE, LogFormat};
use anyhow::{Context, bail};
use bellhop_config::{ConfigError, Fault, KeyPath};
use clap::{CommandFactory, Parser};
use rustix::fd::RawFd;
use rustix::fs::{Gid, Mode};
use std::ffi::OsString;
use std::io::{Write, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

/// The version, with the commit if the build was given one.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    option_env!("BELLHOP_COMMIT").map_or(version.into(), |commit| format!("{version} ({commit})"))
}

/// Serves virtual GPUs to VMs and containers over vhost-user.
///
/// Each socket serves one guest at a time, and the next one when that guest has gone. To serve several guests at once,
/// name several sockets, or let a socket have several connections (guest.connections). The daemon stays in the foreground, logs to standard error and ends at
/// SIGTERM, SIGINT or SIGHUP. It takes over the sockets of a systemd socket unit (LISTEN_FDS) and tells
/// systemd when it is ready (NOTIFY_SOCKET). It exits with 78 when the configuration cannot be used.
#[derive(Debug, Parser)]
#[command(
    name = "bellhopd",
    version = version(),
    after_help = "\
Examples:
  bellhopd --socket-path /run/bellhop/vm0.sock
  bellhopd --socket-path a.sock --socket-path b.sock --config /etc/bellhop/bellhop.toml

With QEMU 11 or newer, and guest memory that is shared:
  qemu-system-x86_64 -M q35 -m 2G \\
    -object memory-backend-memfd,id=mem,size=2G,share=on -numa node,memdev=mem \\
    -chardev socket,id=gpu,path=/run/bellhop/vm0.sock \\
    -device vhost-user-test-device-pci,virtio-id=39,num_vqs=2,vq_size=64,config_size=64,chardev=gpu

Configuration (TOML, every key optional):
  bellhopd --print-config > bellhop.toml         all keys with their defaults
  bellhopd --check-config --config bellhop.toml  says what is wrong with it, and where

BELLHOP_LOG in the environment is a log filter that takes precedence over the configuration's: info, or
info,bellhop_device=debug."
)]
pub struct Arguments {
    /// Listen on a Unix socket at this path; may be given several times
    #[arg(long, value_name = "PATH")]
    socket_path: Vec<PathBuf>,
    /// Use an inherited socket, listening or connected; may be given several times
    #[arg(long, value_name = "FDNUM", value_parser = clap::value_parser!(RawFd).range(3..))]
    fd: Vec<RawFd>,
    /// Let `bellhop inspect` connect at this path, for this user and root
    #[arg(long, value_name = "PATH")]
    control_socket: Option<PathBuf>,
    /// Let `bellhop ctl` connect at this path, for this user, root and control.operator_group
    #[arg(long, value_name = "PATH")]
    operator_socket: Option<PathBuf>,
    /// Read the configuration from this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the whole configuration as TOML, with the changes of this command line and the environment, and
    /// exit
    #[arg(long, conflicts_with = "check_config")]
    print_config: bool,
    /// Check the configuration and exit: with 0 if it can be used, else with 78. If --socket-path is given,
    /// check that every socket in the configuration is named there
    #[arg(long)]
    check_config: bool,
    /// Give the sockets of --socket-path to this group, by name or number, so that its members may connect
    #[arg(long, value_name = "GROUP", value_parser = access::group)]
    socket_group: Option<Gid>,
    /// Give the sockets of --socket-path this mode, in octal [default: 660 with --socket-group,
    /// otherwise what the umask leaves]
    #[arg(long, value_name = "MODE", value_parser = access::mode)]
    socket_mode: Option<Mode>,
    /// Format of the log on standard error [default: text, or the journal's fields where systemd connected
    /// the journal]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// A word of the command line of workers, instead of the installed program: variables as NAME=VALUE, then the
    /// program and its arguments
    #[arg(
        long,
        value_name = "WORD",
        hide = true,
        require_equals = true,
        allow_hyphen_values = true
    )]
    worker: Vec<OsString>,
    /// Print what this back end can do as JSON, and exit
    #[arg(long)]
    print_capabilities: bool,
}

impl Arguments {
    /// The configuration of the file, with the changes of the command line and the environment.
    fn configuration(&self) -> anyhow::Result<ConfigFile> {
        let mut file = match &self.config {
            Some(path) => ConfigFile::read(path)?,
            None => ConfigFile::default(),
        };
        if let Some(path) = &self.control_socket {
            file.config.control.socket.clone_from(path);
        }
        if let Some(path) = &self.operator_socket {
            file.config.control.operator_socket.clone_from(path);
        }
        if let Ok(filter) = std::env::var(FILTER_VARIABLE) {
            log::filter(&filter).map_err(|error| {
                let key = KeyPath::new([FILTER_VARIABLE]);
                file.error(Fault::new(key, format!("{filter:?}"), error.to_string()))
            })?;
            file.config.log.filter = filter;
        }
        Ok(file)
    }

    fn access(&self) -> SocketAccess {
        SocketAccess { group: self.socket_group, mode: self.socket_mode }
    }
}

/// The exit status for an unusable configuration (`EX_CONFIG` of `sysexits.h`). It tells a service manager not to
/// restart the daemon.
const CONFIGURATION_FAULT: u8 = 78;

/// The command line, for man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs `bellhopd` with these arguments, the program's name first. Prints each error as a line on standard error.
/// Workers run `worker` unless the arguments name another program.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>, worker: Worker) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version go to standard output.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match run(arguments, worker) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(stderr(), "bellhopd: {error:#}");
            if error.is::<ConfigError>() {
                ExitCode::from(CONFIGURATION_FAULT)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn run(arguments: Arguments, worker: Worker) -> anyhow::Result<()> {
    if arguments.print_capabilities {
        return Ok(writeln!(stdout(), "{}", capabilities::json())?);
    }
    let file = arguments.configuration()?;
    if arguments.print_config {
        return Ok(write!(stdout(), "{}", file.to_toml()?)?);
    }
    if arguments.check_config {
        let sockets: Vec<_> =
            arguments.socket_path.iter().map(PathBuf::as_path).map(Some).collect();
        if !sockets.is_empty() {
            file.config.check_sockets(&sockets).map_err(|fault| file.error(fault))?;
        }
        return Ok(());
    }
    let config = &file.config;
    let limit = config.line_limit();
    let log = daemon::Log { suppressed: limit.suppressed(), shares: limit.shares() };
    log::start(&config.log.filter, arguments.log_format, limit)?;
    hardening::give_up_code();
    let control = config.control.socket().map(ControlSocket::listen).transpose()?;
    let group = config.control.group().map(access::group).transpose();
    let group = group.context("control.operator_group")?;
    let operator = config.control.operator_socket();
    let operator = operator.map(|path| OperatorSocket::listen(path, group)).transpose()?;
    let tools = daemon::ToolSockets { control, operator };
    let mut inherited = manager::sockets()?;
    let named = arguments.fd.iter().map(|&fd| Inherited { fd, origin: "--fd".into() });
    inherited.extend(named);
    let mut endpoints = socket::inherit(inherited)?;
    for path in &arguments.socket_path {
        endpoints.push(socket::listen(path, arguments.access())?);
    }
    if endpoints.is_empty() {
        bail!("there is no socket to serve; name one with --socket-path, see --help");
    }
    let sockets: Vec<_> = endpoints.iter().map(|endpoint| endpoint.address.as_deref()).collect();
    config.check_sockets(&sockets).map_err(|fault| file.error(fault))?;
    let usable = processors::usable().context("cannot query this process's processors")?;
    config.check_processors(&usable).map_err(|fault| file.error(fault))?;
    let worker = Worker::of_words(&arguments.worker).unwrap_or(worker);
    daemon::run(config, endpoints, tools, worker, log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn a_standard_stream_is_no_endpoint() {
        assert!(Arguments::try_parse_from(["bellhopd", "--fd", "2"]).is_err());
        assert!(Arguments::try_parse_from(["bellhopd", "--fd", "3"]).is_ok());
    }

    #[test]
    fn the_help_says_how_to_see_every_default() {
        let help = command().render_long_help().to_string();
        assert!(help.contains("bellhopd --print-config"));
        let arguments = Arguments::try_parse_from(["bellhopd", "--print-config"]).unwrap();
        assert!(arguments.print_config);
    }

    #[test]
    fn groups_and_modes_that_cannot_be_are_refused() {
        for refused in [
            ["--socket-mode", "1777"],
            ["--socket-mode", "rw"],
            ["--socket-mode", "8"],
            ["--socket-group", "no such group"],
        ] {
            assert!(Arguments::try_parse_from(["bellhopd"].iter().chain(&refused)).is_err());
        }
    }
}
