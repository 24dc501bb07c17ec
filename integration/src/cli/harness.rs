// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop harness`.

use crate::harness::{EXAMPLES, Options, Report, Scenario, ScenarioError, to_junit};
use anyhow::{Context, bail};
use bellhop_device::log::FILTER_VARIABLE;
use bellhop_device::service::config::Config;
use bellhop_guest::files::NewFile;
use bellhop_guest::output::{note, put, put_line, wrapped};
use bellhop_processes::process::Signals;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The arguments of `bellhop harness`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A scenario is a TOML file. This one is complete:

  title = \"A bad packet loses its own queue and no other\"
  [[guest]]
  name = \"vm\"
  [[guest.context]]
  queue = [{ name = \"good\", submissions = 1000 }, { name = \"bad\", submissions = 1000 }]
  [[event]]
  when = { queue = \"vm/main/bad\", completed = 100 }
  do = { action = \"bad-packet\", queue = \"vm/main/bad\" }
  [expect]
  lost = [\"vm/main/bad\"]

docs/harness.md describes every key, and each shipped scenario says what it shows.

Examples:
  bellhop harness --list                          list the shipped scenarios
  bellhop harness --example first-submission      run one of them
  bellhop harness --print first-submission        print its file, to start your own from
  bellhop harness mine.toml --seed 7              run your own with another seed
  bellhop harness mine.toml --repeat 100          run it a hundred times, each with the next seed
  bellhop harness --example stress --duration 3600
  bellhop harness *.toml --junit results.xml      for a CI system

Exits with 0 if all expectations held, with 1 if one did not, and with 2 if a scenario could not
be run. Ctrl-C ends a run as if its duration were over.")]
pub struct HarnessArguments {
    /// Scenarios to run
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Run a shipped scenario; may be given several times
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(names()), hide_possible_values = true)]
    example: Vec<String>,
    /// List the shipped scenarios, and exit
    #[arg(long, conflicts_with_all = ["files", "example"])]
    list: bool,
    /// Print the file of a shipped scenario, and exit
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(names()), hide_possible_values = true, conflicts_with_all = ["files", "example", "list"])]
    print: Option<String>,
    /// The seed of random choices, instead of the scenario's own
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run each scenario this many times, each with the next seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,
    /// The duration of scenarios that have one, instead of their own
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    duration: Option<u64>,
    /// Print each report as JSON, on one line
    #[arg(long)]
    json: bool,
    /// Also write the results to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Say nothing on standard error while a scenario runs
    #[arg(long)]
    quiet: bool,
}

fn names() -> impl Iterator<Item = &'static str> {
    EXAMPLES.iter().map(|example| example.name)
}

/// A scenario that could not be run.
const NOT_RUN: u8 = 2;

impl HarnessArguments {
    /// Runs the command. Errors of scenarios go to standard error.
    ///
    /// # Errors
    /// When the reports cannot be written.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.list {
            for example in EXAMPLES {
                let title = Scenario::example(example.name)?.title;
                put(wrapped(&format!("{:<32}", example.name), &title))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(name) = &self.print {
            let example = EXAMPLES.iter().find(|example| example.name == name);
            put(example.map_or("", |example| example.text))?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.files.is_empty() && self.example.is_empty() {
            bail!(
                "there is nothing to run: name a FILE or an --example; --list shows the shipped scenarios"
            );
        }
        let scenarios = match self.scenarios() {
            Ok(scenarios) => scenarios,
            Err(error) => {
                note(format_args!("bellhop: {error}"));
                return Ok(ExitCode::from(NOT_RUN));
            }
        };
        let junit = self.junit.as_deref().map(NewFile::create).transpose()?;
        // The scenario causes the guests' faults, so only errors of the daemon itself are worth a line.
        let filter = std::env::var(FILTER_VARIABLE).unwrap_or_else(|_| "error".into());
        bellhop_device::log::start(&filter, None, Config::default().line_limit())?;
        let stop = stop_at_signals()?;
        let mut reports: Vec<(String, Report)> = Vec::new();
        for (name, scenario) in &scenarios {
            for round in 0..self.repeat {
                if stop.load(Ordering::Acquire) {
                    break;
                }
                let options = Options {
                    seed: Some(self.seed.unwrap_or(scenario.seed).wrapping_add(round)),
                    duration: self.duration.map(Duration::from_secs),
                    progress: !self.quiet,
                    stop: Arc::clone(&stop),
                };
                match scenario.run(&options) {
                    Ok(report) => {
                        if self.json {
                            put_line(report.to_json()?)?
                        } else {
                            put_line(&report)?
                        }
                        reports.push((name.clone(), report));
                    }
                    Err(error) => {
                        note(format_args!("bellhop: scenario {name}: {error}"));
                        return Ok(ExitCode::from(NOT_RUN));
                    }
                }
            }
        }
        if let Some(junit) = junit {
            let all = reports.iter().map(|(name, report)| (name.as_str(), report));
            junit.finish_with(to_junit(all)?)?;
        }
        Ok(if reports.iter().all(|(_, report)| report.passed) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn scenarios(&self) -> Result<Vec<(String, Scenario)>, ScenarioError> {
        let name =
            |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let files = self.files.iter().map(|path| Ok((name(path), Scenario::load(path)?)));
        let examples = self.example.iter().map(|name| Ok((name.clone(), Scenario::example(name)?)));
        files.chain(examples).collect()
    }
}

/// Becomes true at Ctrl-C or SIGTERM.
fn stop_at_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let watch = move || {
        bellhop_processes::process::block_on(async {
            Signals::new()?.received().await;
            stopped.store(true, Ordering::Release);
            Ok(())
        })
    };
    // The thread runs until the process ends.
    thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .context("cannot watch for Ctrl-C")?;
    Ok(stop)
}
