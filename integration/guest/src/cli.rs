// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `bellhop-guest`.

use crate::bench::{self, Configuration, Delivery, Measured, Report, Suite, Wanted};
use crate::churn::Churn;
use crate::conformance::{self, Selection};
use crate::fake_guest::{FakeGuest, GuestOptions, MORE_VMMS, QEMU, VMMS};
use crate::files::NewFile;
use crate::guest::Guest;
use crate::hotplug;
use crate::inspect;
use crate::jobs::{self, RunOptions};
use crate::machine::{self, Watch};
use crate::output::{self, put, put_line};
use crate::probe;
use crate::processors;
use crate::stream;
use crate::units::counted;
use anyhow::{Context, bail};
use bellhop_guest_umd::transport::virtio_pci::{self, Options, PciAddress, VirtioPci};
use bellhop_guest_umd::{Adapter, PlacementPolicy, Placements};
use clap::builder::PossibleValuesParser;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// What a guest does with its Bellhop GPU.
#[derive(Debug, Parser)]
#[command(
    name = "bellhop-guest",
    version = machine::version(),
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

/// Where the device is. In a VM, the program finds it.
#[derive(Debug, Args)]
struct DeviceArguments {
    /// The socket of a bellhopd; this program then stands for a VMM and its guest
    #[arg(long, value_name = "PATH", env = "BELLHOP_SOCKET")]
    socket_path: Option<PathBuf>,
    /// The VM's PCI device, such as 0000:01:00.0; the first Bellhop GPU by default
    #[arg(long, value_name = "ADDRESS", conflicts_with = "socket_path")]
    pci: Option<PciAddress>,
    /// Use all Bellhop GPUs of the VM: start them together, then work on one after another
    #[arg(long, conflicts_with_all = ["socket_path", "pci"])]
    all_devices: bool,
    #[command(flatten)]
    place: PlaceArguments,
    /// End together with the process that started this one
    #[arg(long, hide = true)]
    end_with_parent: bool,
}

/// What kind of guest this is.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct PlaceArguments {
    /// Where doorbells, fences, rings and local memory are
    ///
    /// "measured" puts them where accesses are fast. "around-slow-bar" puts doorbells, fences and rings
    /// into the guest's own memory, and keeps local memory in the BAR.
    #[arg(long, value_enum, default_value_t = PlacementArgument::Measured)]
    placement: PlacementArgument,
    /// Which VMM the front end at the socket behaves like
    #[arg(long, value_name = "VMM", default_value = QEMU.name,
          value_parser = PossibleValuesParser::new(VMMS.iter().chain(&MORE_VMMS).map(|vmm| vmm.name)))]
    vmm: String,
}

/// [`PlacementPolicy`] on a command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PlacementArgument {
    Measured,
    Bar,
    GuestMemory,
    AroundSlowBar,
}

impl From<PlacementArgument> for PlacementPolicy {
    fn from(argument: PlacementArgument) -> Self {
        match argument {
            PlacementArgument::Measured => Self::Measured,
            PlacementArgument::Bar => Self::Fixed(Placements::BAR),
            PlacementArgument::GuestMemory => Self::Fixed(Placements::GUEST_MEMORY),
            PlacementArgument::AroundSlowBar => Self::Fixed(Placements::AROUND_SLOW_BAR),
        }
    }
}

#[derive(Debug, Subcommand)]
enum Work {
    /// Show what the device offers, what accesses to it cost, and where shared memory is placed and why
    Probe(ProbeArguments),
    /// Do real work through doorbells: stream a file through the GPU, verify the result, report
    Run(RunArguments),
    /// Show this guest's objects on the device: queues, doorbells, memory, and the engines' power
    Inspect(inspect::ViewArguments),
    /// Measure what a submission costs, beside the least that it could cost
    Bench(BenchArguments),
    /// Keep everything in use that a guest can have in use, until the program is ended
    ///
    /// Prints "working" once everything is in use. With --resets, it instead resets the device that
    /// often, each time in the middle of work with everything in use, and ends.
    Churn(ChurnArguments),
    /// Have the GPU work in memory that was plugged into the running VM
    ///
    /// Works in pages of it that the guest's kernel gives to the driver. With --until-unplugged, works
    /// in all of it, which the kernel must not use: prints "working", and ends when the memory is
    /// unplugged and nothing else was lost.
    Hotplug(HotplugArguments),
    /// Check what every guest may rely on
    ///
    /// Tries one named behaviour after another over this guest's transport. Exits with 1 if one
    /// fails.
    Selftest(SelftestArguments),
}

