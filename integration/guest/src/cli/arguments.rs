// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of each kind of work, and their way back into a command line.

use crate::bench::{self, Configuration, Delivery, Report, Suite, Wanted};
use crate::conformance::{self, Selection};
use crate::jobs::RunOptions;
use crate::output::put;
use crate::processors;
use crate::stream;
use crate::units::counted;
use anyhow::Context;
use bellhop_guest_umd::PlacementPolicy;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How `probe` describes the device.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct ProbeArguments {
    /// Print the description as one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// What the host has to run kernels with, for the JSON object
    #[arg(long, hide = true, value_name = "JSON", requires = "json", value_parser = json_value)]
    pub(super) kernels: Option<serde_json::Value>,
    /// Which cgroups the host has for workers, for the JSON object
    #[arg(long, hide = true, value_name = "JSON", requires = "json", value_parser = json_value)]
    pub(super) cgroups: Option<serde_json::Value>,
    /// How the host decodes and encodes video, for the JSON object
    #[arg(long, hide = true, value_name = "JSON", requires = "json", value_parser = json_value)]
    pub(super) codecs: Option<serde_json::Value>,
}

/// What `bench` measures.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct BenchArguments {
    /// What to measure; by default, everything that can be measured here but scale
    #[arg(value_enum)]
    pub(super) suites: Vec<Suite>,
    /// Submissions of each kind, in all repetitions together
    #[arg(long, value_name = "COUNT", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(super) samples: u64,
    /// Repetitions of every measurement; the report has the medians and their spread
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) repetitions: u64,
    /// Measure scale with at most this many of each
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) most: Option<u64>,
    /// Also measure this program of yours with `vulkan`, beside itself with the host's Vulkan; may be given several times
    ///
    /// Words with spaces between them: the program and its arguments. It prints a JSON object last, with a time in
    /// nanoseconds for each name.
    #[arg(long, value_name = "WORDS")]
    pub(super) program: Vec<String>,
    /// Print figures and ratios as one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Also write each repetition's figures and ratios to this file, as CSV
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Also draw the latency distributions, the batch table and what grows into this file
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Compare with an earlier --json; the exit status is 3 if it is a regression
    ///
    /// Gives each figure's ratio to the earlier one with an interval of 99 % confidence, from the
    /// repetitions of both runs (Welch's method on logarithms). A figure moved if all of the
    /// interval is more than 5 % away from 1. It is a regression if a ratio or a key figure moved
    /// for the worse; times alone change with the machine. Exits with 0 if there is none, 1 if the
    /// reports cannot be compared, 3 for a regression.
    #[arg(long, value_name = "FILE")]
    pub(super) compare: Option<PathBuf>,
    /// Measure nothing, and show, write, draw or compare this earlier --json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["suites", "samples", "repetitions", "most", "program"])]
    pub(super) report: Option<PathBuf>,
}

/// How `churn` keeps everything in use.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub(super) struct ChurnArguments {
    /// Reset the device this often, then end
    #[arg(long, value_name = "COUNT")]
    pub(super) resets: Option<u32>,
}

/// Which memory was plugged in.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub(super) struct HotplugArguments {
    /// Guest-physical address of the memory's first byte
    #[arg(long)]
    pub(super) address: u64,
    /// Bytes of the memory
    #[arg(long)]
    pub(super) size: u64,
    /// Work in the memory until it is unplugged
    #[arg(long)]
    pub(super) until_unplugged: bool,
}

/// What the main job does.
#[derive(Debug, Clone, Args)]
// Its name must not meet that of a command that flattens it.
#[group(skip)]
pub struct RunArguments {
    /// The file to stream; by default, this program's executable
    #[arg(long, value_name = "PATH")]
    pub(super) input: Option<PathBuf>,
    /// Size of a chunk in KiB
    #[arg(long, value_name = "KIB", default_value_t = stream::CHUNK / 1024, value_parser = clap::value_parser!(u64).range(4..=65_536))]
    pub(super) chunk: u64,
    /// Small submissions to time through a doorbell
    #[arg(long, value_name = "COUNT", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(super) samples: u64,
    /// Repetitions in which they are timed, each beside the control queue
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) repetitions: u64,
    /// Print the report as one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// The processors that this program and the daemon were given
    #[arg(long, hide = true, value_name = "TEXT")]
    pub(super) pinning: Option<String>,
    /// The number of these processors
    #[arg(long, hide = true, value_name = "COUNT", requires = "pinning")]
    pub(super) processors: Option<usize>,
}

