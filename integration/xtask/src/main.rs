//! Commands for people who work on Bellhop: `cargo xtask COMMAND`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const USAGE: &str = "\
Commands for people who work on Bellhop

Usage: cargo xtask COMMAND

Commands:
  test    everything that must pass: unit, property and whole-system tests, the ordering models
  check   formatting, lints and documentation, with warnings as errors
  help    this text

Both need nothing but a Rust toolchain; cargo fetches and builds what else they use.";

fn main() -> ExitCode {
    let command = std::env::args().nth(1);
    let steps: &[Step] = match command.as_deref() {
        Some("test") => &TEST,
        Some("check") => &CHECK,
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    for (number, step) in steps.iter().enumerate() {
        println!("[{}/{}] {}", number + 1, steps.len(), step.what);
        let start = Instant::now();
        if let Err(error) = step.run() {
            eprintln!("cargo xtask: {}: {error}", step.what);
            return ExitCode::FAILURE;
        }
        println!("[{}/{}] done in {:.0?}", number + 1, steps.len(), start.elapsed());
    }
    ExitCode::SUCCESS
}

/// One cargo command.
struct Step {
    what: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const TEST: [Step; 2] = [
    Step {
        what: "unit, property and whole-system tests",
        arguments: &["test", "--workspace", "--locked"],
        environment: &[],
    },
    Step {
        what: "ordering models (loom)",
        arguments: &[
            "test",
            "--package",
            "bellhop-protocol",
            "--locked",
            "--release",
            "--test",
            "handoff",
            "--target-dir",
            "target/loom",
        ],
        // The models replace the atomics under `cfg(loom)`, which must not reach other crates'
        // artefacts: hence the target folder of its own.
        environment: &[("RUSTFLAGS", "--cfg loom")],
    },
];

const CHECK: [Step; 3] = [
    Step { what: "formatting", arguments: &["fmt", "--all", "--check"], environment: &[] },
    Step {
        what: "lints",
        arguments: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "--deny",
            "warnings",
        ],
        environment: &[],
    },
    Step {
        what: "documentation",
        arguments: &["doc", "--workspace", "--no-deps", "--locked"],
        environment: &[("RUSTDOCFLAGS", "--deny warnings")],
    },
];

impl Step {
    fn run(&self) -> Result<(), String> {
        let status = Command::new(env!("CARGO"))
            .args(self.arguments)
            .envs(self.environment.iter().copied())
            .current_dir(root())
            .status()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("cargo {} failed", self.arguments.join(" "))),
        }
    }
}

/// The workspace's root, wherever the command was called from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