/// How `probe` describes the device.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct ProbeArguments {
    /// Print the description as one JSON object
    #[arg(long)]
    json: bool,
    /// What the host has to run kernels with, for the JSON object
    #[arg(long, hide = true, value_name = "JSON", requires = "json", value_parser = json_value)]
    kernels: Option<serde_json::Value>,
}

/// What `bench` measures.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct BenchArguments {
    /// What to measure; by default, everything that can be measured here
    #[arg(value_enum)]
    suites: Vec<Suite>,
    /// Submissions of each kind, in all repetitions together
    #[arg(long, value_name = "COUNT", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    samples: u64,
    /// Repetitions of every measurement; the report has the medians and their spread
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repetitions: u64,
    /// Print figures and ratios as one JSON object
    #[arg(long)]
    json: bool,
    /// Also write each repetition's figures and ratios to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also draw the latency distributions and the batch table into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Compare with an earlier --json; the exit status is 3 if it is a regression
    ///
    /// Gives each figure's ratio to the earlier one with an interval of 99 % confidence, from the
    /// repetitions of both runs (Welch's method on logarithms). A figure moved if all of the
    /// interval is more than 5 % away from 1. It is a regression if a ratio or a key figure moved
    /// for the worse; times alone change with the machine. Exits with 0 if there is none, 1 if the
    /// reports cannot be compared, 3 for a regression.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Measure nothing, and show, write, draw or compare this earlier --json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["suites", "samples", "repetitions"])]
    report: Option<PathBuf>,
}

/// How `churn` keeps everything in use.
#[derive(Debug, Clone, Args)]
#[group(skip)]
struct ChurnArguments {
    /// Reset the device this often, then end
    #[arg(long, value_name = "COUNT")]
    resets: Option<u32>,
}

/// Which memory was plugged in.
#[derive(Debug, Clone, Args)]
#[group(skip)]
struct HotplugArguments {
    /// Guest-physical address of the memory's first byte
    #[arg(long)]
    address: u64,
    /// Bytes of the memory
    #[arg(long)]
    size: u64,
    /// Work in the memory until it is unplugged
    #[arg(long)]
    until_unplugged: bool,
}

/// What the main job does.
#[derive(Debug, Clone, Args)]
// Its name must not meet that of a command that flattens it.
#[group(skip)]
pub struct RunArguments {
    /// The file to stream; by default, this program's executable
    #[arg(long, value_name = "PATH")]
    input: Option<PathBuf>,
    /// Size of a chunk in KiB
    #[arg(long, value_name = "KIB", default_value_t = stream::CHUNK / 1024, value_parser = clap::value_parser!(u64).range(4..=65_536))]
    chunk: u64,
    /// Small submissions to time through a doorbell
    #[arg(long, value_name = "COUNT", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    samples: u64,
    /// Repetitions in which they are timed, each beside the control queue
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repetitions: u64,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    /// The processors that this program and the daemon were given
    #[arg(long, hide = true, value_name = "TEXT")]
    pinning: Option<String>,
    /// The number of these processors
    #[arg(long, hide = true, value_name = "COUNT", requires = "pinning")]
    processors: Option<usize>,
}

/// Which behaviours `selftest` tries.
#[derive(Debug, Clone, Args)]
// Its name must not meet that of a command that flattens it.
#[group(skip)]
pub struct SelftestArguments {
    /// Try only behaviours with this in their names
    filter: Option<String>,
    /// Leave out behaviours with this in their names; may be given several times
    #[arg(long, value_name = "TEXT")]
    skip: Vec<String>,
    /// Also write the results to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
    /// Print the behaviours and do not run them
    #[arg(long)]
    list: bool,
}

/// The command, for man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs `bellhop-guest`. Writes each error to standard error, in a line.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match work(Cli::parse_from(arguments)) {
        Ok(Ending::Succeeded) => ExitCode::SUCCESS,
        Ok(Ending::Regressed) => bench::REGRESSED.into(),
        Ok(Ending::Failed) => ExitCode::FAILURE,
        Err(error) => output::failure("bellhop-guest", &error),
    }
}

/// How the work ended, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Succeeded,
    /// A benchmark is worse than an earlier one.
    Regressed,
    Failed,
}

impl Ending {
    fn of(succeeded: bool) -> Self {
        if succeeded { Self::Succeeded } else { Self::Failed }
    }

    fn of_bench(regressed: bool) -> Self {
        if regressed { Self::Regressed } else { Self::Succeeded }
    }
}

