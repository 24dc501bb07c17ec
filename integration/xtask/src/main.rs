//! Commands for people who work on Bellhop: `cargo xtask COMMAND`.

mod mutants;
mod schema;
mod steps;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
Commands for people who work on Bellhop

Usage: cargo xtask COMMAND

Commands:
  test     everything that must pass: unit, property and whole-system tests, the ordering models,
           and that these notice every ordering that is weakened
  mutants  the last of these alone, with a table
  check    formatting, lints and documentation, with warnings as errors
  help     this text

They need nothing but a Rust toolchain; cargo fetches and builds what else they use.";

fn main() -> ExitCode {
    let command = std::env::args().nth(1);
    let done = match command.as_deref() {
        Some("test") => steps::run(&steps::TEST),
        Some("mutants") => mutants::run(),
        Some("check") => steps::run(&steps::CHECK),
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
