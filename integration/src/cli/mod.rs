// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `bellhop`.

mod cdi;
mod container;
mod harness;
mod inspect;
pub mod manual;
mod trace;
mod vm;

use crate::bench;
use crate::hosted::{self, Outcome};
use bellhop_guest::output;
use bellhop_guest::processors::{self, Apart};
use bellhop_processes::process;
use cdi::CdiArguments;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use container::ContainerArguments;
use harness::HarnessArguments;
use inspect::InspectArguments;
use manual::Program;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use trace::TraceArguments;
use vm::VmArguments;

/// A virtual GPU that guests submit to with plain memory stores.
///
/// Without a command, `bellhop` does what `bellhop run` does.
#[derive(Debug, Parser)]
#[command(
    name = "bellhop",
    version = bellhop_guest::machine::version(),
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  bellhop                                  the main job, on bellhop's own executable
  bellhop run --input disk.img --json      the main job on a file, the report as JSON
  bellhop selftest doorbell                the behaviours whose names contain \"doorbell\"
  bellhop selftest --list                  what the conformance suite checks
  bellhop selftest --socket-path gpu.sock  against a bellhopd that runs already
  bellhop vm -- selftest                   the conformance suite inside a virtual machine
  bellhop container -- selftest            the same inside a container
  bellhop harness --list                   scenarios with many guests, and your own
  bellhop daemon -- --help                 bellhopd, which is part of this executable
  bellhop inspect --watch                  what a running bellhopd's guests have
  bellhop trace -o run.pftrace -- run      the main job as a timeline for ui.perfetto.dev"
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
    /// Say what a guest is offered, what accesses cost it, and where things are placed and why
    Probe(ProbeArguments),
    /// Measure what submitting costs a guest, beside what it could cost at least
    ///
    /// Starts a bellhopd for each thing that needs one of its own, and guests. Without --socket-path
    /// and --config all suites are measured, otherwise those that need nothing of the configuration.
    /// Whatever is compared is measured in the same repetition, so that other load changes both;
    /// a quiet machine with two processors to spare is better still.
    Bench(BenchArguments),
    /// Do the same, or anything else that a guest can, in a virtual machine
    ///
    /// Boots a Debian kernel in stock QEMU with the device attached, runs bellhop-guest in it,
    /// passes its output and exit status on, and powers off. What is missing is fetched from
    /// Debian once: about 40 MB for QEMU unless this machine has version 11 or newer, and 35 or
    /// 55 MB for a kernel. Nothing is installed, and no privileges are needed.
    Vm(VmArguments),
    /// Do the same in a container that has its device's socket and nothing else
    ///
    /// Starts a bellhopd, builds an image from bellhop-guest alone, and runs it with podman:
    /// without network or capabilities, on a read-only root, as a user that the host does not
    /// know. Nothing is left of any of it. What this host needs, and why, is said on standard
    /// error.
    Container(ContainerArguments),
    /// Let guests act as a file says, on a real device, and check what comes of it
    ///
    /// Tests a driver, a scheduler policy or a power policy without a VM. A scenario
    /// describes guests, their queues and what is submitted to them, what happens to them and
    /// when, and what must hold at the end; its guests prove by what the GPU wrote that each
    /// submission was executed once and in order.
    Harness(HarnessArguments),
    /// Show what there is on a running bellhopd: guests, queues, doorbells, memory, power
    ///
    /// Asks a bellhopd that has a --control-socket for its objects, and prints them as a tree with
    /// each engine's run list, or as JSON. Guests do not notice. Within a guest, `bellhop-guest
    /// inspect` shows that guest's own.
    Inspect(InspectArguments),
    /// Record what engines and queues do, for the Perfetto trace viewer
    ///
    /// Writes a timeline: for each engine its power, and for each hardware queue its doorbell's states, the
    /// waits and signals of its fences with their values, and each submission from when the driver queued
    /// it until it was done. Records a bellhopd that has a --control-socket, until Ctrl-C, or a run that it
    /// starts itself. While it records, drivers log every fence, which costs each submission a little.
    Trace(TraceArguments),
    /// Name devices for container engines: podman run --device bellhop.local/gpu=0
    Cdi(CdiArguments),
    /// Print what a shell reads to complete command lines
    #[command(after_help = "\
