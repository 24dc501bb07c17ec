//! Shell completions.

use crate::{folder, subcommands};
use anyhow::Context;
use clap::Command;
use clap_complete::{Shell, generate};
use std::path::Path;

/// Where a shell looks for the completions of a program that a package brings.
pub struct Place {
    shell: Shell,
    folder: &'static str,
    prefix: &'static str,
    suffix: &'static str,
}

/// The shells.
pub const PLACES: [Place; 3] = [
    Place {
        shell: Shell::Bash,
        folder: "usr/share/bash-completion/completions",
        prefix: "",
        suffix: "",
    },
    Place {
        shell: Shell::Fish,
        folder: "usr/share/fish/vendor_completions.d",
        prefix: "",
        suffix: ".fish",
    },
    Place {
        shell: Shell::Zsh,
        folder: "usr/share/zsh/vendor-completions",
        prefix: "_",
        suffix: "",
    },
];

impl Place {
    /// The file for a program, from the root of the file system.
    pub fn path(&self, program: &str) -> String {
        format!("{}/{}{program}{}", self.folder, self.prefix, self.suffix)
    }
}

/// Writes the completions of a program.
pub fn write(command: &Command, tree: &Path) -> anyhow::Result<()> {
    let name = command.get_name();
    for place in PLACES {
        folder(tree, place.folder)?;
        let mut script = Vec::new();
        generate(place.shell, &mut visible(command), name, &mut script);
        let path = tree.join(place.path(name));
        std::fs::write(&path, script)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The command as its help shows it: shells would offer what is hidden, too.
fn visible(command: &Command) -> Command {
    let copy = Command::new(command.get_name().to_owned())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()))
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
