//! Commands for people who work on Bellhop: `cargo xtask COMMAND`.

mod command;
mod dist;
mod fuzz;
mod mutants;
mod packages;
mod schema;
mod steps;
mod swaps;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
Commands for people who work on Bellhop

Usage: cargo xtask COMMAND

Commands:
  test     everything that must pass: unit, property and whole-system tests, the ordering models,
           and that these notice every ordering that is weakened
  models   the models alone; `--deep` leaves no interleaving out, where `test` does in one of them
  mutants  whether they notice, with a table
  check    formatting, lints and documentation, with warnings as errors
  fuzz     hostile guests that a fuzzer makes up: `cargo xtask fuzz --help`
  dist     what people install: an archive and a Debian package, in target/dist
  help     this text

They need a Rust toolchain; cargo fetches and builds what else they use. `test` and `dist` can do
more with some Debian packages: root has them installed, others are told which.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("test") => steps::run(&steps::TEST),
        Some("models") if arguments.get(1).is_some_and(|argument| argument == "--deep") => {
            steps::run(&steps::DEEP_MODELS)
        }
        Some("models") => steps::run(&steps::MODELS),
        Some("mutants") => mutants::run(),
        Some("check") => steps::run(&steps::CHECK),
        Some("fuzz") => fuzz::command(&arguments[1..]),
        Some("dist") => steps::run(&steps::DIST),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's root, wherever the command was called from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
