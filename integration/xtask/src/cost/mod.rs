// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask cost`: the instructions that a submission costs, and whether they are within budget.
//!
//! `bellhop-cost` runs driver and engine in turns, `bellhop-cost-vulkan` the Vulkan driver on a daemon that `bellhop vulkan` starts,
//! and callgrind counts their instructions. Counts depend on the compiler and the sources, and not on other load of the machine.

mod callgrind;
mod counts;
mod limits;
mod report;
mod symbols;

use crate::command::{cargo, exists, output, run};
use crate::workspace::root;
use crate::{lanes, left_out};
use callgrind::instructions;
use counts::{Counts, Figure, Row, Section};
use limits::{Findings, LIST, Limits};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use symbols::{Function, Symbols};

/// The package of the programs that are counted.
const PACKAGE: &str = "bellhop-cost";
/// The profile that they have: of what is counted, as released.
const PROFILE: &str = "counted";
/// The programs.
const PROGRAMS: [Program; 2] = [
    Program { name: "bellhop-cost", has_vulkan: false },
    Program { name: "bellhop-cost-vulkan", has_vulkan: true },
];
/// The side that the second one counts.
const VULKAN: &str = "vulkan";
/// What a program with Vulkan is run by.
const RUNNER: &str = "bellhop";
/// The configuration of its daemon: an engine that sleeps would be woken by some submissions, and not by others.
const DAEMON: &str = "[adapter]\nspin = \"1s\"\n";
/// What the runner fetches the host's Vulkan with.
const FETCHES: [&str; 2] = ["apt-get", "dpkg-deb"];
/// Their function within which callgrind collects.
const COUNTED: &str = "*section::count*";
/// Their function after which a section is complete.
const SECTION_ENDS: &str = "*section::end_section*";
/// The programs' own files, which are not counted.
const OWN: &str = "integration/cost/";

