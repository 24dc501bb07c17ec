// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests that sleep.
//!
//! A test that waits for time is either slow or fails on a busy machine, so tests wait for events. This lists where a
//! test sleeps nevertheless, and fails on a sleep without a reason, and on a reason without its sleep.

use crate::command::output;
use crate::workspace::root;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// The calls that are looked for.
const CALL: &str = "thread::sleep(";

const DRAWN: &str = "a moment drawn at random, at which something is ended";
const LOOK: &str = "between two looks at what has no event";
const LOAD: &str = "a pause in a load that runs beside what is tested";
const SUBJECT: &str = "the time is what the test is about";

/// A test's file, how often it sleeps, and why.
const ALLOWED: [(&str, usize, &[&str]); 9] = [
    ("device/tests/gpu/support/rig.rs", 1, &[LOOK]),
    ("integration/tests/command/engine_kernels.rs", 1, &[DRAWN]),
    ("integration/tests/hostile/evicted.rs", 2, &[DRAWN, LOAD]),
    ("integration/tests/hostile/killed.rs", 1, &[DRAWN]),
    ("integration/tests/hostile/workers.rs", 5, &[DRAWN, LOAD, LOOK]),
    ("integration/tests/measured/kernel_shares.rs", 1, &[LOOK]),
    ("integration/tests/measured/scheduling.rs", 1, &[LOOK]),
    ("integration/tests/measured/stops.rs", 4, &[SUBJECT]),
    ("integration/tests/support/mod.rs", 1, &[LOOK]),
];

/// Compares the tests with the list.
///
/// # Errors
/// Names each file whose sleeps are not those that are listed.
pub fn check() -> Result<(), String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "--"]);
    let listed = output(git.arg("*/tests/*.rs").current_dir(root()))?;
    let files = listed.lines().filter_map(|file| {
        let text = fs::read_to_string(root().join(file)).ok()?;
        Some((file, sleeps(&text)))
    });
    let wrong = differences(&files.filter(|(_, count)| *count > 0).collect());
    if wrong.is_empty() {
        return Ok(());
    }
    let advice =
        "let the test wait for an event, or list it in integration/xtask/src/check/sleeps.rs";
    Err(format!("{}\n{advice}", wrong.join("\n")))
}

fn sleeps(text: &str) -> usize {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| line.matches(CALL).count()).sum()
}

fn differences(found: &BTreeMap<&str, usize>) -> Vec<String> {
    let allowed: BTreeMap<&str, usize> =
        ALLOWED.iter().map(|(file, count, _)| (*file, *count)).collect();
    let mut files: Vec<&str> = found.keys().chain(allowed.keys()).copied().collect();
    files.sort_unstable();
    files.dedup();
    let count = |of: &BTreeMap<&str, usize>, file| of.get(file).copied().unwrap_or_default();
    let pairs = files.into_iter().map(|file| (file, count(found, file), count(&allowed, file)));
    pairs
        .filter(|(_, found, allowed)| found != allowed)
        .map(|(file, found, allowed)| {
            format!("{file} sleeps {found} times, and {allowed} are listed")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sleep_is_counted_and_compared() {
        let text = "// std::thread::sleep(no)\nstd::thread::sleep(a);\n    thread::sleep(b);\n";
        assert_eq!(sleeps(text), 2);
        let mut found: BTreeMap<&str, usize> =
            ALLOWED.iter().map(|(file, count, _)| (*file, *count)).collect();
        assert_eq!(differences(&found), [""; 0]);
        found.insert("integration/tests/hostile/killed.rs", 2);
        found.insert("integration/tests/new.rs", 1);
        found.remove("integration/tests/support/mod.rs");
        assert_eq!(
            differences(&found),
            [
                "integration/tests/hostile/killed.rs sleeps 2 times, and 1 are listed",
                "integration/tests/new.rs sleeps 1 times, and 0 are listed",
                "integration/tests/support/mod.rs sleeps 0 times, and 1 are listed",
            ]
        );
    }

    #[test]
    fn each_has_a_reason() {
        check().unwrap();
        assert!(ALLOWED.iter().all(|(_, _, reasons)| !reasons.is_empty()));
    }
}
