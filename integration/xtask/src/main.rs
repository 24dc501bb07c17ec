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

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Commands for people who work on Bellhop
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "\
They need a Rust toolchain; cargo fetches and builds what else they use. `test` and `dist` can do
more with some Debian packages: root has them installed, others are told which."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything that must pass: unit, property and whole-system tests, the ordering models, and that
    /// these notice every ordering that is weakened
    Test,
    /// The ordering models alone
    Models {
        /// Leave no interleaving out, where `test` does in one of the models
        #[arg(long)]
        deep: bool,
    },
    /// Whether the models notice weaker orderings, with a table
    Mutants,
    /// Formatting, lints and documentation, with warnings as errors
    Check,
    /// Hostile guests that a fuzzer makes up: `cargo xtask fuzz --help`
    #[command(disable_help_flag = true)]
    Fuzz {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// What people install: an archive and a Debian package, in target/dist
    Dist,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Test => steps::run(&steps::TEST),
        Command::Models { deep: true } => steps::run(&steps::DEEP_MODELS),
        Command::Models { deep: false } => steps::run(&steps::MODELS),
        Command::Mutants => mutants::run(),
        Command::Check => steps::run(&steps::CHECK),
        Command::Fuzz { arguments } => fuzz::command(&arguments),
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

/// The workspace's root, wherever the command was called from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    #[test]
    fn asking_for_help_or_something_unknown_does_nothing_else() {
        Cli::command().debug_assert();
        let wrong = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap_err().kind();
        for command in ["test", "models", "mutants", "check", "dist"] {
            assert_eq!(wrong(&format!("xtask {command} --help")), ErrorKind::DisplayHelp);
            assert_eq!(wrong(&format!("xtask {command} --deeper")), ErrorKind::UnknownArgument);
        }
        let fuzz = Cli::parse_from(["xtask", "fuzz", "--help"]).command;
        assert!(matches!(fuzz, Command::Fuzz { arguments } if arguments == ["--help"]));
    }
}
