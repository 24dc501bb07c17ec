// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask fuzz`: the targets of `integration/fuzz` under libFuzzer.
//!
//! Coverage and the address sanitizer are in the stable compiler, behind options that it takes only with
//! `RUSTC_BOOTSTRAP`.

use crate::command::{cargo, output, run};
use crate::workspace::root;
use clap::Args;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of cargo-fuzz to install.
const CARGO_FUZZ: &str = "0.13.2";

/// Most bytes of an input: some hundred actions.
const MAX_LENGTH: u32 = 2048;
/// Most seconds that an input may take before it is a hang.
const HANG: u32 = 60;
/// Most inputs of a corpus that `--minimize` keeps: some of each length.
const KEPT: usize = 64;

/// The arguments of `cargo xtask fuzz`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each target plays a hostile guest; docs/fuzzing.md describes them. The inputs that reach new code are kept
in target/fuzz/corpus. An input that a target does not survive is kept in target/fuzz/artifacts: copy it to
integration/fuzz/corpus/TARGET, where `cargo xtask test` runs it too, and fix the cause.

The first call builds cargo-fuzz into target/cargo-fuzz, which takes a C++ compiler.")]
pub struct Arguments {
    /// The targets to run [default: all]
    #[arg(value_name = "TARGET", value_parser = known)]
    targets: Vec<String>,
    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    minutes: u32,
    /// Do not run the targets; replace integration/fuzz/corpus with a sample of the fewest inputs that
    /// reach all code that was reached
    #[arg(long, conflicts_with = "minutes")]
    minimize: bool,
    /// List the targets, and exit
    #[arg(long, exclusive = true)]
    list: bool,
}

/// Runs `cargo xtask fuzz`.
///
/// # Errors
/// When a target cannot be built, or does not survive.
pub fn command(arguments: &Arguments) -> Result<(), String> {
    let all = targets()?;
    if arguments.list {
        all.iter().for_each(|target| println!("{target}"));
        return Ok(());
    }
    let chosen = if arguments.targets.is_empty() { &all } else { &arguments.targets };
    let cargo_fuzz = installed()?;
    for target in chosen {
        if arguments.minimize {
            minimize(&cargo_fuzz, target)?;
        } else {
            fuzz(&cargo_fuzz, target, arguments.minutes)?;
        }
    }
    Ok(())
}

/// Checks that a target of this name exists.
fn known(name: &str) -> Result<String, String> {
    let targets = targets()?;
    if targets.iter().any(|target| target == name) {
        Ok(name.to_owned())
    } else {
        Err(format!("the targets are {}", targets.join(", ")))
    }
}

