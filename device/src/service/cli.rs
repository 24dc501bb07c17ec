//! The command line of `bellhopd`.

use super::config::Config;
use super::socket::{self, Endpoint};
use super::{capabilities, daemon};
use anyhow::Context;
use clap::{ArgGroup, Parser};
use rustix::fd::RawFd;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Serves virtual GPUs to VMs and containers over vhost-user.
///
/// Each socket serves one guest at a time and the next one when that has gone; name several for
/// several guests at once. The daemon stays in the foreground, logs to standard error and ends at
/// SIGTERM or SIGINT.
#[derive(Debug, Parser)]
#[command(
    name = "bellhopd",
    version,
    group(ArgGroup::new("endpoint").required(true).multiple(true)
        .args(["socket_path", "fd", "print_capabilities"])),
    after_help = "\
Examples:
  bellhopd --socket-path /run/bellhop/vm0.sock
  bellhopd --socket-path a.sock --socket-path b.sock --config /etc/bellhop/bellhopd.toml

With QEMU 11 or newer, and guest memory that is shared:
  qemu-system-x86_64 -M q35 -m 2G \\
    -object memory-backend-memfd,id=mem,size=2G,share=on -numa node,memdev=mem \\
    -chardev socket,id=gpu,path=/run/bellhop/vm0.sock \\
    -device vhost-user-test-device-pci,virtio-id=39,num_vqs=2,vq_size=64,config_size=64,chardev=gpu

Configuration (TOML; these are the defaults):
  [adapter]
  copy_nodes = 2            # SDMA engines beside the 3D/compute engine
  physical_doorbells = 64   # watched at once, shared by all guests
  spin_us = 50              # how long an idle engine looks for work before it sleeps
  page_table_mib = 64       # for all guests
  [guest]
  doorbells = 1024          # HW queues for user-mode submission
  fences = 4096
  local_memory_mib = 64
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
    /// Read the configuration from this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print what this back end can do as JSON, and exit
    #[arg(long)]
    print_capabilities: bool,
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
            ExitCode::FAILURE
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
    start_log(&config)?;
    let mut endpoints = Vec::new();
    for path in &arguments.socket_path {
        endpoints.push(socket::listen(path)?);
    }
    for &fd in &arguments.fd {
        endpoints.push(Endpoint::inherit(fd)?);
    }
    daemon::run(&config, endpoints)
}

fn start_log(config: &Config) -> anyhow::Result<()> {
    let filter = std::env::var("BELLHOP_LOG").unwrap_or_else(|_| config.log.filter.clone());
    let filter = EnvFilter::try_new(&filter)
        .with_context(|| format!("log filter {filter:?} cannot be read; try \"info\""))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn an_endpoint_is_required() {
        assert!(Arguments::try_parse_from(["bellhopd"]).is_err());
        assert!(Arguments::try_parse_from(["bellhopd", "--fd", "2"]).is_err());
        assert!(Arguments::try_parse_from(["bellhopd", "--fd", "3"]).is_ok());
    }

    #[test]
    fn the_help_shows_the_default_configuration() {
        let help = Arguments::command().render_long_help().to_string();
        let start = help.find("  [adapter]").unwrap();
        let shown: Config = toml::from_str(&help[start..]).unwrap();
        assert_eq!(shown, Config::default());
    }
}
