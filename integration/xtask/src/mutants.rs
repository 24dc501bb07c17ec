// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask mutants`: whether the ordering models notice a weakened ordering.
//!
//! Each fence of the hand-offs is removed, each ordering weakened and each order swapped, one at a
//! time, in a copy of the protocol crate. Each time one of the models must fail: then every ordering
//! is needed, and the models would notice if it went missing.

use crate::schema::{self, Site};
use crate::swaps::{self, Swappable};
use crate::workspace::root;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A weakened ordering, a removed fence or a swapped order.
struct Mutant {
    place: String,
    what: String,
    /// What chooses it among all: see `schema`.
    choice: String,
}

/// Runs the models on every mutant and prints what killed it.
///
/// # Errors
/// When a mutant survives, or the models fail without one.
pub fn run() -> Result<(), String> {
    let copy = copy_workspace()?;
    let mutants = mutate(&copy.join("protocol/src/handoff"))?;
    if mutants.is_empty() {
        return Err("there is no ordering to weaken".to_owned());
    }
    let failed = failed_models(&copy, "", "")?;
    if !failed.is_empty() {
        return Err(format!("these models fail without a mutant: {}", failed.join(", ")));
    }
    let mut survived = 0;
    for mutant in &mutants {
        let killers = mutant.killers(&copy)?;
        survived += usize::from(killers.is_empty());
        mutant.print(&killers);
    }
    println!("{} mutants, {survived} survived", mutants.len());
    match survived {
        0 => Ok(()),
        _ => Err("a mutant survived: its ordering is not needed, or no model covers it".to_owned()),
    }
}

impl Mutant {
    fn new(file: &str, site: &Site, number: usize, weaker: &str) -> Self {
        Self {
            place: format!("{file}:{}", site.line),
            what: format!("{}: {} -> {weaker}", site.function, site.written),
            choice: format!("{number} {weaker}"),
        }
    }

    fn swapped(file: &str, source: &str, swappable: &Swappable, number: usize) -> Self {
        let lines = source.get(..swappable.place.start).unwrap_or_default().lines();
        Self {
            place: format!("{file}:{}", lines.count() + 1),
            what: swappable.swap.what.to_owned(),
            choice: format!("{number} swapped"),
        }
    }

    /// The models that notice it: those of its own hand-off, and only where none of these does, any other.
    fn killers(&self, copy: &Path) -> Result<Vec<String>, String> {
        let own = self.place.split_once(".rs").map_or("", |(hand_off, _)| hand_off);
        let killers = failed_models(copy, &self.choice, &format!("{own}::"))?;
        if !killers.is_empty() {
            return Ok(killers);
        }
        failed_models(copy, &self.choice, "")
    }

    /// The mutant's row of the table, and one for each further model that killed it.
    fn print(&self, killers: &[String]) {
        let (first, further) = match killers {
            [first, further @ ..] => (first.as_str(), further),
            [] => ("SURVIVED", killers),
        };
        println!("{:<16} {:<36} {first}", self.place, self.what);
        for killer in further {
            println!("{:<16} {:<36} {killer}", "", "");
        }
    }
}

/// Puts all mutants into the copied files of this folder, each of which is a hand-off.
fn mutate(handoff: &Path) -> Result<Vec<Mutant>, String> {
    let listed = fs::read_dir(handoff).and_then(|entries| {
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    });
    let mut files: Vec<String> =
        listed.map_err(|error| format!("cannot list {}: {error}", handoff.display()))?;
    files.sort();

    let mut mutants = Vec::new();
    let mut first = 0;
    for file in &files {
        let path = handoff.join(file);
        let source = read(&path)?;
        let sites = schema::sites(&source);
        let swaps = swaps::places(file, &source)?;
        write(&path, &schema::mutate(&source, &sites, &swaps, first))?;
        for (number, site) in (first..).zip(&sites) {
            let weaker = site.weaker().iter();
            mutants.extend(weaker.map(|weaker| Mutant::new(file, site, number, weaker)));
        }
        first += sites.len();
        for (number, swappable) in (first..).zip(&swaps) {
            mutants.push(Mutant::swapped(file, &source, swappable, number));
        }
        first += swaps.len();
    }
    let module = handoff.join("mod.rs");
    write(&module, &format!("{}\nmod mutant;\n", read(&module)?))?;
    write(&handoff.join("mutant.rs"), schema::SUPPORT)?;
    Ok(mutants)
}

/// Makes a copy of what the models are built from: a workspace of the protocol crate alone, so
/// that nothing in the work tree is touched.
fn copy_workspace() -> Result<PathBuf, String> {
    let copy = root().join("target/mutants");
    match fs::remove_dir_all(&copy) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("cannot remove {}: {error}", copy.display()));
        }
        _ => {}
    }
    copy_tree(&root().join("protocol"), &copy.join("protocol"))?;
    copy_tree(&root().join("Cargo.lock"), &copy.join("Cargo.lock"))?;
    let manifest = read(&root().join("Cargo.toml"))?;
    let alone = manifest
        .lines()
        .map(|line| match line.split_once(" = ") {
            Some(("members", _)) => "members = [\"protocol\"]",
            Some(("default-members", _)) => "",
            _ => line,
        })
        .collect::<Vec<_>>();
    write(&copy.join("Cargo.toml"), &alone.join("\n"))?;
    Ok(copy)
}

/// The models that fail with the mutant of this choice, of those whose names contain `named`.
fn failed_models(copy: &Path, choice: &str, named: &str) -> Result<Vec<String>, String> {
    let mut models = Command::new(env!("CARGO"));
    models.args(["test", "--quiet", "--package", "bellhop-protocol", "--release"]);
    models.args(["--test", "handoff", "--", "--format", "pretty", named]);
    models.current_dir(copy).env(schema::CHOICE, choice).env("RUST_BACKTRACE", "0");
    // Where the models themselves are built: everything but the protocol crate is there already.
    models.env("CARGO_TARGET_DIR", root().join("target/loom")).env("RUSTFLAGS", "--cfg loom");
    let output = models.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    let failed: Vec<_> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .map(str::to_owned)
        .collect();
    if output.status.success() != failed.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the models did not end:\n{said}"));
    }
    Ok(failed)
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error| format!("cannot copy {}: {error}", from.display());
    if from.is_file() {
        return fs::copy(from, to).map(drop).map_err(failed);
    }
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        copy_tree(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
