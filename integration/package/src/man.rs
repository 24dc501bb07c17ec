// SPDX-License-Identifier: MIT OR Apache-2.0

//! Man pages.

use crate::folder;
use anyhow::Context;
use bellhop_integration::manual::{self, Page, Program};
use std::path::Path;

/// Writes the pages of a program and its subcommands.
pub fn write(program: Program, tree: &Path) -> anyhow::Result<()> {
    let folder = folder::make(tree, &format!("usr/share/man/man{}", program.section()))?;
    for Page { file, text } in manual::pages(program.command(), program.section())? {
        let path = folder.join(file);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
