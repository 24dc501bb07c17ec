// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `bellhop`.

mod cdi;
mod container;
mod ctl;
mod harness;
mod inspect;
mod link;
pub mod manual;
mod program;
mod screen;
mod trace;
mod vm;
mod vulkan;

use crate::bench;
use crate::hosted::{self, Outcome, WORKER};
use crate::hostile_worker;
use crate::vulkan::{figures, named, peers};
use anyhow::Context as _;
use bellhop_device::cgroup;
use bellhop_device::service::Worker;
use bellhop_guest::bench::REGRESSED;
use bellhop_guest::output;
use bellhop_guest::processors::{self, Apart};
use bellhop_processes::{daemon, process};
use bellhop_worker::HAS_ASSEMBLY;
use cdi::CdiArguments;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use container::ContainerArguments;
use ctl::CtlArguments;
use harness::HarnessArguments;
use inspect::InspectArguments;
use link::LinkArguments;
use manual::Program;
use program::{ProgramArguments, SuiteArguments};
use screen::ScreenArguments;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::TraceArguments;
use vm::VmArguments;
use vulkan::{VulkanArguments, Whose};

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
  bellhop selftest --socket-path gpu.sock  the suite against a bellhopd that already runs
  bellhop kernel double.wgsl --in a --out b  your own kernel on a file
  bellhop picture                          a picture that a kernel draws
  bellhop vulkan -- ./program              a program that uses the GPU through Vulkan
  bellhop vm -- selftest                   the conformance suite in a virtual machine
  bellhop container -- selftest            the conformance suite in a container
  bellhop harness --list                   the scenarios with many guests
  bellhop daemon -- --help                 bellhopd, which is part of this executable
  bellhop inspect --watch                  the objects of a running bellhopd's guests
  bellhop ctl suspend vm0.sock             nothing of that guest executes
  bellhop screen capture --png screen.png  what a guest shows
  bellhop link frames                      two GPUs as one: frames in turns
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
    /// chunks. The GPU copies each chunk into local memory, transforms it, hashes it and copies
    /// it out, on several HW queues of the compute and copy nodes at once; GPU fences order the
    /// stages. The guest compares every byte with its own computation. Then it times small
    /// submissions through a doorbell and through the control queue.
    ///
    /// The transformation is a kernel of the guest's own, which this machine's Vulkan runs, or where
    /// there is none, one that is built in. The report says which, and why.
    Run(RunArguments),
    /// Check what every guest may rely on, from inside a guest
    ///
    /// Starts a bellhopd and a guest. The guest tries one named behaviour after another over its
    /// own transport. Exits with 1 if one fails.
    Selftest(SelftestArguments),
    /// Show what the device offers a guest, what accesses cost, where shared memory is placed and why, and what
    /// this machine has to run kernels with
    ///
    /// Kernels are to run with Vulkan. Each of this machine's Vulkan devices is tried, since some compute wrongly.
    Probe(ProbeArguments),
    /// Run your own kernel, in SPIR-V or WGSL, on files
    ///
    /// Starts a bellhopd and a guest. The guest has the kernel compiled, gives it the files as buffers, runs it
    /// through a doorbell, and writes what it made. A mistake in the kernel costs nothing but that run: the compiler's
    /// words, or the address of a wrong access, are shown.
    Kernel(KernelArguments),
    /// Draw a picture with a kernel, compare it with the processor's, and write it as PNG
    ///
    /// Starts a bellhopd and a guest. The guest has a kernel in WGSL march along the ray of each pixel, and computes
    /// the same on its processor. Exits with 1 if the pictures differ by more than rounding.
    Picture(PictureArguments),
    /// Run a program that uses the GPU through Vulkan
    ///
    /// Starts a bellhopd, and the program with Bellhop's Vulkan driver and no other: what it computes is submitted with
    /// plain memory stores. It computes and draws, into windows and onto the guest's display.
    Vulkan(ProgramArguments),
    /// Decode an AV1 video on the GPU, or encode one
    ///
    /// Starts a bellhopd with video nodes, unless --config or --socket-path says where there are some, and a guest.
    /// Prints a table of the pictures: their times, bytes, and how long each took.
    Video(VideoArguments),
    /// Encrypt a file for a guest on its adapter, by the device's security node
    ///
    /// What is sealed opens for the guest of the same socket (--socket-path), as long as the device has the same root key:
    /// give it one with adapter.security_key. A bellhopd that this starts has a socket of its own each time.
    Seal(SealArguments),
    /// Decrypt a file that was sealed
    ///
    /// Fails if a byte of it was changed, or another guest sealed it. Without OUT, only says whether it is authentic.
    Open(OpenArguments),
    /// Ask the device for a signed statement about itself, or verify one
    ///
    /// A statement has the daemon's version and digests of its configuration, the adapter and the guest, over a nonce.
    /// With --verify, checks the one in a file.
    Attest(AttestArguments),
    /// Show an animation on a guest's display, and report what became of its frames
    ///
    /// Starts a bellhopd and a guest. Needs a configuration with a display (--config). To see the screen, start
    /// bellhopd yourself and watch it with `bellhop screen`.
    Present(PresentArguments),
    /// Work on several GPUs that a guest sees as one adapter: frames in turns, one large surface, power when needed
    ///
    /// Starts a bellhopd with a chain of two GPUs, unless --config or --socket-path says where there is one, and a guest.
    Link(LinkArguments),
    /// Measure what a submission costs, beside the least that it could cost
    ///
    /// Starts guests, and a bellhopd for each suite that needs its own. With --socket-path or
    /// --config, measures only the suites that work with any configuration. Figures that are
    /// compared come from the same repetition, so that other load affects both. For steady
    /// figures, use an idle machine with two free processors.
    #[command(after_help = "\
