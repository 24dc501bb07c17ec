// SPDX-License-Identifier: MIT OR Apache-2.0

//! The commands that consist of steps.

use crate::check::{deny, documents, orderings, rooms, sleeps, spdx, waits};
use crate::command::{self, cargo};
use crate::{cost, dist, fuzz, lanes, mutants, packages};
use std::thread;
use std::time::Instant;

/// One thing that must pass.
pub struct Step {
    what: &'static str,
    action: Action,
}

enum Action {
    Cargo {
        arguments: &'static [&'static str],
        environment: &'static [(&'static str, &'static str)],
    },
    Call(fn() -> Result<(), String>),
    /// Tests in VMs, and steps beside them: a VM keeps at most one processor busy.
    BesideVms(&'static [Step]),
}

/// `cargo xtask test`.
pub const TEST: [Step; 4] = [
    Step { what: "programs that tests use", action: Action::Call(packages::install) },
    Step { what: "programs and tests", action: Action::Call(lanes::build) },
    Step { what: "tests in VMs, and meanwhile all others", action: Action::BesideVms(&MEANWHILE) },
    Step { what: "tests that measure, documentation", action: Action::Call(lanes::measured) },
];

/// Steps beside VMs: their results do not depend on the machine's load.
static MEANWHILE: [Step; 6] = [
    Step { what: "unit, property and whole-system tests", action: Action::Call(lanes::others) },
    Step { what: "instructions of a submission", action: Action::Call(cost::check) },
    models(&[LOOM]),
    Step { what: "mutants of the orderings", action: Action::Call(mutants::run) },
    Step { what: "fuzz targets, a moment each", action: Action::Call(fuzz::look) },
    Step { what: "the other tests in VMs", action: Action::Call(lanes::later_vms) },
];

/// `cargo xtask models`.
pub const MODELS: [Step; 1] = [models(&[LOOM])];

/// `cargo xtask models --deep`.
pub const DEEP_MODELS: [Step; 1] = [models(&[LOOM, ("BELLHOP_DEEP_MODELS", "1")])];

const LOOM: (&str, &str) = ("RUSTFLAGS", "--cfg loom");

/// The ordering models.
const fn models(environment: &'static [(&'static str, &'static str)]) -> Step {
    Step {
        what: "ordering models (loom)",
        action: Action::Cargo {
            // The models replace the atomics under `cfg(loom)`, which must not reach other crates'
            // artefacts: hence another target folder.
            arguments: &[
                "test",
                "--package",
                "bellhop-protocol",
                "--locked",
                "--release",
                "--test",
                "handoff",
                "--target-dir",
                "target/loom",
            ],
            environment,
        },
    }
}

/// `cargo xtask check`.
pub const CHECK: [Step; 10] = [
    Step {
        what: "formatting",
        action: Action::Cargo { arguments: &["fmt", "--all", "--check"], environment: &[] },
    },
    Step { what: "licence lines", action: Action::Call(spdx::check) },
    Step { what: "licences and sources of crates", action: Action::Call(deny::check) },
    Step { what: "what documents name", action: Action::Call(documents::check) },
    Step { what: "tests that sleep", action: Action::Call(sleeps::check) },
    Step { what: "rooms", action: Action::Call(rooms::check) },
    Step { what: "orderings", action: Action::Call(orderings::check) },
    Step { what: "what may wait", action: Action::Call(waits::check) },
    Step {
        what: "lints",
        action: Action::Cargo {
            arguments: &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "--deny",
                "warnings",
            ],
            environment: &[],
        },
    },
    Step {
        what: "documentation",
        action: Action::Cargo {
            arguments: &["doc", "--workspace", "--no-deps", "--locked"],
            environment: &[("RUSTDOCFLAGS", "--deny warnings")],
        },
    },
];

/// `cargo xtask dist`.
pub const DIST: [Step; 5] = [
    Step { what: "programs that packaging uses", action: Action::Call(packages::install) },
    Step { what: "programs", action: Action::Call(dist::programs) },
    Step { what: "tree of files", action: Action::Call(dist::lay_out) },
    Step { what: "archive", action: Action::Call(dist::archive) },
    Step { what: "Debian package", action: Action::Call(dist::debian_package) },
];

/// Runs the steps until one fails.
pub fn run(steps: &[Step]) -> Result<(), String> {
    for (number, step) in steps.iter().enumerate() {
        println!("[{}/{}] {}", number + 1, steps.len(), step.what);
        let start = Instant::now();
        step.run().map_err(|error| format!("{}: {error}", step.what))?;
        println!("[{}/{}] done in {:.0?}", number + 1, steps.len(), start.elapsed());
    }
    Ok(())
}

impl Step {
    fn run(&self) -> Result<(), String> {
        match self.action {
            Action::Cargo { arguments, environment } => {
                command::run(cargo(arguments).envs(environment.iter().copied()))
            }
            Action::Call(function) => function(),
            Action::BesideVms(steps) => thread::scope(|scope| {
                let vms = scope.spawn(lanes::vms);
                let ran = run(steps);
                let vms = vms.join().map_err(|_| "the thread of tests in VMs ended".to_owned())?;
                ran.and(vms)
            }),
        }
    }
}