/// A program that is counted.
#[derive(Debug)]
struct Program {
    name: &'static str,
    /// Whether it submits to a device with the host's Vulkan.
    has_vulkan: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
It takes valgrind. Budgets, wanted figures and parts stand in integration/xtask/cost.toml; docs/performance.md
says what is counted.")]
pub struct Arguments {
    /// A line for each function instead of each part
    #[arg(long)]
    functions: bool,
    /// JSON instead of tables
    #[arg(long, conflicts_with = "functions")]
    json: bool,
}

/// Counts, prints, and compares with the budgets.
///
/// # Errors
/// When the program cannot be built or counted, or a count exceeds its budget.
pub fn command(arguments: &Arguments) -> Result<(), String> {
    let limits = fs::read_to_string(root().join(LIST));
    let limits = limits.map_err(|error| format!("cannot read {LIST}: {error}"))?;
    let mut limits = Limits::parse(&limits)?;
    let build = ["build", "--quiet", "--profile", PROFILE, "--locked", "--package", PACKAGE];
    run(&mut cargo(&build))?;
    let mut sections = Vec::new();
    for program in &PROGRAMS {
        match FETCHES.iter().find(|fetches| program.has_vulkan && !exists(fetches)) {
            None => sections.extend(program.count(&limits)?),
            Some(missing) => {
                limits.forget(VULKAN);
                let why = format!("{missing} is not installed");
                let lost = "no instructions of the Vulkan driver are counted";
                absent("cargo xtask cost", &why, lost, &format!("install {missing}"))?;
            }
        }
    }
    let counts = Counts::of(&sections);
    if arguments.json {
        println!("{:#}", report::json(&counts, &limits));
    } else {
        print!("{}", report::table(&counts, &limits, arguments.functions));
    }
    let Findings { slack, wrong } = limits.compare(&counts);
    slack.iter().for_each(|line| eprintln!("{line}"));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Checks the budgets as a step of `cargo xtask test`.
///
/// # Errors
/// As [`command`], and when valgrind is absent where nothing may be skipped.
pub fn check() -> Result<(), String> {
    if exists("valgrind") {
        return command(&Arguments { functions: false, json: false });
    }
    let why = "valgrind is not installed";
    absent("cargo xtask cost", why, "no instructions are counted", "install valgrind")
}

/// Says what is left out and why, where something may be.
fn absent(what: &str, why: &str, lost: &str, how: &str) -> Result<(), String> {
    if ["CI", "BELLHOP_REQUIRE_ALL"].map(std::env::var_os).iter().any(Option::is_some) {
        return Err(why.to_owned());
    }
    left_out::skip(what, why, lost, how)
}

impl Program {
    /// Runs it under callgrind.
    fn count(&self, limits: &Limits) -> Result<Vec<Section>, String> {
        let Self { name, .. } = self;
        let program = root().join("target").join(PROFILE).join(name);
        let folder = root().join("target/cost").join(name);
        let failed = |error| format!("cannot make {}: {error}", folder.display());
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => fs::create_dir_all(&folder).map_err(failed)?,
        }
        let profile = folder.join("callgrind");
        let mut counted = self.start(&folder)?;
        counted.args(["--quiet", "--tool=callgrind", "--fair-sched=try"]).args(callgrind::OPTIONS);
        counted.arg(format!("--callgrind-out-file={}", profile.display()));
        counted.arg(format!("--toggle-collect={COUNTED}"));
        counted.arg(format!("--dump-after={SECTION_ENDS}"));
        let printed = output(counted.arg(&program))?;
        let symbols = Symbols::of(&program, &root())?;
        let sections = (1..).zip(printed.lines());
        sections
            .map(|(number, line)| {
                let profile = PathBuf::from(format!("{}.{number}", profile.display()));
                let section = section(line).ok_or_else(|| format!("{name} printed: {line}"))?;
                Ok(Section {
                    costs: costs(&profile, &program, &symbols, limits, &section.figure.side)?,
                    ..section
                })
            })
            .collect()
    }

    /// Valgrind, with a device where the program wants one. `folder` is this program's.
    fn start(&self, folder: &Path) -> Result<Command, String> {
        const VALGRIND: &str = "valgrind";
        if !self.has_vulkan {
            return Ok(Command::new(VALGRIND));
        }
        // As for tests, of which this is one.
        lanes::build()?;
        let daemon = folder.join("daemon.toml");
        fs::write(&daemon, DAEMON)
            .map_err(|error| format!("cannot write {}: {error}", daemon.display()))?;
        let mut runner = Command::new(root().join("target/debug").join(RUNNER));
        runner.args(["vulkan", "--vulkan", "debian-13", "--config"]).arg(daemon);
        runner.args(["--", VALGRIND]);
        Ok(runner)
    }
}

/// A section from the program's line about it, without costs.
fn section(line: &str) -> Option<Section> {
    let mut words = line.split(' ');
    let figure = Figure { side: words.next()?.to_owned(), load: words.next()?.to_owned() };
    let (batches, depth) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Section { figure, batches, depth, costs: BTreeMap::new() })
}

/// The instructions of a section, by part and function.
fn costs(
    profile: &Path,
    program: &Path,
    symbols: &Symbols,
    limits: &Limits,
    side: &str,
) -> Result<BTreeMap<Row, u64>, String> {
    let text = fs::read_to_string(profile);
    let text = text.map_err(|error| format!("cannot read {}: {error}", profile.display()))?;
    let mut costs = BTreeMap::new();
    for (address, cost) in instructions(&text, &program.display().to_string())? {
        let Function { file, name } = symbols.function(address)?;
        let part = match &file {
            Some(file) if file.starts_with(OWN) => continue,
            Some(file) => limits.part(side, file).unwrap_or(file),
            None => "libraries",
        };
        let row = Row { part: part.to_owned(), function: name };
        *costs.entry(row).or_default() += cost;
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_what_the_program_prints_of_it() {
        let Section { figure, batches, depth, costs } = section("engine depth-1 64 1").unwrap();
        assert_eq!((figure.side.as_str(), figure.load.as_str()), ("engine", "depth-1"));
        assert_eq!((batches, depth, costs.len()), (64, 1, 0));
        assert!(section("engine depth-1 64").is_none());
        assert!(section("engine depth-1 64 x").is_none());
    }
}