Examples:
  bellhop bench                                    everything, beside its floor
  bellhop bench round-trip batch --svg times.svg   some of it, drawn too
  bellhop bench --json --csv now.csv > now.json    for other programs
  bellhop bench --compare before.json              what moved since then
  bellhop bench --report now.json --compare before.json")]
    Bench(BenchArguments),
    /// Run any of a guest's commands in a virtual machine
    ///
    /// Boots a Debian kernel in stock QEMU with the device attached, runs bellhop-guest in it,
    /// passes on its output and exit status, and powers off. The first run fetches what is
    /// missing from Debian: about 40 MB for QEMU unless this machine has version 11 or newer, and
    /// 35 or 55 MB for a kernel. It installs nothing and needs no privileges.
    Vm(VmArguments),
    /// Run any of a guest's commands in a container that has its device's socket and nothing else
    ///
    /// Starts a bellhopd, builds an image from bellhop-guest alone, and runs it with podman:
    /// without network or capabilities, on a read-only root, as a user that does not exist on the
    /// host. Afterwards, removes the image and the container. Standard error says which options
    /// this host needs, and why.
    Container(ContainerArguments),
    /// Run scenarios: many guests on a real device, with faults and power events, and a verdict
    ///
    /// Tests a driver, a scheduler policy or a power policy without a VM. A scenario is a file
    /// that describes guests, their queues and submissions, the events that happen to them, and
    /// what must hold at the end. The guests prove from what the GPU wrote that it executed each
    /// submission once and in order.
    Harness(HarnessArguments),
    /// Show the objects of a running bellhopd: guests, queues, doorbells, memory, power
    ///
    /// Asks a bellhopd that has a --control-socket for its objects, and prints them as a tree with
    /// each engine's run list, or as JSON. This does not disturb guests. In a guest,
    /// `bellhop-guest inspect` shows that guest's own objects.
    Inspect(InspectArguments),
    /// Change guests and adapters while they run: suspend, fail, weights, power, monitors; drain and stop
    ///
    /// Asks a bellhopd that has an --operator-socket, as root, its own user or a member of its operator's group. Each
    /// change is logged with who asked, and shown by `bellhop inspect`.
    Ctl(CtlArguments),
    /// Show the displays of guests: pictures, recordings, VNC; plug and unplug their monitors
    ///
    /// Asks a bellhopd that has a --control-socket, and displays in its configuration.
    Screen(ScreenArguments),
    /// Record what engines and queues do, for the Perfetto trace viewer
    ///
    /// Writes a timeline. It shows the power state of each engine, and for each hardware queue the states of
    /// its doorbell, the waits and signals of its fences with their values, and each submission from when the
    /// driver queued it until it was done. Records a bellhopd that has a --control-socket, until Ctrl-C, or a
    /// run that it starts itself. While it records, drivers log every fence, which slows each submission a
    /// little.
    Trace(TraceArguments),
    /// Name devices for container engines: podman run --device bellhop.local/gpu=0
    Cdi(CdiArguments),
    /// Print the completions of command lines for a shell
    #[command(after_help = "\
