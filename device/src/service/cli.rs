//! The command line of `bellhopd`.

use super::config::{Config, ConfigError};
use super::control::ControlSocket;
use super::socket::{self, Inherited};
use super::{capabilities, daemon, manager};
use crate::log;
use anyhow::bail;
use clap::{CommandFactory, Parser};
use rustix::fd::RawFd;
use std::path::PathBuf;
use std::process::ExitCode;

/// Serves virtual GPUs to VMs and containers over vhost-user.
///
/// Each socket serves one guest at a time and the next one when that has gone; name several for
/// several guests at once. The daemon stays in the foreground, logs to standard error and ends at
/// SIGTERM or SIGINT. From a systemd socket unit it takes the sockets over (LISTEN_FDS), and it
/// tells systemd when it is ready (NOTIFY_SOCKET). It exits with 78 when the configuration cannot
/// be used.
#[derive(Debug, Parser)]
#[command(
    name = "bellhopd",
    version,
    after_help = "\
Examples:
  bellhopd --socket-path /run/bellhop/vm0.sock
  bellhopd --socket-path a.sock --socket-path b.sock --config /etc/bellhop/bellhop.toml

With QEMU 11 or newer, and guest memory that is shared:
  qemu-system-x86_64 -M q35 -m 2G \\
    -object memory-backend-memfd,id=mem,size=2G,share=on -numa node,memdev=mem \\
    -chardev socket,id=gpu,path=/run/bellhop/vm0.sock \\
    -device vhost-user-test-device-pci,virtio-id=39,num_vqs=2,vq_size=64,config_size=64,chardev=gpu

Configuration (TOML; these are the defaults):
  [adapter]
  copy_nodes = 2            # SDMA engines beside the 3D/compute engine
  physical_doorbells = 64   # watched at once, shared by all guests
  doorbell_model = \"dedicated\"   # or \"global\": one for all queues of a guest
  rotation = \"watch\"      # or \"remap\": the VMM moves doorbells' pages
  spin_us = 50              # how long an idle engine looks for work before it sleeps
  page_table_mib = 64       # for all guests
  [guest]
  doorbells = 1024          # HW queues for user-mode submission
  fences = 16384
  local_memory_mib = 64
  [control]
  socket = \"\"               # or a path, where bellhop inspect connects
  [log]
  filter = \"info\"           # BELLHOP_LOG in the environment comes before it"
)]
pub struct Arguments {
    /// Listen on a Unix socket at this path; may be given several times
    #[arg(long, value_name = "PATH")]
    socket_path: Vec<PathBuf>,
    /// Use an inherited socket, one that listens or one that is connected already; may be given
    /// several times
    #[arg(long, value_name = "FDNUM", value_parser = clap::value_parser!(RawFd).range(3..))]
    fd: Vec<RawFd>,
    /// Let `bellhop inspect` connect at this path: this user alone, or root
    #[arg(long, value_name = "PATH")]
    control_socket: Option<PathBuf>,
    /// Read the configuration from this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print what this back end can do as JSON, and exit
    #[arg(long)]
    print_capabilities: bool,
}

/// The exit status for a configuration that cannot be used (`EX_CONFIG` of `sysexits.h`), so that
/// a service manager knows that it need not try again.
const CONFIGURATION_FAULT: u8 = 78;

/// The command line, for man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs `bellhopd` with these arguments, the program's name first. Errors go to standard error,
/// a line each.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors, and go to standard output.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bellhopd: {error:#}");
            match error.is::<ConfigError>() {
                true => ExitCode::from(CONFIGURATION_FAULT),
                false => ExitCode::FAILURE,
            }
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    if arguments.print_capabilities {
        println!("{}", capabilities::json());
        return Ok(());
    }
    let config = match &arguments.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    log::start(&config.log.filter, config.line_limit())?;
    let path = arguments.control_socket.or(config.control.socket());
    let control = path.as_deref().map(ControlSocket::listen).transpose()?;
    let mut inherited = manager::sockets()?;
    let named = arguments.fd.iter().map(|&fd| Inherited { fd, origin: "--fd".into() });
    inherited.extend(named);
    let mut endpoints = socket::inherit(inherited)?;
    for path in &arguments.socket_path {
        endpoints.push(socket::listen(path)?);
    }
    if endpoints.is_empty() {
        bail!("there is no socket to serve; name one with --socket-path, see --help");
    }
    daemon::run(&config, endpoints, control)
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
    fn the_help_shows_the_default_configuration() {
        let help = command().render_long_help().to_string();
        let start = help.find("  [adapter]").unwrap();
        let shown: Config = toml::from_str(&help[start..]).unwrap();
        assert_eq!(shown, Config::default());
    }
}
