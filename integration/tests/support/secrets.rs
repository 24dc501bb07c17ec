// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests with a security node.

use super::{conformance, outcomes};
use std::io::Write;
use std::process::Command;
use tempfile::NamedTempFile;

/// The configuration of a security node.
pub const NODE: &str = "[adapter]\nsecurity_nodes = 1\n";

/// The behaviour that only guests with kernels of their own show.
const OF_KERNELS: &str = "security.protected.kernel";

/// Sees every behaviour of a security node, as this command reports.
#[track_caller]
pub fn see_every_behaviour(command: &mut Command, has_kernels: bool) {
    let seen = conformance(command);
    let missing: &[&str] = if has_kernels { &[] } else { &[OF_KERNELS] };
    let absent: Vec<_> = outcomes(&seen, "not-offered").map(|check| &check["id"]).collect();
    assert_eq!(absent, missing);
    assert_eq!(outcomes(&seen, "passed").count(), 12 - missing.len(), "{seen:#}");
}

/// Sees them in a guest that this command starts, without kernels.
#[track_caller]
pub fn see_every_behaviour_in(command: &mut Command) {
    let mut file = NamedTempFile::new().unwrap();
    writeln!(file, "{NODE}kernels = \"off\"").unwrap();
    command.arg("--config").arg(file.path()).args(["--", "selftest", "security.", "--json"]);
    see_every_behaviour(command, false);
}
