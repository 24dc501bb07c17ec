// SPDX-License-Identifier: MIT OR Apache-2.0

//! The static `bellhop-guest` that tests put into VMs and containers.

use crate::command::{cargo, run};
use crate::workspace::root;
use std::path::PathBuf;
use std::process::Command;

/// The variable by which `bellhop` and tests find the program. Without it each of them has cargo look whether it is
/// up to date.
const VARIABLE: &str = "BELLHOP_GUEST_BINARY";
const PACKAGE: &str = "bellhop-guest";
const PROFILE: &str = "guest";
/// The build target; naming one keeps its flags from build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds the program, as `bellhop` does by itself and at the same place.
///
/// # Errors
/// When it does not build.
pub fn build() -> Result<(), String> {
    let mut build = cargo(&["build", "--locked", "--package", PACKAGE, "--profile", PROFILE]);
    build.args(["--target", TARGET, "--target-dir"]).arg(folder());
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    run(build.env_remove("CARGO_ENCODED_RUSTFLAGS"))
}

/// Has a command find the program.
pub fn tell_of(command: &mut Command) -> &mut Command {
    command.env(VARIABLE, folder().join(TARGET).join(PROFILE).join(PACKAGE))
}

fn folder() -> PathBuf {
    root().join("target/guest")
}
