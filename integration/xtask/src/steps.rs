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
    /// Steps none of which needs another: all run even if one fails, so that one run shows every failure.
    Each(&'static [Step]),
    /// Tests in VMs, and each of these steps beside them: a VM keeps at most one processor busy.
    BesideVms(&'static [Step]),
}

/// `cargo xtask test`.
pub const TEST: [Step; 3] = [
    Step { what: "programs that tests use", action: Action::Call(packages::install) },
    Step { what: "programs and tests", action: Action::Call(lanes::build) },
    Step { what: "tests", action: Action::Each(&TESTS) },
];

static TESTS: [Step; 2] = [
    Step { what: "tests in VMs, and meanwhile all others", action: Action::BesideVms(&MEANWHILE) },
    Step { what: "tests that measure, documentation", action: Action::Call(lanes::measured) },
];

/// Steps beside VMs: their results do not depend on the machine's load.
static MEANWHILE: [Step; 5] = [
    Step { what: "unit, property and whole-system tests", action: Action::Call(lanes::others) },
    Step { what: "instructions of a submission", action: Action::Call(cost::check) },
    models(&[LOOM]),
    Step { what: "mutants of the orderings", action: Action::Call(mutants::run) },
    Step { what: "fuzz targets, a moment each", action: Action::Call(fuzz::look) },
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
    steps.iter().zip(1..).try_for_each(|(step, number)| step.tell_and_run(number, steps.len()))
}

/// Runs all steps. Tells every failure.
fn run_each(steps: &[Step]) -> Result<(), String> {
    let ran = steps.iter().zip(1..).map(|(step, number)| step.tell_and_run(number, steps.len()));
    all(ran.collect())
}

/// The failures of steps that have all run.
fn all(ran: Vec<Result<(), String>>) -> Result<(), String> {
    let failures: Vec<_> = ran.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

impl Step {
    fn tell_and_run(&self, number: usize, of: usize) -> Result<(), String> {
        println!("[{number}/{of}] {}", self.what);
        let start = Instant::now();
        let ran = self.run();
        let ended = if ran.is_ok() { "done" } else { "failed" };
        println!("[{number}/{of}] {ended} in {:.0?}", start.elapsed());
        ran.map_err(|error| format!("{}: {error}", self.what))
    }

    fn run(&self) -> Result<(), String> {
        match self.action {
            Action::Cargo { arguments, environment } => {
                command::run(cargo(arguments).envs(environment.iter().copied()))
            }
            Action::Call(function) => function(),
            Action::Each(steps) => run_each(steps),
            Action::BesideVms(steps) => thread::scope(|scope| {
                let vms = scope.spawn(lanes::vms);
                let ran = run_each(steps);
                let vms = vms.join().map_err(|_| "the thread of tests in VMs ended".to_owned());
                all(vec![ran, vms.flatten()])
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn steps_that_need_each_other_end_with_the_first_that_fails_and_others_all_run() {
        static RAN: AtomicU32 = AtomicU32::new(0);
        fn fails() -> Result<(), String> {
            RAN.fetch_add(1, Ordering::Relaxed);
            Err("no".to_owned())
        }
        static STEPS: [Step; 2] = [
            Step { what: "one", action: Action::Call(fails) },
            Step { what: "two", action: Action::Call(fails) },
        ];
        assert_eq!(run(&STEPS), Err("one: no".to_owned()));
        assert_eq!(RAN.swap(0, Ordering::Relaxed), 1);
        assert_eq!(run_each(&STEPS), Err("one: no\ntwo: no".to_owned()));
        assert_eq!(RAN.load(Ordering::Relaxed), 2);
    }
}
