// SPDX-License-Identifier: MIT OR Apache-2.0

//! Commands for people who work on Bellhop: `cargo xtask COMMAND`.

mod check;
mod command;
mod cost;
mod dist;
mod failures;
mod fuzz;
mod kernels;
mod lanes;
mod left_out;
mod models;
mod mutants;
mod packages;
mod schema;
mod size;
mod steps;
mod swaps;
mod tree;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Commands for people who work on Bellhop
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "\
They need a Rust toolchain; cargo fetches and builds everything else. `test` and `dist` can do more
with some Debian packages: run as root, they install these; otherwise they name them."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every test: unit, property and whole-system tests, the ordering models and their mutants
    Test,
    /// Run the ordering models alone
    Models {
        /// Try every interleaving; `test` leaves some out in one of the models
        #[arg(long)]
        deep: bool,
    },
    /// Weaken each ordering in turn, and print which model notices
    Mutants,
    /// Count the instructions of a submission, by part, and compare them with their budgets
    Cost(cost::Arguments),
    /// Check formatting, lints, documentation, licences, rooms and orderings, with warnings as errors
    Check,
    /// Show how the files of each crate depend on each other: circles, full folders, arrows that point up
    Rooms {
        /// Crates to describe in full, instead of a line for each crate
        #[arg(value_name = "CRATE")]
        names: Vec<String>,
        /// Also print every arrow: which file names what of which other
        #[arg(long, requires = "names")]
        arrows: bool,
    },
    /// Count the lines of Rust, by crate or subject, and by what they are for
    Size(size::Arguments),
    /// Compile the kernels of the repository to SPIR-V, with glslang
    Kernels,
    /// Fuzz the device with hostile guests, each target for a while
    Fuzz(fuzz::Arguments),
    /// Make the packages for users: an archive and a Debian package, in target/dist
    Dist,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Test => left_out::told(|| steps::run(&steps::TEST)),
        Command::Models { deep: true } => steps::run(&steps::DEEP_MODELS),
        Command::Models { deep: false } => steps::run(&steps::MODELS),
        Command::Mutants => mutants::run(),
        Command::Cost(arguments) => cost::command(&arguments),
        Command::Check => steps::run(&steps::CHECK),
        Command::Rooms { names, arrows } => check::rooms::print(&names, arrows),
        Command::Size(arguments) => size::command(&arguments),
        Command::Kernels => kernels::compile(),
        Command::Fuzz(arguments) => fuzz::command(&arguments),
        Command::Dist => steps::run(&steps::DIST),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    #[test]
    fn help_and_unknown_commands_run_nothing() {
        Cli::command().debug_assert();
        let wrong = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap_err().kind();
        let commands = [
            "test", "models", "mutants", "cost", "check", "rooms", "size", "kernels", "fuzz",
            "dist",
        ];
        for command in commands {
            assert_eq!(wrong(&format!("xtask {command} --help")), ErrorKind::DisplayHelp);
            assert_eq!(wrong(&format!("xtask {command} --deeper")), ErrorKind::UnknownArgument);
        }
    }
}
