// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask cost`: the instructions that a submission costs, and whether they are within budget.
//!
//! `bellhop-cost` runs driver and engine in turns, and callgrind counts their instructions. Counts depend on the
//! compiler and the sources, and not on other load of the machine.

mod callgrind;
mod counts;
mod limits;
mod report;
mod symbols;

use crate::command::{cargo, exists, output, run};
use crate::left_out;
use crate::workspace::root;
use callgrind::instructions;
use counts::{Counts, Figure, Row, Section};
use limits::{Findings, LIST, Limits};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use symbols::{Function, Symbols};

/// The program that is counted.
const PROGRAM: &str = "bellhop-cost";
/// The profile that it has: of what is counted, as released.
const PROFILE: &str = "counted";
/// Its function within which callgrind collects.
const COUNTED: &str = "bellhop_cost::count*";
/// Its function after which a section is complete.
const SECTION_ENDS: &str = "bellhop_cost::end_section*";
/// The program's own files, which are not counted.
const OWN: &str = "integration/cost/";

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
    let limits = Limits::parse(&limits.map_err(|error| format!("cannot read {LIST}: {error}"))?)?;
    let counts = Counts::of(&count(&limits)?);
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
    if ["CI", "BELLHOP_REQUIRE_ALL"].map(std::env::var_os).iter().any(Option::is_some) {
        return Err("valgrind is not installed".to_owned());
    }
    let (why, how) = ("valgrind is not installed", "install valgrind");
    left_out::skip("cargo xtask cost", why, "no instructions are counted", how)
}

/// Runs the program under callgrind.
fn count(limits: &Limits) -> Result<Vec<Section>, String> {
    let build = ["build", "--quiet", "--profile", PROFILE, "--locked", "--package", PROGRAM];
    run(&mut cargo(&build))?;
    let program = root().join("target").join(PROFILE).join(PROGRAM);
    let folder = root().join("target/cost");
    let failed = |error| format!("cannot make {}: {error}", folder.display());
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => fs::create_dir_all(&folder).map_err(failed)?,
    }
    let profile = folder.join("callgrind");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind", "--fair-sched=try"]).args(callgrind::OPTIONS);
    valgrind.arg(format!("--callgrind-out-file={}", profile.display()));
    valgrind.arg(format!("--toggle-collect={COUNTED}"));
    valgrind.arg(format!("--dump-after={SECTION_ENDS}"));
    let printed = output(valgrind.arg(&program))?;
    let symbols = Symbols::of(&program, &root())?;
    let sections = (1..).zip(printed.lines());
    sections
        .map(|(number, line)| {
            let profile = PathBuf::from(format!("{}.{number}", profile.display()));
            let section = section(line).ok_or_else(|| format!("{PROGRAM} printed: {line}"))?;
            Ok(Section {
                costs: costs(&profile, &program, &symbols, limits, &section.figure.side)?,
                ..section
            })
        })
        .collect()
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
