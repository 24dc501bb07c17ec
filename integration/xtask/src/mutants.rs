// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask mutants`: whether the ordering models notice a weakened ordering.
//!
//! In a copy of the protocol crate, each fence of the hand-offs is removed, each ordering weakened and each order
//! swapped, one at a time. Each time a model must fail: then every ordering is needed, and the models notice its
//! loss.

use crate::models::Models;
use crate::schema::{self, Site};
use crate::swaps::{self, Swappable};
use crate::workspace::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// A weakened ordering, a removed fence or a swapped order.
struct Mutant {
    place: String,
    what: String,
    /// The value that chooses it: see `schema`.
    choice: String,
}

/// The models that may notice a mutant.
struct Watchers {
    models: Models,
    /// Their names, the fastest first.
    names: Vec<String>,
}

/// Runs the models on every mutant and prints which model notices it.
///
/// # Errors
/// When a mutant survives, or the models fail without one.
pub fn run() -> Result<(), String> {
    let copy = copy_workspace()?;
    let mutants = mutate(&copy.join("protocol/src/handoff"))?;
    if mutants.is_empty() {
        return Err("there is no ordering to weaken".to_owned());
    }
    let watchers = Watchers::new(Models::build(&copy)?)?;
    let mut survived = 0;
    at_once(
        &mutants,
        |mutant| watchers.noticed(mutant),
        |mutant, killer| {
            survived += usize::from(killer.is_none());
            let killer = killer.as_deref().unwrap_or("SURVIVED");
            println!("{:<16} {:<36} {killer}", mutant.place, mutant.what);
        },
    )?;
    println!("{} mutants, {survived} survived", mutants.len());
    match survived {
        0 => Ok(()),
        _ => Err("a mutant survived: its ordering is not needed, or no model covers it".to_owned()),
    }
}

impl Watchers {
    /// Runs each model without a mutant, to check that it passes and to time it.
    fn new(models: Models) -> Result<Self, String> {
        let names = models.names()?;
        let mut failed = Vec::new();
        let mut times = Vec::new();
        at_once(
            &names,
            |name| models.run(name, ""),
            |name, (fails, time)| {
                if fails {
                    failed.push(name.clone());
                }
                times.push((time, name.clone()));
            },
        )?;
        if !failed.is_empty() {
            return Err(format!("these models fail without a mutant: {}", failed.join(", ")));
        }
        times.sort();
        Ok(Self { models, names: times.into_iter().map(|(_, name)| name).collect() })
    }

    /// The first model that notices a mutant: those of its own hand-off are tried first, then all others.
    fn noticed(&self, mutant: &Mutant) -> Result<Option<String>, String> {
        let own = mutant.place.split_once(".rs").map_or("", |(hand_off, _)| hand_off);
        let is_own = |name: &&String| name.split_once("::").is_some_and(|(of, _)| of == own);
        let (own, others): (Vec<_>, Vec<_>) = self.names.iter().partition(is_own);
        for name in own.into_iter().chain(others) {
            if self.models.run(name, &mutant.choice)?.0 {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }
}

/// Calls `act` with every item, on all processors at once, and passes on the outcomes in the items' order, each as
/// soon as possible.
fn at_once<I: Sync, O: Send>(
    items: &[I],
    act: impl Fn(&I) -> Result<O, String> + Sync,
    mut then: impl FnMut(&I, O),
) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let (sender, outcomes) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, Into::into) {
            let (sender, next, act) = (sender.clone(), &next, &act);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    // Fails after an error, when no further outcome is wanted.
                    if sender.send((index, act(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut wanted = 0;
        for (index, outcome) in outcomes {
            early.insert(index, outcome?);
            while let Some(outcome) = early.remove(&wanted) {
                then(&items[wanted], outcome);
                wanted += 1;
            }
        }
        Ok(())
    })
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

/// Copies the sources of the models into a workspace of the protocol crate alone, so that the work tree stays
/// unchanged.
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
