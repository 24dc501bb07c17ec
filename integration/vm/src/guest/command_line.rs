// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a guest's shell runs.

use super::archive::Entry;
use anyhow::Context;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A line of shell with these words. The kernel's own command line is too short.
pub fn command_line<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> anyhow::Result<Entry> {
    let mut line = shlex::bytes::try_join(words.into_iter().map(OsStrExt::as_bytes))
        .context("an argument for the guest has a zero byte in it")?;
    line.push(b'\n');
    Ok(Entry::Text(line))
}
