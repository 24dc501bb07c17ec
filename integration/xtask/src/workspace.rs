// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where the workspace is.

use std::path::{Path, PathBuf};

/// The workspace's root, from any folder that the command was called in.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
