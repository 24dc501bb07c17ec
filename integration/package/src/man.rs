//! Man pages.

use crate::{Program, folder, subcommands};
use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use std::path::Path;

/// Writes the pages of a program and its subcommands.
pub fn write(program: &Program, tree: &Path) -> anyhow::Result<()> {
    let folder = folder(tree, &format!("usr/share/man/man{}", program.section))?;
    // There are no pages for `help`; built commands know their full names.
    let mut command = program.command.clone().disable_help_subcommand(true);
    command.build();
    write_pages(&command, program.section, &folder)
}

fn write_pages(command: &Command, section: &str, folder: &Path) -> anyhow::Result<()> {
    let page = Man::new(command.clone())
        .section(section)
        .source(format!("Bellhop {}", env!("CARGO_PKG_VERSION")))
        .manual("Bellhop");
    let mut text = Vec::new();
    page.render(&mut text)?;
    let path = folder.join(page.get_filename());
    std::fs::write(&path, with_examples(&String::from_utf8(text)?))
        .with_context(|| format!("cannot write {}", path.display()))?;
    subcommands(command).try_for_each(|subcommand| write_pages(subcommand, section, folder))
}

/// What follows a command's help are examples, laid out by hand: their lines stay as they are.
fn with_examples(page: &str) -> String {
    page.replacen("\n.SH EXTRA\n", "\n.SH EXAMPLES\n.nf\n", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_examples_are_not_joined() {
        let tree = tempfile::tempdir().unwrap();
        let command = Command::new("tool").after_help("Examples:\n  tool  one");
        write(&Program { command, section: "1" }, tree.path()).unwrap();
        let page = std::fs::read_to_string(tree.path().join("usr/share/man/man1/tool.1")).unwrap();
        assert!(page.contains("\n.SH EXAMPLES\n.nf\nExamples:\n"), "{page}");
    }
}
