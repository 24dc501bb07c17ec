// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tests of the workspace: those in VMs beside all others, and those that measure after both.
//!
//! A VM is busy with one processor at most and waits now and then, and so do the other tests towards their end;
//! beside each other they keep all processors busy.

use crate::command::{self, cargo};
use crate::workspace::root;
use cargo_metadata::{MetadataCommand, Target};
use std::collections::BTreeSet;
use std::process::Output;
use std::thread;

/// The tests that boot VMs.
const VMS: &str = "vm";
/// The tests that another test's load would change.
const MEASURED: &str = "measured";

/// Builds all tests, and runs them.
///
/// # Errors
/// When one does not build, or fails.
pub fn run() -> Result<(), String> {
    command::run(&mut cargo_test(&["--no-run"]))?;
    let others = others()?;
    thread::scope(|scope| {
        // One at a time: each VM has a processor of its own, and the other tests have the rest.
        let vms = scope.spawn(|| {
            let mut tests = cargo_test(&["--test", VMS, "--", "--test-threads", "1"]);
            tests.output().map_err(|error| format!("cannot run cargo: {error}"))
        });
        let mut tests = cargo_test(&["--lib", "--bins"]);
        tests.args(others.iter().flat_map(|name| ["--test", name]));
        let ran = command::run(&mut tests);
        println!("tests in VMs, which have run meanwhile:");
        let vms = vms.join().map_err(|_| "the thread that runs tests in VMs ended".to_owned())?;
        ran.and(pass_on(&vms?))
    })?;
    command::run(&mut cargo_test(&["--test", MEASURED]))?;
    command::run(&mut cargo_test(&["--doc"]))
}

/// Cargo's test command for the workspace, always of all packages, so that all are built alike.
fn cargo_test(arguments: &[&str]) -> std::process::Command {
    let mut command = cargo(&["test", "--workspace", "--locked"]);
    command.args(arguments);
    command
}

/// The tests that are neither of VMs nor measured.
fn others() -> Result<BTreeSet<String>, String> {
    let mut metadata = MetadataCommand::new();
    metadata.manifest_path(root().join("Cargo.toml")).no_deps();
    let metadata = metadata.exec().map_err(|error| format!("cargo metadata: {error}"))?;
    let names: BTreeSet<String> = metadata
        .workspace_packages()
        .iter()
        .flat_map(|package| &package.targets)
        .filter(|target| Target::is_test(target))
        .map(|target| target.name.clone())
        .collect();
    match [VMS, MEASURED].iter().find(|name| !names.contains(**name)) {
        Some(missing) => Err(format!("there are no tests of the name {missing:?}")),
        None => Ok(names.into_iter().filter(|name| ![VMS, MEASURED].contains(&&**name)).collect()),
    }
}

/// Prints what a command printed, and fails if it did.
fn pass_on(output: &Output) -> Result<(), String> {
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err("tests in VMs failed".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_test_runs_beside_the_vms() {
        let others = others().unwrap();
        for name in ["guests", "hostile", "command", "kernel", "gpu", "driver", "handoff", "replay"]
        {
            assert!(others.contains(name), "{name}");
        }
        assert!(!others.contains(VMS) && !others.contains(MEASURED));
    }
}
