// SPDX-License-Identifier: MIT OR Apache-2.0

//! Man pages and shell completions, made from the command lines themselves.

use anyhow::Context;
use clap::{Arg, ArgGroup, Command, ValueEnum};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

/// A program that people call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// The command for people on a host
    Bellhop,
    /// The service
    Bellhopd,
    /// The program that runs in a guest
    BellhopGuest,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bellhopd, Self::Bellhop, Self::BellhopGuest];

    /// Its command line.
    #[must_use]
    pub fn command(self) -> Command {
        match self {
            Self::Bellhop => crate::cli::command(),
            Self::Bellhopd => bellhop_device::service::cli::command(),
            Self::BellhopGuest => bellhop_guest::cli::command(),
        }
    }

    /// The section of the manual that it belongs to.
    #[must_use]
    pub fn section(self) -> &'static str {
        match self {
            Self::Bellhopd => "8",
            Self::Bellhop | Self::BellhopGuest => "1",
        }
    }
}

/// The script with which a shell completes a program's command line.
#[must_use]
pub fn completions(command: &Command, shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut visible(command), command.get_name(), &mut script);
    script
}

/// The command without its hidden parts, which shells would offer too.
fn visible(command: &Command) -> Command {
    let copy = Command::new(command.get_name().to_owned())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()))
        .groups(command.get_groups().map(|group| visible_group(command, group)))
        .subcommands(subcommands(command).map(visible))
        .disable_help_flag(command.is_disable_help_flag_set());
    let copy = match command.get_version() {
        Some(version) => copy.version(version.to_owned()),
        None => copy,
    };
    match command.get_about() {
        Some(about) => copy.about(about.clone()),
        None => copy,
    }
}

/// A group of a command's arguments without its hidden ones.
fn visible_group(command: &Command, group: &ArgGroup) -> ArgGroup {
    let visible = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let ids: Vec<_> = visible.map(Arg::get_id).collect();
    let own = group.get_args().filter(|id| ids.contains(id)).cloned();
    ArgGroup::new(group.get_id().clone()).args(own).multiple(true)
}

/// A command's visible subcommands.
pub fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set())
}

/// A page of the manual.
#[derive(Debug)]
pub struct Page {
    /// Its file's name.
    pub file: String,
    /// The page, in roff.
    pub text: String,
}

/// The pages of a program and of its subcommands, the program's first.
///
/// # Errors
/// When a command line is not UTF-8.
pub fn pages(command: Command, section: &str) -> anyhow::Result<Vec<Page>> {
    // `help` has no page; built commands know their full names.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, section, &mut pages)?;
    Ok(pages)
}

/// The page of one of `bellhop`'s commands, by its words.
///
/// # Errors
/// When there is no such command.
pub fn page(words: &[String]) -> anyhow::Result<Page> {
    let program = Program::Bellhop;
    let name = std::iter::once("bellhop").chain(words.iter().map(String::as_str));
    let name = name.collect::<Vec<_>>().join("-");
    let file = format!("{name}.{}", program.section());
    let pages = pages(program.command(), program.section())?;
    pages.into_iter().find(|page| page.file == file).with_context(|| {
        format!("there is no command {}; `bellhop --help` lists them", words.join(" "))
    })
}

fn add_pages(command: &Command, section: &str, pages: &mut Vec<Page>) -> anyhow::Result<()> {
    let page = Man::new(command.clone())
        .section(section)
        .source(format!("Bellhop {}", env!("CARGO_PKG_VERSION")))
        .manual("Bellhop");
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = with_examples(&String::from_utf8(text)?);
    pages.push(Page { file: page.get_filename(), text });
    subcommands(command).try_for_each(|subcommand| add_pages(subcommand, section, pages))
}

/// The text after a command's help is examples, laid out by hand: their lines stay unwrapped.
fn with_examples(page: &str) -> String {
    page.replacen("\n.SH EXTRA\n", "\n.SH EXAMPLES\n.nf\n", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_examples_are_not_joined() {
        let command = Command::new("tool").after_help("Examples:\n  tool  one");
        let pages = pages(command, "1").unwrap();
        let [Page { file, text }] = &pages[..] else { panic!("{pages:?}") };
        assert_eq!(file, "tool.1");
        assert!(text.contains("\n.SH EXAMPLES\n.nf\nExamples:\n"), "{text}");
    }

    #[test]
    fn a_manual_page_is_found_by_the_words_of_its_command() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(page(&[]).unwrap().file, "bellhop.1");
        assert_eq!(page(&words("cdi generate")).unwrap().file, "bellhop-cdi-generate.1");
        let error = page(&words("nonsense")).unwrap_err().to_string();
        assert!(error.contains("no command nonsense"), "{error}");
        // A hidden command has no page.
        assert!(page(&words("daemon")).is_err());
    }

    #[test]
    fn every_shell_completes_the_commands_of_every_program() {
        for program in Program::ALL {
            let command = program.command();
            for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
                let script = String::from_utf8(completions(&command, shell)).unwrap();
                for subcommand in subcommands(&command) {
                    assert!(script.contains(subcommand.get_name()), "{shell}: {subcommand}");
                }
            }
        }
    }
}