Examples:
  bellhop completions bash > ~/.local/share/bash-completion/completions/bellhop
  bellhop completions zsh --program bellhopd")]
    Completions {
        /// The shell
        shell: Shell,
        /// The program whose command lines it completes
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
        /// Whose Vulkan runs kernels
        #[arg(long, value_enum, value_name = "WHOSE", default_value_t = Whose::System)]
        vulkan: Whose,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// bellhop-worker, as part of this executable
    #[command(hide = true, disable_help_flag = true)]
    Worker {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// A program in the place of a worker's that does what one might that is broken or taken over, for tests
    #[command(hide = true)]
    HostileWorker(hostile_worker::Arguments),
    /// Behaviours of this process's Vulkan, which `bellhop vulkan --selftest` runs
    #[command(hide = true, name = program::SUITE)]
    VulkanSuite(SuiteArguments),
    /// What submissions cost with this process's Vulkan, for `bellhop bench vulkan`
    #[command(hide = true, name = figures::FIGURES)]
    VulkanFigures(figures::Arguments),
    /// Two programs that take turns by semaphores of Vulkan, for tests
    #[command(hide = true, name = peers::PEERS)]
    VulkanPeers(peers::Arguments),
    /// A program that names its objects of Vulkan, for tests
    #[command(hide = true, name = named::NAMED)]
    VulkanNamed,
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
    /// The configuration file for the bellhopd that this starts
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Whose Vulkan runs kernels, in the bellhopd that this starts
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = Whose::System, conflicts_with = "socket_path")]
    vulkan: Whose,
    #[command(flatten)]
    place: bellhop_guest::cli::PlaceArguments,
}

#[derive(Debug, Clone, Args)]
struct ProbeArguments {
    #[command(flatten)]
    probe: bellhop_guest::cli::ProbeArguments,
    #[command(flatten)]
    vulkan: VulkanArguments,
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Debug, Clone, Args)]
struct KernelArguments {
    #[command(flatten)]
    kernel: bellhop_guest::cli::KernelArguments,
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Debug, Clone, Args)]
struct PictureArguments {
    #[command(flatten)]
    picture: bellhop_guest::cli::PictureArguments,
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Debug, Clone, Args)]
struct VideoArguments {
    #[command(flatten)]
    video: bellhop_guest::cli::VideoArguments,
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Debug, Clone, Args)]
struct SealArguments {
    #[command(flatten)]
    seal: bellhop_guest::cli::SealArguments,
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Debug, Clone, Args)]
struct OpenArguments {
    #[command(flatten)]
    open: bellhop_guest::cli::OpenArguments,
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Debug, Clone, Args)]
struct AttestArguments {
    #[command(flatten)]
    attest: bellhop_guest::cli::AttestArguments,
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Debug, Clone, Args)]
struct PresentArguments {
    #[command(flatten)]
    present: bellhop_guest::cli::PresentArguments,
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
    /// The guest runs on the first processor, its bellhopd on the others
    Apart,
    /// Both run on all processors
    No,
}

#[derive(Debug, Clone, Args)]
struct SelftestArguments {
    #[command(flatten)]
    suite: bellhop_guest::cli::SelftestArguments,
    #[command(flatten)]
    host: HostArguments,
}

