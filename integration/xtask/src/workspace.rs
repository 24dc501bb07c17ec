// SPDX-License-Identifier: MIT OR Apache-2.0

//! The path of the workspace.

use std::path::{Path, PathBuf};

/// The workspace's root, whatever the current folder.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