/// How the work ended, at the worst of several devices.
fn work(cli: Cli) -> anyhow::Result<Ending> {
    match &cli.work {
        Work::Selftest(suite @ SelftestArguments { list: true, .. }) => {
            return suite.print_list().map(|()| Ending::Succeeded);
        }
        Work::Bench(arguments) => {
            if let Some(regressed) = arguments.deliver_earlier()? {
                return Ok(Ending::of_bench(regressed));
            }
        }
        _ => {}
    }
    let placement = cli.device.place.policy();
    let mut ending = Ending::Succeeded;
    // Starts all devices before it uses the first.
    for guest in cli.device.guests()? {
        ending = ending.max(work_on(guest, placement, &cli.work)?);
    }
    Ok(ending)
}

/// Does the work on one device.
fn work_on(
    guest: Arc<dyn Guest>,
    placement: PlacementPolicy,
    work: &Work,
) -> anyhow::Result<Ending> {
    match work {
        Work::Probe(ProbeArguments { json, kernels }) => {
            let mut description = probe::probe(guest, placement)?;
            description.kernels.clone_from(kernels);
            if *json {
                put_line(serde_json::to_string(&description)?)?
            } else {
                put(description)?
            }
            Ok(Ending::Succeeded)
        }
        Work::Run(arguments) => {
            let report = jobs::run(guest, &arguments.options(placement)?)?;
            if arguments.json {
                put_line(serde_json::to_string(&report)?)?
            } else {
                put(&report)?
            }
            Ok(Ending::of(report.verified))
        }
        Work::Selftest(arguments @ SelftestArguments { junit, json, .. }) => {
            let junit = junit.as_deref().map(NewFile::create).transpose()?;
            let report = conformance::run(guest, placement, arguments.selection(), !json)?;
            if let Some(junit) = junit {
                junit.finish_with(report.to_junit()?)?;
            }
            if *json {
                put_line(serde_json::to_string(&report)?)?;
            }
            Ok(Ending::of(report.passed()))
        }
        Work::Inspect(view) => {
            let adapter = Adapter::open_with(guest, placement)?;
            inspect::show(&mut &adapter, inspect::Selection::default(), view)?;
            Ok(Ending::Succeeded)
        }
        Work::Bench(arguments) => {
            let delivery = Delivery::begin(&arguments.wanted())?;
            let (mut measured, watch) = (Measured::default(), Watch::begin());
            let options = arguments.options(placement);
            let configuration = Configuration {
                suites: options.suites.iter().map(|suite| suite.name()).collect(),
                placement: format!("{placement:?}"),
                place: bench_place(&guest.reached()),
                ..arguments.configuration()
            };
            bench::run(guest, &options, &mut measured)?;
            let report = measured.report(configuration, watch.end());
            delivery.deliver(&report).map(Ending::of_bench)
        }
        Work::Hotplug(HotplugArguments { address, size, until_unplugged }) => {
            let memory = *address..address.saturating_add(*size);
            if *until_unplugged {
                let begun = || put_line("working");
                hotplug::work_until_unplugged(guest, placement, memory, begun)?;
                put_line("lost what was unplugged and nothing else")?;
            } else {
                let bytes = hotplug::work_in_pages(guest, placement, memory)?;
                put_line(format_args!("reached {} KiB of it", bytes >> 10))?;
            }
            Ok(Ending::Succeeded)
        }
        Work::Churn(ChurnArguments { resets }) => {
            churn(&guest, placement, *resets).map(|()| Ending::Succeeded)
        }
    }
}

/// How the guest reaches the device, and on which processor it measures.
fn bench_place(reached: &str) -> String {
    match processors::pair() {
        Some((first, _)) => format!("guest on processor {first}, {reached}"),
        None => format!("guest on its only processor, {reached}"),
    }
}

/// Rounds of work before everything counts as in use.
const ROUNDS: usize = 3;

fn churn(
    guest: &Arc<dyn Guest>,
    placement: PlacementPolicy,
    resets: Option<u32>,
) -> anyhow::Result<()> {
    let begin = || -> anyhow::Result<Churn> {
        let mut churn = Churn::new(guest, placement)?;
        (0..ROUNDS).try_for_each(|_| churn.round())?;
        Ok(churn)
    };
    let mut churn = begin()?;
    for _ in 0..resets.unwrap_or(0) {
        guest.reset()?;
        // The reset has destroyed its objects already; the errors that say so do not matter.
        drop(churn);
        churn = begin()?;
    }
    put_line("working")?;
    while resets.is_none() {
        churn.round()?;
    }
    Ok(())
}

