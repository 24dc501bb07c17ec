// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask size`: how much Rust there is, by crate or subject, and by what it is for.
//!
//! Lines are those of the files that git tracks, with comments and blank lines. Tests are found by their path (`tests/`,
//! `tests.rs`, the crate of fuzz targets), by the module that stands under `#[cfg(test)]`, and within a file by such a
//! module in it. Everything else belongs to the first folder of [`KINDS`] that it is in, and to the product if it is in none.

use crate::command::output;
use crate::workspace::root;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a CRATE, a line for each crate, named by its folder. With one, a line for each of its subjects:
folders below `src` and `tests`, two deep.

  product      what guests and hosts run: protocol, kernel, device, driver, agent
  tests        tests of every kind, fuzz targets and their models
  commands     commands and jobs that show the GPU at work
  harness      benchmarks, scenarios, and what stands for VMMs, VMs and hostile guests
  conformance  the behaviours of `bellhop selftest`
  tools        packaging and these commands

  cargo xtask size                           the whole
  cargo xtask size device integration/guest  two crates in full
  cargo xtask size --json                    every subject, for programs

Lines are counted as git tracks them, comments and blank lines among them. Which folder is of which
kind stands in integration/xtask/src/size.rs.")]
pub struct Arguments {
    /// Crates whose subjects to list, by folder
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
    /// JSON instead of a table: an object for each subject of each crate
    #[arg(long, conflicts_with = "crates")]
    json: bool,
}

/// What lines are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Product,
    Tests,
    Commands,
    Harness,
    Conformance,
    Tools,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Product, Self::Tests, Self::Commands, Self::Harness, Self::Conformance, Self::Tools];
}

/// Folders and files that are not of the product; the first that holds a file counts.
const KINDS: [(&str, Kind); 19] = [
    ("integration/fuzz", Kind::Tests),
    ("integration/xtask", Kind::Tools),
    ("integration/package", Kind::Tools),
    ("integration/guest/src/conformance", Kind::Conformance),
    // The guest's agent, and what shows an operator the objects of guests.
    ("integration/guest/src/agent", Kind::Product),
    ("integration/guest/src/inspect", Kind::Product),
    ("integration/guest/src/bench", Kind::Harness),
    ("integration/guest/src/fake_guest", Kind::Harness),
    ("integration/guest/src/hostile", Kind::Harness),
    ("integration/guest/src/intercepted.rs", Kind::Harness),
    ("integration/guest/src/churn.rs", Kind::Harness),
    ("integration/src/bench", Kind::Harness),
    ("integration/src/harness", Kind::Harness),
    ("integration/src/hostile_worker", Kind::Harness),
    ("integration/cost", Kind::Harness),
    ("integration/processes", Kind::Harness),
    ("integration/vm", Kind::Harness),
    ("integration", Kind::Commands),
    ("guest-umd/examples", Kind::Commands),
];

/// Lines of each kind that there is.
type Lines = BTreeMap<Kind, usize>;
/// The lines of each subject of each crate.
type Sizes = BTreeMap<(String, String), Lines>;

/// Counts and prints.
///
/// # Errors
/// When git lists no files, a file cannot be read, or there is no such crate.
pub fn command(arguments: &Arguments) -> Result<(), String> {
    let root = root();
    let mut git = Command::new("git");
    let listed = output(git.args(["ls-files", "--", "*.rs", "*Cargo.toml"]).current_dir(&root))?;
    let (manifests, files): (Vec<_>, Vec<_>) =
        listed.lines().partition(|file| file.ends_with("Cargo.toml"));
    let crates = manifests.iter().filter_map(|manifest| manifest.strip_suffix("/Cargo.toml"));
    // Git still lists a file that was removed but not committed.
    let files = files.iter().filter(|file| root.join(file).is_file());
    let files = files.map(|file| match fs::read_to_string(root.join(file)) {
        Ok(text) => Ok((*file, text)),
        Err(error) => Err(format!("cannot read {file}: {error}")),
    });
    let sizes = sizes(&crates.collect(), &files.collect::<Result<Vec<_>, String>>()?);
    if arguments.json {
        println!("{:#}", json(&sizes));
    } else {
        print!("{}", table(&sizes, &arguments.crates)?);
    }
    Ok(())
}

