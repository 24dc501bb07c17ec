// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program of all targets, linked with libFuzzer. Coverage is in the stable compiler; the address sanitizer is, too,
//! behind an option that it takes only with `RUSTC_BOOTSTRAP`.

use crate::command::cargo;
use crate::workspace::root;
use cargo_metadata::Message;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Counts which code is reached, as libFuzzer wants it. Telling it what is compared there, too, takes half of the time of
/// targets that look at every byte of a picture or a page; and inputs are actions, which it does not find by constants.
const COVERAGE: [&str; 4] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
];
const SANITIZER: &str = "-Zsanitizer=address";
/// What is fuzzed, beside the targets. What targets hardly use has no counters: libFuzzer looks at them after each input, as
/// far as one of their page was ever changed, and tells two million features apart, eight of each counter.
const FUZZED: [&str; 9] = [
    "bellhop_device",
    "bellhop_guest",
    "bellhop_host_kmd",
    "bellhop_protocol",
    "bellhop_rfb",
    "bellhop_worker",
    "re_rav1d",
    "vhost",
    "virtio_queue",
];
/// What the sanitizer need not do: keep the frames of functions that have returned, which no reference outlives here; keep
/// much of what was freed; keep how each allocation came about, which takes a walk of the stack; and fill each.
const SANITIZES: &str = "detect_stack_use_after_return=0:quarantine_size_mb=4:\
    malloc_context_size=1:max_malloc_fill_size=0";

/// A program of all targets.
pub struct Program(PathBuf);

impl Program {
    /// Builds it for fuzzing: fast, all of it with the address sanitizer, what is fuzzed with coverage, every check on.
    ///
    /// # Errors
    /// When it does not build.
    pub fn for_fuzzing() -> Result<Self, String> {
        let mut cargo = cargo(&["test", "--package", "bellhop-fuzz", "--features", "libfuzzer"]);
        // With a target, build scripts and macros are built without these flags.
        cargo.args(["--profile", "fuzz", "--target", "host-tuple"]);
        cargo.arg("--target-dir").arg(root().join("target/fuzz"));
        cargo.env("RUSTFLAGS", SANITIZER).env("RUSTC_BOOTSTRAP", "1");
        cargo.env("BELLHOP_FUZZ_CRATES", FUZZED.join(" "));
        built(cargo)
    }

    /// Builds it to see whether each target runs: coverage of the targets alone, over what is built for the tests.
    ///
    /// # Errors
    /// When it does not build.
    pub fn for_a_look() -> Result<Self, String> {
        built(cargo(&["test", "--workspace", "--features", "bellhop-fuzz/libfuzzer"]))
    }

    /// Another program in its place.
    #[cfg(test)]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The program as a command for one target.
    pub fn of(&self, target: &str) -> Command {
        let Self(path) = self;
        let mut command = Command::new(path);
        command.env("BELLHOP_FUZZ_TARGET", target).current_dir(root());
        command.env("ASAN_OPTIONS", SANITIZES);
        command
    }
}

/// Has cargo build the program, and returns where it is.
fn built(mut cargo: Command) -> Result<Program, String> {
    cargo.env("RUSTC_WRAPPER", root().join("integration/fuzz/instrument.sh"));
    cargo.env("BELLHOP_FUZZ_FLAGS", COVERAGE.join(" "));
    cargo.args(["--locked", "--no-run", "--test", "libfuzzer"]);
    cargo.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let built = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.status.success() {
        return Err("the targets do not build with libFuzzer, which takes a C++ compiler".into());
    }
    let program =
        Message::parse_stream(Cursor::new(built.stdout)).find_map(|message| {
            match message.ok()? {
                Message::CompilerArtifact(artifact) => artifact.executable,
                _ => None,
            }
        });
    Ok(Program(program.ok_or("cargo names no program of fuzz targets")?.into()))
}
