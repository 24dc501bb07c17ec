// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask fuzz`: the targets of `integration/fuzz` under libFuzzer.

mod program;

use crate::command::{exists, run};
use crate::left_out;
use crate::workspace::root;
use clap::Args;
use program::Program;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;

/// Most bytes of an input: some hundred actions.
const MAX_LENGTH: u32 = 2048;
/// Most seconds that an input may take before it is a hang.
const HANG: u32 = 60;
/// The seconds that a look at a target takes, beside the inputs of its corpus.
const LOOK: u32 = 1;
/// Targets over threads that outlive an input. Where these are just ending or waiting, what they hold looks leaked.
const THREADED: [&str; 2] = ["vhost_user", "virtqueue"];
/// Targets whose inputs reach so much code that libFuzzer's count of how rare each part is takes much of the time.
const WIDE: [&str; 8] =
    ["bar", "burst", "codec", "control_queue", "page_tables", "ring", "vhost_user", "virtqueue"];
/// Most inputs of a corpus that `--minimize` keeps: some of each length.
const KEPT: usize = 64;

/// The arguments of `cargo xtask fuzz`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each target plays a hostile guest; docs/fuzzing.md describes them. The inputs that reach new code are kept
in target/fuzz/corpus. An input that a target does not survive is kept in target/fuzz/artifacts: copy it to
integration/fuzz/corpus/TARGET, where `cargo xtask test` runs it too, and fix the cause.

libFuzzer takes a C++ compiler.")]
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
    let program = Program::for_fuzzing()?;
    for target in chosen {
        if arguments.minimize {
            minimize(&program, target)?;
        } else {
            fuzz(&program, target, arguments.minutes)?;
        }
    }
    Ok(())
}

/// Has libFuzzer run each target for a moment, so that a target that cannot run is noticed. Without a C++ compiler that is
/// left out, unless nothing may be.
///
/// # Errors
/// When a target does not build, or does not survive.
pub fn look() -> Result<(), String> {
    let has_compiler = ["c++", "g++", "clang++"].into_iter().any(exists);
    let must_run = ["CI", "BELLHOP_REQUIRE_ALL"].map(std::env::var_os).iter().any(Option::is_some);
    if !has_compiler && !must_run {
        let (why, how) = ("there is no C++ compiler", "apt-get install g++");
        return left_out::skip("cargo xtask fuzz", why, "libFuzzer runs no target", how);
    }
    look_at_all(&Program::for_a_look()?)
}

fn look_at_all(program: &Program) -> Result<(), String> {
    let looks = targets()?.into_iter().map(|target| Look::begin(program, target));
    // All at once: each has little to do, and a clock of its own.
    let looks = looks.collect::<Result<Vec<_>, _>>()?;
    let ends: Vec<_> = looks.into_iter().map(Look::end).collect();
    ends.into_iter().collect()
}

/// A target that libFuzzer runs for a moment.
struct Look {
    target: String,
    running: Child,
    /// What libFuzzer says.
    log: PathBuf,
}

impl Look {
    fn begin(program: &Program, target: String) -> Result<Self, String> {
        let artifacts = made(&format!("artifacts/{target}"))?;
        // What it finds beyond the corpus goes into the first folder.
        let found = made(&format!("look/{target}"))?;
        clear(&found)?;
        let log = found.with_extension("log");
        let mut command = program.of(&target);
        command.arg(found).arg(folder().join("corpus").join(&target)).args(limits(&artifacts));
        // The same inputs each time, as far as it comes: what fails is what has changed.
        command.args([format!("-max_total_time={LOOK}"), "-seed=1".to_owned()]);
        let started = File::create(&log).and_then(|file| command.stderr(file).spawn());
        let running = started.map_err(|error| format!("cannot start {target}: {error}"))?;
        Ok(Self { target, running, log })
    }

    fn end(self) -> Result<(), String> {
        let Self { target, mut running, log } = self;
        let ended = running.wait().and_then(|status| Ok((status, fs::read_to_string(log)?)));
        let (status, said) = ended.map_err(|error| format!("cannot see {target} end: {error}"))?;
        println!("{target}: {}", said.lines().last().unwrap_or_default());
        if status.success() { Ok(()) } else { Err(format!("{target} does not survive:\n{said}")) }
    }
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

/// The targets' names: those of the corpora. A test of the targets compares both.
fn targets() -> Result<Vec<String>, String> {
    let folder = folder().join("corpus");
    let named = |(path, _): (PathBuf, u64)| Some(path.file_name()?.to_string_lossy().into_owned());
    let mut names: Vec<_> = files(&folder)?.into_iter().filter_map(named).collect();
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

/// What an input may be and do, and where one goes that does more.
fn limits(artifacts: &Path) -> [String; 4] {
    [
        // To name the functions that are reached first takes longer than to reach them.
        "-print_funcs=0".to_owned(),
        format!("-max_len={MAX_LENGTH}"),
        format!("-timeout={HANG}"),
        format!("-artifact_prefix={}/", artifacts.display()),
    ]
}

fn fuzz(program: &Program, target: &str, minutes: u32) -> Result<(), String> {
    let corpus = made(&format!("corpus/{target}"))?;
    let artifacts = made(&format!("artifacts/{target}"))?;
    let mut command = program.of(target);
    command.arg(corpus).arg(folder().join("corpus").join(target)).args(limits(&artifacts));
    command.args([
        format!("-max_total_time={}", minutes * 60),
        "-print_final_stats=1".to_owned(),
        format!("-detect_leaks={}", u8::from(!THREADED.contains(&target))),
        format!("-entropic={}", u8::from(!WIDE.contains(&target))),
    ]);
    println!("{target}, for {minutes} minutes");
    run(&mut command)
}

/// Replaces a target's corpus by a sample of the fewest inputs that reach all code that was reached.
fn minimize(program: &Program, target: &str) -> Result<(), String> {
    let corpus = folder().join("corpus").join(target);
    let found = made(&format!("corpus/{target}"))?;
    let least = made(&format!("minimized/{target}"))?;
    clear(&least)?;
    let mut command = program.of(target);
    command.arg(&least).arg(found).arg(&corpus).arg("-set_cover_merge=1");
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
    use std::os::unix::fs::PermissionsExt as _;

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
    fn a_target_that_does_not_survive_is_named_with_what_was_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let script = "#!/bin/sh\necho \"this is $BELLHOP_FUZZ_TARGET\" >&2\n\
                      test $BELLHOP_FUZZ_TARGET != ring\n";
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let error = look_at_all(&Program::at(path)).unwrap_err();
        assert_eq!(error, "ring does not survive:\nthis is ring\n");
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
}