/// Sorts the lines of these files.
fn sizes(crates: &BTreeSet<&str>, files: &[(&str, String)]) -> Sizes {
    let found = files.iter().map(|(file, text)| test_modules(Path::new(file), text));
    let (inline, modules): (Vec<_>, Vec<_>) = found.unzip();
    let modules: BTreeSet<PathBuf> = modules.into_iter().flatten().collect();
    let mut sizes = Sizes::new();
    for ((file, text), inline) in files.iter().zip(inline) {
        let path = Path::new(file);
        let home =
            path.ancestors().find(|folder| folder.to_str().is_some_and(|f| crates.contains(f)));
        let home = home.unwrap_or(Path::new(""));
        let lines = sizes.entry((home.display().to_string(), subject(home, path))).or_default();
        let all = text.lines().count();
        let of_tests = if path.ancestors().any(|path| modules.contains(&path.with_extension(""))) {
            all
        } else {
            inline
        };
        *lines.entry(Kind::Tests).or_default() += of_tests;
        *lines.entry(kind(path)).or_default() += all - of_tests;
    }
    sizes
}

/// What a file is for, except for modules of tests in it.
fn kind(file: &Path) -> Kind {
    if file.iter().any(|part| part == "tests" || part == "tests.rs") {
        return Kind::Tests;
    }
    let listed = KINDS.iter().find(|(folder, _)| file.starts_with(folder));
    listed.map_or(Kind::Product, |(_, kind)| *kind)
}