impl DeviceArguments {
    fn guests(&self) -> anyhow::Result<Vec<Arc<dyn Guest>>> {
        if self.end_with_parent {
            let signal = rustix::process::Signal::TERM;
            rustix::process::set_parent_process_death_signal(Some(signal))
                .context("cannot arrange to end with the parent process")?;
        }
        if let Some(path) = &self.socket_path {
            return Ok(vec![self.place.connect(path)?]);
        }
        if let Some(address) = self.pci {
            return Ok(vec![over_pci(address)?]);
        }
        let mut found = virtio_pci::discover()?;
        if found.is_empty() {
            bail!(
                "this machine has no Bellhop GPU; in a container, name a bellhopd's socket with \
                 --socket-path"
            );
        }
        if !self.all_devices {
            found.truncate(1);
        }
        found.into_iter().map(over_pci).collect()
    }
}

fn over_socket(path: &Path, vmm: &str) -> anyhow::Result<Arc<dyn Guest>> {
    let profile = VMMS.into_iter().chain(MORE_VMMS).find(|profile| profile.name == vmm);
    let profile = profile.with_context(|| format!("no VMM is called {vmm}"))?;
    let guest = FakeGuest::connect(path, GuestOptions { profile, ..GuestOptions::default() })
        .with_context(|| format!("the guest cannot reach its device at {}", path.display()))?;
    Ok(guest)
}

fn over_pci(address: PciAddress) -> anyhow::Result<Arc<dyn Guest>> {
    let guest = VirtioPci::open(address, Options::default())
        .with_context(|| format!("cannot use the device at {address}"))?;
    Ok(guest)
}

impl PlaceArguments {
    /// A guest of a `bellhopd`, in this process.
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn connect(&self, socket: &Path) -> anyhow::Result<Arc<dyn Guest>> {
        over_socket(socket, &self.vmm)
    }

    /// Where the driver places memory that it shares with the device.
    #[must_use]
    pub fn policy(&self) -> PlacementPolicy {
        self.placement.into()
    }

    /// These arguments as options of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let placement = self.placement.to_possible_value();
        let placement = placement.map_or_else(String::new, |value| value.get_name().to_owned());
        vec!["--placement".into(), placement.into(), "--vmm".into(), self.vmm.clone().into()]
    }
}

/// An option with its file in one word, so that the name may begin with a dash.
fn in_one_word(option: &str, file: &Path) -> OsString {
    let mut word = OsString::from(format!("{option}="));
    word.push(file);
    word
}

impl BenchArguments {
    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["bench".into()];
        let names = self.suites.iter().filter_map(ValueEnum::to_possible_value);
        line.extend(names.map(|name| name.get_name().into()));
        line.extend(["--samples".into(), self.samples.to_string().into()]);
        line.extend(["--repetitions".into(), self.repetitions.to_string().into()]);
        line.extend(self.json.then(|| "--json".into()));
        for (option, file) in
            [("--csv", &self.csv), ("--svg", &self.svg), ("--compare", &self.compare)]
        {
            line.extend(file.as_deref().map(|file| in_one_word(option, file)));
        }
        line
    }

    /// The measurements that they request from a guest.
    #[must_use]
    pub fn options(&self, placement: PlacementPolicy) -> bench::Options {
        let suites =
            if self.suites.is_empty() { Suite::IN_ANY_GUEST.to_vec() } else { self.suites.clone() };
        let Self { samples, repetitions, .. } = *self;
        bench::Options { suites, samples, repetitions, placement, daemon: None }
    }

    /// The configuration of a run, before its place is known.
    #[must_use]
    pub fn configuration(&self) -> Configuration {
        let Self { samples, repetitions, .. } = *self;
        Configuration { samples, repetitions, ..Configuration::default() }
    }

    /// Whether a suite is to be measured.
    #[must_use]
    pub fn asks_for(&self, suite: Suite) -> bool {
        self.suites.is_empty() || self.suites.contains(&suite)
    }

    /// The forms in which to deliver the report.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        let Self { json, csv, svg, compare, .. } = self.clone();
        Wanted { json, csv, svg, compare }
    }

    /// Delivers the earlier report that the arguments name instead of a measurement, if they do. Returns
    /// whether it is a regression.
    ///
    /// # Errors
    /// When it cannot be read, compared or written.
    pub fn deliver_earlier(&self) -> anyhow::Result<Option<bool>> {
        let Some(path) = &self.report else { return Ok(None) };
        let delivery = Delivery::begin(&self.wanted())?;
        delivery.deliver(&Report::read(path)?).map(Some)
    }
}

fn json_value(text: &str) -> serde_json::Result<serde_json::Value> {
    serde_json::from_str(text)
}

