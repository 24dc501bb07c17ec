// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tests of the workspace, in two lanes: tests in VMs, and beside them all tests that tolerate load.

use crate::command::{self, cargo};
use crate::workspace::root;
use crate::{failures, left_out};
use cargo_metadata::{MetadataCommand, Target};
use std::collections::BTreeSet;
use std::time::Instant;

/// The tests that boot VMs.
const VMS: &str = "vm";
/// The tests that the load of other tests would change.
const MEASURED: &str = "measured";

/// Builds all tests.
///
/// # Errors
/// When one does not build.
pub fn build() -> Result<(), String> {
    command::run(&mut cargo_test(&["--no-run"]))
}

/// Runs the tests in VMs, one at a time: a VM keeps one processor busy, and the tests of the other lane have the rest.
/// Prefixes each line of their output with the seconds since they began: other tests print, too.
///
/// # Errors
/// When one fails.
pub fn vms() -> Result<(), String> {
    let start = Instant::now();
    let mut tests = cargo_test(&["--test", VMS, "--", "--test-threads", "1"]);
    failures::told(&mut tests, |line| println!("VMs, {:>4} s: {line}", start.elapsed().as_secs()))
}

/// Runs the tests that are neither in VMs nor measured.
///
/// # Errors
/// When one fails.
pub fn others() -> Result<(), String> {
    // All tests run even if one fails, so that one run shows every failure.
    let mut tests = cargo_test(&["--no-fail-fast", "--lib", "--bins"]);
    tests.args(names_of_others()?.iter().flat_map(|name| ["--test", name]));
    failures::told(&mut tests, |line| println!("{line}"))
}

/// Runs the tests that measure, and those in the documentation.
///
/// # Errors
/// When one fails.
pub fn measured() -> Result<(), String> {
    failures::told(&mut cargo_test(&["--test", MEASURED]), |line| println!("{line}"))?;
    command::run(&mut cargo_test(&["--doc"]))
}

/// Cargo's test command, always for all packages, so that features and builds do not change between calls.
fn cargo_test(arguments: &[&str]) -> std::process::Command {
    let mut command = cargo(&["test", "--workspace", "--locked"]);
    left_out::tell_of(command.args(arguments));
    command
}

/// The test programs that are neither of VMs nor measured.
fn names_of_others() -> Result<BTreeSet<String>, String> {
    let mut metadata = MetadataCommand::new();
    metadata.manifest_path(root().join("Cargo.toml")).no_deps();
    let metadata = metadata.exec().map_err(|error| format!("cargo metadata: {error}"))?;
    let names: BTreeSet<String> = metadata
        .workspace_packages()
        .iter()
        .flat_map(|package| &package.targets)
        .filter(|target| Target::is_test(target) && target.required_features.is_empty())
        .map(|target| target.name.clone())
        .collect();
    match [VMS, MEASURED].iter().find(|name| !names.contains(**name)) {
        Some(missing) => Err(format!("there are no tests of the name {missing:?}")),
        None => Ok(names.into_iter().filter(|name| ![VMS, MEASURED].contains(&&**name)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_test_runs_beside_the_vms() {
        let others = names_of_others().unwrap();
        for name in ["guests", "hostile", "command", "kernel", "gpu", "driver", "handoff", "replay"]
        {
            assert!(others.contains(name), "{name}");
        }
        assert!(!others.contains(VMS) && !others.contains(MEASURED));
    }
}