/// The folders of a file below its crate's `src` or `tests`, two at most.
fn subject(home: &Path, file: &Path) -> String {
    let folder = file.parent().and_then(|folder| folder.strip_prefix(home).ok());
    let mut parts: Vec<_> =
        folder.into_iter().flatten().map(|part| part.to_string_lossy()).collect();
    if parts.first().is_some_and(|first| first == "src" || first == "tests") {
        parts.remove(0);
    }
    parts.truncate(2);
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

/// The lines of modules in a file that are compiled for tests only, and the paths, without an ending, of such modules in
/// files of their own. As formatted by rustfmt.
fn test_modules(path: &Path, text: &str) -> (usize, Vec<PathBuf>) {
    let folder = match path.file_stem() {
        Some(stem) if stem != "mod" && stem != "lib" && stem != "main" => path.with_extension(""),
        _ => path.parent().unwrap_or(path).to_owned(),
    };
    let (mut inline, mut modules) = (0, Vec::new());
    let mut lines = text.lines();
    while lines.any(|line| line == "#[cfg(test)]") {
        let mut attributes = 1;
        let item = lines.find(|line| {
            attributes += 1;
            !line.starts_with("#[")
        });
        let Some((_, name)) = item.and_then(|item| item.split_once("mod ")) else { continue };
        if let Some(name) = name.strip_suffix(';') {
            modules.push(folder.join(name));
        } else {
            inline += attributes + lines.by_ref().take_while(|line| *line != "}").count() + 1;
        }
    }
    (inline, modules)
}

/// A line for each crate, or for each subject of the crates that are named, and their sum.
///
/// # Errors
/// When there is no crate of a name.
fn table(sizes: &Sizes, crates: &[String]) -> Result<String, String> {
    let mut rows: BTreeMap<String, Lines> = BTreeMap::new();
    if let Some(name) = crates.iter().find(|name| !sizes.keys().any(|(home, _)| home == *name)) {
        let all: BTreeSet<_> = sizes.keys().map(|(home, _)| home.as_str()).collect();
        let all = all.into_iter().collect::<Vec<_>>().join(", ");
        return Err(format!("the workspace has no crate in {name:?}; it has {all}"));
    }
    for ((home, subject), lines) in sizes {
        let row = match crates {
            [] => home.clone(),
            crates if crates.contains(home) => format!("{home}: {subject}"),
            _ => continue,
        };
        for name in [row, "all".to_owned()] {
            let sums = rows.entry(name).or_default();
            for (kind, count) in lines {
                *sums.entry(*kind).or_default() += count;
            }
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(name, lines)| (name == "all", Reverse(lines.values().sum::<usize>())));
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut table = format!("{:width$}", "");
    for kind in Kind::ALL {
        table += &format!("{:>12}", format!("{kind:?}").to_lowercase());
    }
    table += &format!("{:>12}\n", "total");
    for (name, lines) in rows {
        table += &format!("{name:width$}");
        for kind in Kind::ALL {
            table += &format!("{:>12}", lines.get(&kind).copied().unwrap_or_default());
        }
        table += &format!("{:>12}\n", lines.values().sum::<usize>());
    }
    Ok(table)
}

/// An object for each subject of each crate, with the kinds of which it has lines.
fn json(sizes: &Sizes) -> serde_json::Value {
    let rows = sizes.iter().map(|((home, subject), lines)| {
        let lines: BTreeMap<_, _> = lines.iter().filter(|(_, count)| **count > 0).collect();
        serde_json::json!({ "crate": home, "subject": subject, "lines": lines })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted() -> Sizes {
        let crates = BTreeSet::from(["device", "device/worker", "integration/guest"]);
        let files = [
            ("device/src/lib.rs", "mod gpu;\n#[cfg(test)]\nmod sample;\n"),
            ("device/src/sample.rs", "fn sample() {}\n"),
            (
                "device/src/gpu/engine/packets/fence.rs",
                "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n}\n",
            ),
            ("device/src/gpu/engine/tests.rs", "fn t() {}\n"),
            ("device/tests/gpu/engine/mod.rs", "mod a;\nmod b;\n"),
            ("device/worker/src/lib.rs", "//! A worker.\n"),
            ("integration/guest/src/conformance/fence/mod.rs", "a\nb\nc\n"),
            ("integration/guest/src/jobs/mod.rs", "a\n"),
        ];
        sizes(&crates, &files.map(|(file, text)| (file, text.to_owned())))
    }

    #[test]
    fn lines_are_sorted_by_crate_subject_and_kind() {
        let sizes = json(&counted());
        let expected = serde_json::json!([
            { "crate": "device", "subject": ".", "lines": { "product": 3, "tests": 1 } },
            { "crate": "device", "subject": "gpu/engine", "lines": { "product": 2, "tests": 7 } },
            { "crate": "device/worker", "subject": ".", "lines": { "product": 1 } },
            { "crate": "integration/guest", "subject": "conformance/fence", "lines": { "conformance": 3 } },
            { "crate": "integration/guest", "subject": "jobs", "lines": { "commands": 1 } },
        ]);
        assert_eq!(sizes, expected);
    }

    #[test]
    fn a_module_of_tests_ends_where_it_ends() {
        let text = "#[cfg(test)]\n#[allow(unsafe_code)]\npub mod tests {\n    mod a {\n    }\n}\nfn f() {}\n#[cfg(test)]\nfn g() {}\n";
        assert_eq!(test_modules(Path::new("a.rs"), text), (6, Vec::new()));
    }

    #[test]
    fn a_table_has_the_crates_or_the_subjects_of_one_and_their_sum() {
        let words = |crates: &[&str]| -> Vec<String> {
            let crates: Vec<_> = crates.iter().map(|name| (*name).to_owned()).collect();
            let table = table(&counted(), &crates).unwrap();
            let lines = table.lines().skip(1);
            lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        let whole = [
            "device 5 8 0 0 0 0 13",
            "integration/guest 0 0 1 0 3 0 4",
            "device/worker 1 0 0 0 0 0 1",
            "all 6 8 1 0 3 0 18",
        ];
        assert_eq!(words(&[]), whole);
        let one =
            ["device: gpu/engine 2 7 0 0 0 0 9", "device: . 3 1 0 0 0 0 4", "all 5 8 0 0 0 0 13"];
        assert_eq!(words(&["device"]), one);
        let error = table(&counted(), &["devise".to_owned()]).unwrap_err();
        assert!(error.contains("devise") && error.contains("device/worker"), "{error}");
    }

    #[test]
    fn each_folder_of_a_kind_is_there() {
        for (folder, _) in KINDS {
            assert!(root().join(folder).exists(), "{folder}");
        }
    }
}
