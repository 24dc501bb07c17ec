// SPDX-License-Identifier: MIT OR Apache-2.0

//! Folders of the tree.

use anyhow::Context;
use std::path::{Path, PathBuf};

/// Makes a folder of the tree.
pub fn make(tree: &Path, path: &str) -> anyhow::Result<PathBuf> {
    let folder = tree.join(path);
    std::fs::create_dir_all(&folder).with_context(|| {
        format!("cannot create {}; name a folder that you may write", folder.display())
    })?;
    Ok(folder)
}