/// Which behaviours `selftest` tries.
#[derive(Debug, Clone, Args)]
// Its name must not meet that of a command that flattens it.
#[group(skip)]
pub struct SelftestArguments {
    /// Try only behaviours with this in their names
    pub(super) filter: Option<String>,
    /// Leave out behaviours with this in their names; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(super) skip: Vec<String>,
    /// Also write the results to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Print the results as one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Print the behaviours and do not run them
    #[arg(long)]
    pub(super) list: bool,
    /// Try what programs of several users may rely on that share the guest's device through its broker (program.)
    ///
    /// Starts the programs, of other users if this one is root. Through the broker of --broker if that is given, and
    /// otherwise through one that this starts for the device.
    #[arg(long, conflicts_with = "control_socket")]
    pub(super) programs: bool,
    /// Try them as a program does behind a broker, which this starts for the device
    #[arg(long, conflicts_with_all = ["control_socket", "programs"])]
    pub(super) behind_broker: bool,
    /// The control socket of the bellhopd at --socket-path: somebody looks there at what the guest's monitors show
    ///
    /// Without one, behaviours are tried as far as a guest can tell, and those of its monitors (screen.) are not.
    #[arg(long, value_name = "PATH")]
    pub(super) control_socket: Option<PathBuf>,
}

/// An option with its file in one word, so that the name may begin with a dash.
pub(super) fn in_one_word(option: &str, file: &Path) -> OsString {
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
        if let Some(most) = self.most {
            line.extend(["--most".into(), most.to_string().into()]);
        }
        line.extend(self.program.iter().flat_map(|words| ["--program".into(), words.into()]));
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
        bench::Options {
            suites,
            samples,
            repetitions,
            placement,
            daemon: None,
            places_daemon: false,
        }
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
        let is_meant = self.suites.is_empty() && suite.is_default();
        is_meant || self.suites.contains(&suite)
    }

    /// The greatest number of each that scale is measured with, if that is limited.
    #[must_use]
    pub fn most(&self) -> Option<usize> {
        self.most.map(|most| usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// The programs that are measured with Vulkan, each with its arguments behind spaces.
    #[must_use]
    pub fn programs(&self) -> &[String] {
        &self.program
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
        let told = [&self.kernels, &self.cgroups, &self.codecs];
        for (option, told) in ["--kernels", "--cgroups", "--codecs"].into_iter().zip(told) {
            if let Some(told) = told {
                line.extend([option.into(), told.to_string().into()]);
            }
        }
        line
    }

    /// Whether other programs read the description.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// These arguments, with what the host has to run kernels with, to bound their workers, and for video.
    #[must_use]
    pub fn beside(
        &self,
        kernels: serde_json::Value,
        cgroups: serde_json::Value,
        codecs: serde_json::Value,
    ) -> Self {
        let [kernels, cgroups, codecs] = [kernels, cgroups, codecs].map(Some);
        Self { kernels, cgroups, codecs, ..self.clone() }
    }
}

impl RunArguments {
    pub(super) fn options(
        &self,
        placement: PlacementPolicy,
        advice: Option<&str>,
    ) -> anyhow::Result<RunOptions> {
        let input = match &self.input {
            Some(path) => path.clone(),
            None => std::env::current_exe().context("cannot find this program's executable")?,
        };
        let processors = self.processors.unwrap_or_else(|| processors::allowed().len());
        let pinning = self.pinning.clone().unwrap_or_else(|| {
            format!("not pinned; this guest may use {}", counted(processors as u64, "processor"))
        });
        let (chunk, samples, repetitions) = (self.chunk * 1024, self.samples, self.repetitions);
        Ok(RunOptions {
            input,
            chunk,
            samples,
            repetitions,
            pinning,
            processors,
            advice: advice.map(str::to_owned),
            placement,
        })
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
        line.extend(self.programs.then(|| "--programs".into()));
        line.extend(self.behind_broker.then(|| "--behind-broker".into()));
        for skip in &self.skip {
            // In one word, so that it may begin with a dash.
            line.push(format!("--skip={skip}").into());
        }
        if let Some(junit) = &self.junit {
            line.push(in_one_word("--junit", junit));
        }
        if let Some(control) = &self.control_socket {
            line.push(in_one_word("--control-socket", control));
        }
        if let Some(filter) = &self.filter {
            line.extend(["--".into(), filter.into()]);
        }
        line
    }

    /// The control socket on which somebody looks at the guest's monitors.
    #[must_use]
    pub fn control_socket(&self) -> Option<&Path> {
        self.control_socket.as_deref()
    }

    /// The same, and somebody looks at the guest's monitors on this control socket.
    #[must_use]
    pub fn looked_at(self, control_socket: PathBuf) -> Self {
        Self { control_socket: Some(control_socket), ..self }
    }

    pub(super) fn selection(&self) -> Selection<'_> {
        Selection { filter: self.filter.as_deref(), skip: &self.skip }
    }

    /// Whether the behaviours are only listed, which needs no device.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.list
    }

    /// Whether the behaviours are those of programs.
    #[must_use]
    pub fn is_of_programs(&self) -> bool {
        self.programs
    }

    /// Whether the suite is a program behind a broker of its own.
    #[must_use]
    pub fn is_behind_broker(&self) -> bool {
        self.behind_broker
    }

    /// Prints the list.
    ///
    /// # Errors
    /// When the filter selects none.
    pub fn print_list(&self) -> anyhow::Result<()> {
        Ok(put(conformance::list(self.selection(), self.programs, self.json)?)?)
    }
}
