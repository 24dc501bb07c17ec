// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lays out the contents of a package of Bellhop, as a tree that stands for the root of the file system.
//! Man pages and shell completions are generated from the command lines.

mod completions;
mod files;
mod folder;
mod man;
mod third_party;

use bellhop_integration::manual::Program;
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Lays out the files of a Bellhop package.
#[derive(Debug, Parser)]
#[command(name = "bellhop-package", version)]
struct Arguments {
    /// The folder that stands for the root of the file system
    tree: PathBuf,
    /// Where the built programs are
    #[arg(long, value_name = "FOLDER")]
    programs: PathBuf,
}

fn main() -> ExitCode {
    match write(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bellhop-package: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn write(Arguments { tree, programs }: &Arguments) -> anyhow::Result<()> {
    files::write(tree)?;
    files::write_programs(programs, tree)?;
    write_pages(tree)
}

/// Writes the man pages and completions.
fn write_pages(tree: &Path) -> anyhow::Result<()> {
    for program in Program::ALL {
        man::write(program, tree)?;
        completions::write(&program.command(), tree)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_integration::manual::subcommands;

    #[test]
    fn every_program_and_subcommand_has_a_man_page() {
        let tree = tempfile::tempdir().unwrap();
        write_pages(tree.path()).unwrap();
        let page = |name: &str, section: &str| {
            let path = format!("usr/share/man/man{section}/{name}.{section}");
            std::fs::read_to_string(tree.path().join(&path)).expect(&path)
        };
        for program in Program::ALL {
            let (command, section) = (program.command(), program.section());
            let name = command.get_name();
            let text = page(name, section);
            for subcommand in subcommands(&command) {
                let full = format!("{name}-{}", subcommand.get_name());
                assert!(text.contains(&full.replace('-', "\\-")), "{name} lacks {full}");
                assert!(!page(&full, section).is_empty());
            }
        }
    }

    #[test]
    fn every_shell_completes_every_subcommand_and_option() {
        let tree = tempfile::tempdir().unwrap();
        write_pages(tree.path()).unwrap();
        for command in Program::ALL.map(Program::command) {
            let name = command.get_name();
            for path in completions::PLACES.map(|place| place.path(name)) {
                let text = std::fs::read_to_string(tree.path().join(&path)).expect(&path);
                for subcommand in subcommands(&command) {
                    assert!(text.contains(subcommand.get_name()), "{path}: {subcommand}");
                }
                let options = command.get_arguments().filter(|option| !option.is_hide_set());
                for long in options.filter_map(|option| option.get_long()) {
                    assert!(text.contains(long), "{path} lacks --{long}");
                }
            }
        }
    }

    #[test]
    fn what_is_hidden_from_people_is_not_offered_to_them() {
        let tree = tempfile::tempdir().unwrap();
        write_pages(tree.path()).unwrap();
        let command = bellhop_integration::cli::command();
        let hidden: Vec<_> =
            command.get_subcommands().filter(|subcommand| subcommand.is_hide_set()).collect();
        assert!(!hidden.is_empty());
        assert!(!tree.path().join("usr/share/man/man1/bellhop-daemon.1").exists());
        for path in completions::PLACES.map(|place| place.path("bellhop")) {
            let text = std::fs::read_to_string(tree.path().join(&path)).unwrap();
            for subcommand in &hidden {
                // Shells that do not mention a subcommand still name functions and cases after it.
                let name = subcommand.get_name();
                let traces = [
                    subcommand.get_about().unwrap().to_string(),
                    format!("bellhop__{name}"),
                    format!("bellhop__subcmd__{name}"),
                ];
                for trace in traces {
                    assert!(!text.contains(&trace), "{path} offers {name}");
                }
            }
        }
    }
}
