// SPDX-License-Identifier: MIT OR Apache-2.0

//! Shell completions.

use crate::folder;
use anyhow::Context;
use bellhop_integration::manual;
use clap::Command;
use clap_complete::Shell;
use std::path::Path;

/// Where a shell looks for the completions of a packaged program.
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
        folder::make(tree, place.folder)?;
        let path = tree.join(place.path(name));
        std::fs::write(&path, manual::completions(command, place.shell))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