impl ProbeArguments {
    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["probe".into()];
        line.extend(self.json.then(|| "--json".into()));
        if let Some(kernels) = &self.kernels {
            line.extend(["--kernels".into(), kernels.to_string().into()]);
        }
        line
    }

    /// Whether other programs read the description.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// These arguments, with what the host has to run kernels with.
    #[must_use]
    pub fn beside(&self, kernels: serde_json::Value) -> Self {
        Self { kernels: Some(kernels), ..self.clone() }
    }
}

impl RunArguments {
    fn options(&self, placement: PlacementPolicy) -> anyhow::Result<RunOptions> {
        let input = match &self.input {
            Some(path) => path.clone(),
            None => std::env::current_exe().context("cannot find this program's executable")?,
        };
        let processors = self.processors.unwrap_or_else(|| processors::allowed().len());
        let pinning = self.pinning.clone().unwrap_or_else(|| {
            format!("not pinned; this guest may use {}", counted(processors as u64, "processor"))
        });
        let (chunk, samples, repetitions) = (self.chunk * 1024, self.samples, self.repetitions);
        Ok(RunOptions { input, chunk, samples, repetitions, pinning, processors, placement })
    }

    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["run".into()];
        if let Some(input) = &self.input {
            line.push(in_one_word("--input", input));
        }
        line.extend(["--chunk".into(), self.chunk.to_string().into()]);
        line.extend(["--samples".into(), self.samples.to_string().into()]);
        line.extend(["--repetitions".into(), self.repetitions.to_string().into()]);
        line.extend(self.json.then(|| "--json".into()));
        if let Some(pinning) = &self.pinning {
            line.extend(["--pinning".into(), pinning.into()]);
        }
        if let Some(processors) = self.processors {
            line.extend(["--processors".into(), processors.to_string().into()]);
        }
        line
    }

    /// These arguments, with the processors that the guest and the daemon were given.
    #[must_use]
    pub fn pinned(&self, pinning: impl Into<String>) -> Self {
        let processors = Some(processors::allowed().len());
        Self { pinning: Some(pinning.into()), processors, ..self.clone() }
    }
}

impl SelftestArguments {
    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["selftest".into()];
        line.extend(self.json.then(|| "--json".into()));
        line.extend(self.list.then(|| "--list".into()));
        for skip in &self.skip {
            // In one word, so that it may begin with a dash.
            line.push(format!("--skip={skip}").into());
        }
        if let Some(junit) = &self.junit {
            line.push(in_one_word("--junit", junit));
        }
        if let Some(filter) = &self.filter {
            line.extend(["--".into(), filter.into()]);
        }
        line
    }

    fn selection(&self) -> Selection<'_> {
        Selection { filter: self.filter.as_deref(), skip: &self.skip }
    }

    /// Whether the behaviours are only listed, which needs no device.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.list
    }

    /// Prints the list.
    ///
    /// # Errors
    /// When the filter selects none.
    pub fn print_list(&self) -> anyhow::Result<()> {
        Ok(put(conformance::list(self.selection(), self.json)?)?)
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
        let run = RunArguments {
            input: Some("-f".into()),
            chunk: 4,
            samples: 7,
            repetitions: 3,
            json: true,
            pinning: Some("guest on 0".into()),
            processors: Some(2),
        };
        let kernels = serde_json::json!({ "device": "a device" });
        let probe = ProbeArguments { json: true, kernels: None }.beside(kernels.clone());
        let Work::Probe(back) = parse(probe.to_command_line()) else { panic!("another command") };
        assert!(back.is_json());
        assert_eq!(back.kernels, Some(kernels));
        let Work::Run(back) = parse(run.to_command_line()) else { panic!("another command") };
        assert_eq!(format!("{run:?}"), format!("{back:?}"));
        let bench = BenchArguments {
            suites: vec![Suite::RoundTrip],
            samples: 7,
            repetitions: 3,
            json: true,
            csv: Some("-c.csv".into()),
            svg: Some("-s.svg".into()),
            compare: Some("-b.json".into()),
            report: None,
        };
        let Work::Bench(back) = parse(bench.to_command_line()) else { panic!("another command") };
        assert_eq!(format!("{bench:?}"), format!("{back:?}"));
        let filter = Some("-x".into());
        let (skip, junit) = (vec!["-y".into(), "z".into()], Some("-j.xml".into()));
        let selftest = SelftestArguments { filter, skip, junit, json: true, list: false };
        let Work::Selftest(back) = parse(selftest.to_command_line()) else {
            panic!("another command")
        };
        assert_eq!(format!("{selftest:?}"), format!("{back:?}"));
    }
}
