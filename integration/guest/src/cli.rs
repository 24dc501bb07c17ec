//! The command line of `bellhop-guest`.

use crate::conformance;
use crate::fake_guest::{FakeGuest, GuestOptions};
use crate::guest::Guest;
use crate::jobs::{self, RunOptions};
use anyhow::Context;
use bellhop_guest_umd::transport::virtio_pci::{self, Options, PciAddress, VirtioPci};
use clap::{Args, CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// What a guest does with its Bellhop GPU.
#[derive(Debug, Parser)]
#[command(
    name = "bellhop-guest",
    version,
    after_help = "\
Examples:
  bellhop-guest run                                       the main job, in a VM
  bellhop-guest --socket-path /run/bellhop/gpu.sock run   the main job, in a container
  bellhop-guest --socket-path gpu.sock selftest doorbell  the behaviours named like \"doorbell\""
)]
struct Cli {
    #[command(flatten)]
    device: DeviceArguments,
    #[command(subcommand)]
    work: Work,
}

/// Where the device is. In a VM it is found by itself.
#[derive(Debug, Args)]
struct DeviceArguments {
    /// The socket of a bellhopd: stands for a VMM and a guest's kernel
    #[arg(long, value_name = "PATH", env = "BELLHOP_SOCKET")]
    socket_path: Option<PathBuf>,
    /// The VM's PCI device, such as 0000:01:00.0; the first Bellhop GPU by default
    #[arg(long, value_name = "ADDRESS", conflicts_with = "socket_path")]
    pci: Option<PciAddress>,
    /// End when the process that started this one does
    #[arg(long, hide = true)]
    end_with_parent: bool,
}

#[derive(Debug, Subcommand)]
enum Work {
    /// Do real work through doorbells: stream a file through the GPU, verify it, report
    Run(RunArguments),
    /// Check what every guest may rely on
    ///
    /// Tries one named behaviour after another over this guest's transport. Exits with 1 when one
    /// fails.
    Selftest(SelftestArguments),
}

/// What the main job does.
#[derive(Debug, Clone, Args)]
// Its name must not meet that of a command that flattens it.
#[group(skip)]
pub struct RunArguments {
    /// The file to stream; this program's own executable by default
    #[arg(long, value_name = "PATH")]
    input: Option<PathBuf>,
    /// Size of a chunk in KiB
    #[arg(long, value_name = "KIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(4..=65_536))]
    chunk: u64,
    /// How many small submissions to time through a doorbell
    #[arg(long, value_name = "COUNT", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    samples: u64,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

/// Which behaviours are tried.
#[derive(Debug, Clone, Args)]
// Its name must not meet that of a command that flattens it.
#[group(skip)]
pub struct SelftestArguments {
    /// Only behaviours whose name contains this
    filter: Option<String>,
    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
    /// Print the behaviours, and do not run them
    #[arg(long)]
    list: bool,
}

/// The command line, for man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs `bellhop-guest`. Errors go to standard error, a line each.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match work(Cli::parse_from(arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bellhop-guest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the work succeeded.
fn work(cli: Cli) -> anyhow::Result<bool> {
    if let Work::Selftest(suite @ SelftestArguments { list: true, .. }) = &cli.work {
        return suite.print_list().map(|()| true);
    }
    let guest = cli.device.guest()?;
    match cli.work {
        Work::Run(arguments) => {
            let report = jobs::run(guest, &arguments.options()?)?;
            match arguments.json {
                true => println!("{}", serde_json::to_string(&report)?),
                false => print!("{report}"),
            }
            Ok(report.verified)
        }
        Work::Selftest(SelftestArguments { filter, json, .. }) => {
            let report = conformance::run(guest, filter.as_deref(), !json)?;
            if json {
                println!("{}", serde_json::to_string(&report)?);
            }
            Ok(report.passed())
        }
    }
}

impl DeviceArguments {
    fn guest(&self) -> anyhow::Result<Arc<dyn Guest>> {
        if self.end_with_parent {
            let signal = rustix::process::Signal::TERM;
            rustix::process::set_parent_process_death_signal(Some(signal))
                .context("cannot follow the parent process")?;
        }
        match &self.socket_path {
            Some(path) => over_socket(path),
            None => over_pci(self.pci),
        }
    }
}

fn over_socket(path: &Path) -> anyhow::Result<Arc<dyn Guest>> {
    let guest = FakeGuest::connect(path, GuestOptions::default())
        .with_context(|| format!("the guest cannot reach its device at {}", path.display()))?;
    Ok(guest)
}

fn over_pci(address: Option<PciAddress>) -> anyhow::Result<Arc<dyn Guest>> {
    let address = match address {
        Some(address) => address,
        None => *virtio_pci::discover()?.first().context(
            "this machine has no Bellhop GPU; in a container, name a bellhopd's socket with \
             --socket-path",
        )?,
    };
    let guest = VirtioPci::open(address, Options::default())
        .with_context(|| format!("cannot use the device at {address}"))?;
    Ok(guest)
}

impl RunArguments {
    fn options(&self) -> anyhow::Result<RunOptions> {
        let input = match &self.input {
            Some(path) => path.clone(),
            None => std::env::current_exe().context("cannot find this program's executable")?,
        };
        Ok(RunOptions { input, chunk: self.chunk * 1024, samples: self.samples })
    }

    /// The same as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["run".into()];
        if let Some(input) = &self.input {
            // In one word, so that a name may begin with a dash.
            let mut option = OsString::from("--input=");
            option.push(input);
            line.push(option);
        }
        line.extend(["--chunk".into(), self.chunk.to_string().into()]);
        line.extend(["--samples".into(), self.samples.to_string().into()]);
        line.extend(self.json.then(|| "--json".into()));
        line
    }
}

impl SelftestArguments {
    /// The same as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["selftest".into()];
        line.extend(self.json.then(|| "--json".into()));
        line.extend(self.list.then(|| "--list".into()));
        if let Some(filter) = &self.filter {
            line.extend(["--".into(), filter.into()]);
        }
        line
    }

    /// Whether the behaviours are only to be named: no device is needed then.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.list
    }

    /// Prints the names.
    ///
    /// # Errors
    /// When the filter selects none.
    pub fn print_list(&self) -> anyhow::Result<()> {
        print!("{}", conformance::list(self.filter.as_deref(), self.json)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn arguments_come_back_from_their_command_line() {
        let parse = |line: Vec<OsString>| {
            let start = ["bellhop-guest", "--socket-path", "s"].map(OsString::from);
            Cli::parse_from(start.into_iter().chain(line)).work
        };
        let run = RunArguments { input: Some("-f".into()), chunk: 4, samples: 7, json: true };
        let Work::Run(back) = parse(run.to_command_line()) else { panic!("another command") };
        assert_eq!(format!("{run:?}"), format!("{back:?}"));
        let filter = Some("-x".into());
        let selftest = SelftestArguments { filter, json: true, list: false };
        let Work::Selftest(back) = parse(selftest.to_command_line()) else {
            panic!("another command")
        };
        assert_eq!(format!("{selftest:?}"), format!("{back:?}"));
    }
}