impl ProbeArguments {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let Self { probe, vulkan, host } = self;
        let kernels = vulkan.report(host.vulkan)?;
        let cgroups = cgroup::of_machine();
        if probe.is_json() {
            let kernels = serde_json::to_value(&kernels)?;
            let codecs = serde_json::json!({ "assembly": HAS_ASSEMBLY });
            let probe = probe.beside(kernels, serde_json::to_value(&cgroups)?, codecs);
            return hosted(host, None, probe.to_command_line());
        }
        let code = hosted(host, None, probe.to_command_line())?;
        output::put(kernels)?;
        output::put_line(match cgroups.missing {
            None => format!("Cgroups for workers, with {}", cgroups.controllers.join(", ")),
            Some(why) => format!("No cgroups for workers: {why}"),
        })?;
        output::put_line(if HAS_ASSEMBLY {
            "Video with the codecs' assembly"
        } else {
            "Video without assembly; built with --features assembly, which takes nasm, it is faster"
        })?;
        Ok(code)
    }
}

impl BenchArguments {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let Self { bench, host } = self;
        if let Some(regressed) = bench.deliver_earlier()? {
            return Ok(if regressed { REGRESSED.into() } else { ExitCode::SUCCESS });
        }
        if host.socket_path.is_some() || host.config.is_some() {
            return hosted(host, None, bench.to_command_line());
        }
        bench::run(bench, &host.place, &host.vulkan.worker(None)?).map(Outcome::exit_code)
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
            (None, Pin::No, _) => "not pinned: --pin no".to_owned(),
            (None, Pin::Apart, Some(apart)) => apart.to_string(),
            (None, Pin::Apart, None) => format!(
                "guest and bellhopd share processor {}: this run may use no other",
                processors::allowed().first().map_or_else(String::new, |first| format!("{first}"))
            ),
        };
        hosted(host, apart, job.pinned(pinning).to_command_line())
    }
}