Examples:
  bellhop completions bash > ~/.local/share/bash-completion/completions/bellhop
  bellhop completions zsh --program bellhopd")]
    Completions {
        /// The shell
        shell: Shell,
        /// Whose command lines
        #[arg(long, value_enum, default_value_t = Program::Bellhop)]
        program: Program,
    },
    /// Print a page of the manual: bellhop man vm | man -l -
    Man {
        /// The command, such as cdi generate; bellhop itself by default
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// bellhopd, as part of this executable
    #[command(hide = true, disable_help_flag = true)]
    Daemon {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// bellhop-guest, as part of this executable
    #[command(hide = true, disable_help_flag = true)]
    Guest {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
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
    #[command(flatten)]
    place: bellhop_guest::cli::PlaceArguments,
}

#[derive(Debug, Clone, Args)]
struct ProbeArguments {
    #[command(flatten)]
    probe: bellhop_guest::cli::ProbeArguments,
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Debug, Clone, Args)]
struct BenchArguments {
    #[command(flatten)]
    bench: bellhop_guest::cli::BenchArguments,
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Debug, Clone, Args)]
struct RunArguments {
    #[command(flatten)]
    job: bellhop_guest::cli::RunArguments,
    /// Whether guest and bellhopd get processors of their own
    #[arg(long, value_enum, default_value_t = Pin::Apart)]
    pin: Pin,
    #[command(flatten)]
    host: HostArguments,
}

/// Which thread runs on which processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Pin {
    /// The guest on the first, the bellhopd that is started on the others
    Apart,
    /// Both on all
    No,
}

#[derive(Debug, Clone, Args)]
struct SelftestArguments {
    #[command(flatten)]
    suite: bellhop_guest::cli::SelftestArguments,
    #[command(flatten)]
    host: HostArguments,
}

impl BenchArguments {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let Self { bench, host } = self;
        if host.socket_path.is_some() || host.config.is_some() {
            return hosted(host, None, bench.to_command_line());
        }
        bench::run(bench, &host.place).map(Outcome::exit_code)
    }
}

impl RunArguments {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let Self { job, pin, host } = self;
        let mut apart = Apart::find().filter(|_| *pin == Pin::Apart);
        let pinning = match (&host.socket_path, pin, apart) {
            (Some(path), ..) => {
                apart = None;
                format!("not pinned: the bellhopd at {} runs already", path.display())
            }
            (None, Pin::No, _) => "not pinned, as --pin no says".to_owned(),
            (None, Pin::Apart, Some(apart)) => apart.to_string(),
            (None, Pin::Apart, None) => format!(
                "guest and bellhopd share {}: this run may use one only",
                processors::allowed().first().map_or_else(String::new, |first| format!("{first}"))
            ),
        };
        hosted(host, apart, job.pinned(pinning).to_command_line())
    }
}

/// The command line, for man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs `bellhop`. Errors go to standard error, a line each.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Probe(ProbeArguments { probe, host }) => {
            hosted(&host, None, probe.to_command_line())
        }
        Command::Bench(arguments) => arguments.run(),
        Command::Run(arguments) => arguments.run(),
        Command::Selftest(SelftestArguments { suite, .. }) if suite.is_list() => {
            suite.print_list().map(|()| ExitCode::SUCCESS)
        }
        Command::Selftest(SelftestArguments { suite, host }) => {
            hosted(&host, None, suite.to_command_line())
        }
        Command::Vm(arguments) => arguments.run(),
        Command::Container(arguments) => arguments.run(),
        Command::Harness(arguments) => arguments.run(),
        Command::Inspect(arguments) => arguments.run().map(|()| ExitCode::SUCCESS),
        Command::Trace(arguments) => arguments.run(),
        Command::Cdi(arguments) => arguments.run().map(|()| ExitCode::SUCCESS),
        Command::Completions { shell, program } => completions(shell, program),
        Command::Man { words } => man(&words),
        Command::Daemon { arguments } => {
            return match process::end_with_parent() {
                Ok(()) => bellhop_device::service::cli::main(
                    std::iter::once("bellhopd".into()).chain(arguments),
                ),
                Err(error) => fail(&error),
            };
        }
        Command::Guest { arguments } => {
            return bellhop_guest::cli::main(
                std::iter::once("bellhop-guest".into()).chain(arguments),
            );
        }
    };
    match result {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

fn completions(shell: Shell, program: Program) -> anyhow::Result<ExitCode> {
    let script = String::from_utf8(manual::completions(&program.command(), shell))?;
    output::put(script)?;
    Ok(ExitCode::SUCCESS)
}

fn man(words: &[String]) -> anyhow::Result<ExitCode> {
    output::put(manual::page(words)?.text)?;
    Ok(ExitCode::SUCCESS)
}

fn fail(error: &anyhow::Error) -> ExitCode {
    output::failure("bellhop", error)
}

fn hosted(
    host: &HostArguments,
    apart: Option<Apart>,
    work: Vec<OsString>,
) -> anyhow::Result<ExitCode> {
    let guest = [host.place.to_command_line(), work].concat();
    let outcome = match &host.socket_path {
        Some(path) => hosted::run_guest(path, &guest)?,
        None => hosted::run(host.config.as_deref(), apart, &guest)?,
    };
    Ok(outcome.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn without_a_command_it_is_the_main_job() {
        let cli = Cli::parse_from(["bellhop", "--input", "file", "--json"]);
        assert!(cli.command.is_none() && format!("{:?}", cli.run).contains("json: true"));
    }
}