/// The targets' names: those of their programs.
fn targets() -> Result<Vec<String>, String> {
    let folder = folder().join("fuzz_targets");
    let listed = fs::read_dir(&folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>());
    let paths = listed.map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let names = paths.iter().filter(|path| path.extension() == Some(OsStr::new("rs")));
    let stems = names.filter_map(|path| path.file_stem());
    let mut names: Vec<_> = stems.map(|stem| stem.to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// The crate with the targets.
fn folder() -> PathBuf {
    root().join("integration/fuzz")
}

/// A folder for the output of fuzzing.
fn made(path: &str) -> Result<PathBuf, String> {
    let path = root().join("target/fuzz").join(path);
    fs::create_dir_all(&path)
        .map_err(|error| format!("cannot create {}: {error}", path.display()))?;
    Ok(path)
}

/// cargo-fuzz, built if need be.
fn installed() -> Result<PathBuf, String> {
    let place = root().join("target/cargo-fuzz");
    let program = place.join("bin/cargo-fuzz");
    let is_there = output(Command::new(&program).arg("--version"))
        .is_ok_and(|version| version.trim().ends_with(CARGO_FUZZ));
    if !is_there {
        let mut install = cargo(&["install", "cargo-fuzz", "--locked", "--version", CARGO_FUZZ]);
        run(install.arg("--root").arg(&place).arg("--target-dir").arg(place.join("build")))?;
    }
    Ok(program)
}

/// `cargo fuzz ACTION` for a target.
fn cargo_fuzz(program: &Path, action: &str, target: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(action).current_dir(root());
    command.arg("--fuzz-dir").arg(folder()).arg("--target-dir").arg(root().join("target/fuzz"));
    command.args(["--sanitizer", "address", "--features", "libfuzzer", target]);
    // Link-time optimisation drops the coverage counters.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off");
    command.env("RUSTC_BOOTSTRAP", "1");
    command
}

fn fuzz(program: &Path, target: &str, minutes: u32) -> Result<(), String> {
    let corpus = made(&format!("corpus/{target}"))?;
    let artifacts = made(&format!("artifacts/{target}"))?;
    let mut command = cargo_fuzz(program, "run", target);
    command.arg(corpus).arg(folder().join("corpus").join(target)).arg("--");
    command.args([
        format!("-max_total_time={}", minutes * 60),
        format!("-max_len={MAX_LENGTH}"),
        format!("-timeout={HANG}"),
        format!("-artifact_prefix={}/", artifacts.display()),
        "-print_final_stats=1".to_owned(),
        // The check mistakes threads that are just ending for leaks.
        "-detect_leaks=0".to_owned(),
    ]);
    println!("{target}, for {minutes} minutes");
    run(&mut command)
}

/// Replaces a target's corpus by a sample of the fewest inputs that reach all code that was reached.
fn minimize(program: &Path, target: &str) -> Result<(), String> {
    let corpus = folder().join("corpus").join(target);
    let found = made(&format!("corpus/{target}"))?;
    let least = made(&format!("minimized/{target}"))?;
    clear(&least)?;
    let mut command = cargo_fuzz(program, "run", target);
    command.arg(&least).arg(found).arg(&corpus).args(["--", "-set_cover_merge=1"]);
    command.arg(format!("-max_len={MAX_LENGTH}"));
    run(&mut command)?;
    keep(&least, &corpus)
}

/// Copies a sample of a folder's files, short ones and long ones, into another folder.
fn keep(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error| format!("cannot copy {} to {}: {error}", from.display(), to.display());
    let mut files = files(from)?;
    files.sort_by_key(|(path, length)| (*length, path.clone()));
    clear(to)?;
    let each = files.len().div_ceil(KEPT).max(1);
    for (path, _) in files.iter().step_by(each) {
        let name = path.file_name().unwrap_or_default();
        fs::copy(path, to.join(name)).map_err(failed)?;
    }
    let kept = files.len().div_ceil(each);
    println!("{kept} of {} inputs are kept in {}", files.len(), to.display());
    Ok(())
}

/// The files of a folder, with their lengths.
fn files(folder: &Path) -> Result<Vec<(PathBuf, u64)>, String> {
    let list = || -> std::io::Result<Vec<_>> {
        fs::read_dir(folder)?
            .map(|entry| entry.and_then(|entry| Ok((entry.path(), entry.metadata()?.len()))))
            .collect()
    };
    list().map_err(|error| format!("cannot list {}: {error}", folder.display()))
}

fn clear(folder: &Path) -> Result<(), String> {
    for (path, _) in files(folder)? {
        fs::remove_file(&path)
            .map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, clap::Error> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: Arguments,
        }
        let words = std::iter::once("fuzz").chain(line.split_whitespace());
        <Line as clap::Parser>::try_parse_from(words).map(|line| line.arguments)
    }

    #[test]
    fn targets_and_minutes_are_taken_in_any_order_and_nothing_else_is() {
        let all = parsed("").unwrap();
        assert_eq!((all.targets.len(), all.minutes, all.minimize), (0, 10, false));
        let one = parsed("--minutes 3 ring").unwrap();
        assert_eq!((one.targets, one.minutes), (vec!["ring".to_owned()], 3));
        assert!(parsed("ring --minimize").unwrap().minimize);
        for wrong in ["rings", "--minutes", "--minutes 0", "--minutes x", "--jobs 2"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        assert!(parsed("rings").unwrap_err().to_string().contains("ring, secrets"));
    }

    #[test]
    fn short_and_long_inputs_are_kept_and_old_ones_are_not() {
        let folder = root().join("target/tmp/xtask-fuzz");
        // An earlier run may have left the folder.
        let _ = fs::remove_dir_all(&folder);
        let (from, to) = (folder.join("from"), folder.join("to"));
        for path in [&from, &to] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(to.join("old"), "x").unwrap();
        for length in 0..2 * KEPT {
            fs::write(from.join(format!("{length:03}")), vec![0; length]).unwrap();
        }
        keep(&from, &to).unwrap();
        let mut kept: Vec<_> = files(&to).unwrap().into_iter().map(|(_, length)| length).collect();
        kept.sort();
        assert_eq!(kept, (0..2 * KEPT as u64).step_by(2).collect::<Vec<_>>());
    }

    #[test]
    fn each_target_has_a_corpus_and_a_program() {
        let targets = targets().unwrap();
        assert!(!targets.is_empty());
        for target in targets {
            assert!(!files(&folder().join("corpus").join(&target)).unwrap().is_empty(), "{target}");
            let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
            assert!(manifest.contains(&format!("fuzz_targets/{target}.rs")), "{target}");
        }
    }
}
