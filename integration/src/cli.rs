//! The command line of `bellhop`.

use crate::conformance;
use crate::fake_guest::{FakeGuest, GuestOptions};
use crate::hosted::{self, Outcome};
use crate::jobs::{self, RunOptions};
use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A virtual GPU that guests submit to with plain memory stores.
///
/// Without a command, `bellhop` does what `bellhop run` does.
#[derive(Debug, Parser)]
#[command(
    name = "bellhop",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  bellhop                                  the main job, on bellhop's own executable
  bellhop run --input disk.img --json      the main job on a file, the report as JSON
  bellhop selftest doorbell                the behaviours whose names contain \"doorbell\"
  bellhop selftest --list                  what the conformance suite checks
  bellhop selftest --socket-path gpu.sock  against a bellhopd that runs already"
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Do real work through doorbells: stream a file through the GPU, verify it, report
    ///
    /// Starts a bellhopd and a guest as two further processes. The guest reads the file in
    /// chunks and, over several HW queues of the compute and copy nodes at once, has each copied
    /// into local memory, transformed, hashed and copied out, the stages ordered by GPU fences.
    /// The result is compared with the guest's own computation byte for byte. Then it times small
    /// submissions through a doorbell and through the control queue.
    Run(RunArguments),
    /// Check what every guest may rely on, from inside a guest
    ///
    /// Starts a bellhopd and a guest; the guest tries one named behaviour after another over its
    /// own transport. Exits with 1 when one fails.
    Selftest(SelftestArguments),
    /// bellhopd, as part of this executable
    #[command(hide = true, disable_help_flag = true)]
    Daemon {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// A guest process
    #[command(hide = true)]
    Guest {
        /// The socket of its bellhopd
        #[arg(long)]
        socket_path: PathBuf,
        #[command(subcommand)]
        work: GuestWork,
    },
}

#[derive(Debug, Subcommand)]
enum GuestWork {
    Run(RunArguments),
    Selftest(SelftestArguments),
}

/// Where the device is.
#[derive(Debug, Clone, Args)]
struct HostArguments {
    /// Use the bellhopd that listens on this socket instead of starting one
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    socket_path: Option<PathBuf>,
    /// Configuration file for the bellhopd that is started
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
struct RunArguments {
    /// The file to stream; bellhop's own executable by default
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
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Debug, Clone, Args)]
struct SelftestArguments {
    /// Only behaviours whose name contains this
    filter: Option<String>,
    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
    /// Print the behaviours, and do not run them
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    host: HostArguments,
}

/// Runs `bellhop`. Errors go to standard error, a line each.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Run(arguments) => host_run(&arguments),
        Command::Selftest(arguments) => host_selftest(&arguments),
        Command::Daemon { arguments } => {
            return match hosted::end_with_parent() {
                Ok(()) => bellhop_device::service::cli::main(
                    std::iter::once("bellhopd".into()).chain(arguments),
                ),
                Err(error) => fail(&error),
            };
        }
        Command::Guest { socket_path, work } => guest(&socket_path, work),
    };
    match result {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("bellhop: {error:#}");
    ExitCode::FAILURE
}

fn host_run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let mut guest: Vec<OsString> = vec!["run".into()];
    let input = arguments.input()?;
    guest.extend(["--input".into(), input.into()]);
    guest.extend(["--chunk".into(), arguments.chunk.to_string().into()]);
    guest.extend(["--samples".into(), arguments.samples.to_string().into()]);
    guest.extend(arguments.json.then(|| "--json".into()));
    hosted(&arguments.host, guest)
}

fn host_selftest(arguments: &SelftestArguments) -> anyhow::Result<ExitCode> {
    if arguments.list {
        print!("{}", conformance::list(arguments.filter.as_deref(), arguments.json)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut guest: Vec<OsString> = vec!["selftest".into()];
    guest.extend(arguments.json.then(|| "--json".into()));
    if let Some(filter) = &arguments.filter {
        guest.extend(["--".into(), filter.into()]);
    }
    hosted(&arguments.host, guest)
}

fn hosted(host: &HostArguments, guest: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let outcome = match &host.socket_path {
        Some(path) => hosted::run_guest(path, &guest)?,
        None => hosted::run(host.config.as_deref(), &guest)?,
    };
    Ok(match outcome {
        Outcome::Succeeded => ExitCode::SUCCESS,
        Outcome::Failed => ExitCode::FAILURE,
        // As a shell reports a program that a signal ended.
        Outcome::Interrupted => ExitCode::from(130),
    })
}

fn guest(socket_path: &Path, work: GuestWork) -> anyhow::Result<ExitCode> {
    hosted::end_with_parent()?;
    let guest = FakeGuest::connect(socket_path, GuestOptions::default()).with_context(|| {
        format!("the guest cannot reach its device at {}", socket_path.display())
    })?;
    let succeeded = match work {
        GuestWork::Run(arguments) => {
            let options = RunOptions {
                input: arguments.input()?,
                chunk: arguments.chunk * 1024,
                samples: arguments.samples,
            };
            let report = jobs::run(guest, &options)?;
            match arguments.json {
                true => println!("{}", serde_json::to_string(&report)?),
                false => print!("{report}"),
            }
            report.verified
        }
        GuestWork::Selftest(arguments) => {
            let report = conformance::run(&guest, arguments.filter.as_deref(), !arguments.json)?;
            if arguments.json {
                println!("{}", serde_json::to_string(&report)?);
            }
            report.passed()
        }
    };
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl RunArguments {
    fn input(&self) -> anyhow::Result<PathBuf> {
        match &self.input {
            Some(path) => Ok(path.clone()),
            None => std::env::current_exe().context("cannot find bellhop's own executable"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_a_command_it_is_the_main_job() {
        let cli = Cli::parse_from(["bellhop", "--input", "file", "--json"]);
        assert!(cli.command.is_none() && cli.run.json);
    }
}