/// Runs the conformance suite, with somebody who looks at the guest's monitors if this starts the bellhopd.
fn selftest(
    suite: bellhop_guest::cli::SelftestArguments,
    host: &HostArguments,
) -> anyhow::Result<ExitCode> {
    let has_broker = suite.is_of_programs() || suite.is_behind_broker();
    if host.socket_path.is_some() || has_broker {
        return hosted(host, None, suite.to_command_line());
    }
    anyhow::ensure!(
        suite.control_socket().is_none(),
        "--control-socket is of a bellhopd that runs already: name its guest's --socket-path, too"
    );
    let folder = daemon::folder()?;
    let control = folder.path().join("control.sock");
    let work = suite.looked_at(control.clone()).to_command_line();
    hosted_beside(host, None, Some(&control), work)
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
        Command::Probe(arguments) => arguments.run(),
        Command::Bench(arguments) => arguments.run(),
        Command::Run(arguments) => arguments.run(),
        Command::Selftest(SelftestArguments { suite, .. }) if suite.is_list() => {
            suite.print_list().map(|()| ExitCode::SUCCESS)
        }
        Command::Selftest(SelftestArguments { suite, host }) => selftest(suite, &host),
        Command::Kernel(KernelArguments { kernel, host }) => {
            hosted(&host, None, kernel.to_command_line())
        }
        Command::Picture(PictureArguments { picture, host }) => {
            hosted(&host, None, picture.to_command_line())
        }
        Command::Video(VideoArguments { video, host }) => {
            with(&host, VIDEO_NODES, |host| hosted(host, None, video.to_command_line()))
        }
        Command::Vulkan(arguments) => arguments.run(),
        Command::Link(arguments) => arguments.run(),
        Command::Seal(SealArguments { seal, host }) => hosted(&host, None, seal.to_command_line()),
        Command::Open(OpenArguments { open, host }) => hosted(&host, None, open.to_command_line()),
        Command::Attest(AttestArguments { attest, host }) => match attest.verified() {
            Ok(true) => Ok(ExitCode::SUCCESS),
            Ok(false) => {
                with(&host, SECURITY_NODE, |host| hosted(host, None, attest.to_command_line()))
            }
            Err(error) => Err(error),
        },
        Command::Present(PresentArguments { present, host }) => {
            hosted(&host, None, present.to_command_line())
        }
        Command::Vm(arguments) => arguments.run(),
        Command::Container(arguments) => arguments.run(),
        Command::Harness(arguments) => arguments.run(),
        Command::Inspect(arguments) => arguments.run().map(|()| ExitCode::SUCCESS),
        Command::Screen(arguments) => arguments.run().map(|()| ExitCode::SUCCESS),
        Command::Trace(arguments) => arguments.run(),
        Command::Ctl(arguments) => arguments.run().map(|()| ExitCode::SUCCESS),
        Command::Cdi(arguments) => arguments.run().map(|()| ExitCode::SUCCESS),
        Command::Completions { shell, program } => completions(shell, program),
        Command::Man { words } => man(&words),
        Command::Daemon { vulkan, arguments } => {
            let ready = process::end_with_parent().and_then(|()| vulkan.worker(None));
            return match ready {
                Ok(worker) => bellhop_device::service::cli::main(
                    std::iter::once("bellhopd".into())
                        .chain(daemon::worker_options(&worker))
                        .chain(arguments),
                    Worker::this_executable(WORKER),
                ),
                Err(error) => fail(&error),
            };
        }
        Command::Worker { arguments } => {
            return bellhop_worker::cli::main(
                std::iter::once("bellhop-worker".into()).chain(arguments),
            );
        }
        Command::HostileWorker(arguments) => arguments.run().map(|()| ExitCode::SUCCESS),
        Command::VulkanSuite(arguments) => arguments.run(),
        Command::VulkanFigures(arguments) => arguments.run().map(|()| ExitCode::SUCCESS),
        Command::VulkanPeers(arguments) => arguments.run().map(|()| ExitCode::SUCCESS),
        Command::VulkanNamed => named::run().map(|()| ExitCode::SUCCESS),
        Command::Guest { arguments } => {
            return bellhop_guest::cli::main(
                std::iter::once("bellhop-guest".into()).chain(arguments),
                Some(crate::screen::onlooker),
                &["guest".into()],
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

/// The configuration with video nodes that a bellhopd gets where none is given: none have them by default.
/// A picture may take as long as a slow machine needs.
const VIDEO_NODES: &str =
    "[adapter]\nvideo_decode_nodes = 1\nvideo_encode_nodes = 1\ntimeout = \"60s\"\n";

/// The configuration with a security node that a bellhopd gets where none is given. What it seals is lost with it, so this
/// is for statements alone.
const SECURITY_NODE: &str = "[adapter]\nsecurity_nodes = 1\n";

/// Does something with a configuration, where none is given and no bellhopd runs.
fn with<T>(
    host: &HostArguments,
    configuration: &str,
    act: impl FnOnce(&HostArguments) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    if host.config.is_some() || host.socket_path.is_some() {
        return act(host);
    }
    let mut config = tempfile::NamedTempFile::new().context("cannot write a configuration")?;
    config.write_all(configuration.as_bytes()).context("cannot write a configuration")?;
    let config_file = Some(config.path().to_owned());
    act(&HostArguments { config: config_file, ..host.clone() })
}

fn hosted(
    host: &HostArguments,
    apart: Option<Apart>,
    work: Vec<OsString>,
) -> anyhow::Result<ExitCode> {
    hosted_beside(host, apart, None, work)
}

/// The same, and the bellhopd that this starts has a control socket.
fn hosted_beside(
    host: &HostArguments,
    apart: Option<Apart>,
    control: Option<&Path>,
    work: Vec<OsString>,
) -> anyhow::Result<ExitCode> {
    let mut guest = host.place.to_command_line();
    let outcome = match &host.socket_path {
        Some(path) => hosted::run_guest(path, &[guest, work].concat())?,
        None => {
            guest.extend(host.vulkan.advice().map(|advice| format!("--advice={advice}").into()));
            guest.extend(work);
            let worker = host.vulkan.worker(None)?;
            let config = host.config.as_deref();
            let options =
                daemon::Options { config, control, worker: &worker, ..daemon::Options::default() };
            hosted::run(options, apart, &guest)?
        }
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
