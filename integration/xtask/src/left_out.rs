// SPDX-License-Identifier: MIT OR Apache-2.0

//! What tests left out, told at the end: a test that left something out says `ok`, and what it printed is not shown.

use crate::workspace::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the file to tests; `integration/tests/support/left_out.rs` appends to it.
const VARIABLE: &str = "BELLHOP_LEFT_OUT";

fn file() -> PathBuf {
    root().join("target/left-out")
}

/// Has the tests that a command runs tell what they leave out.
pub fn tell_of(command: &mut Command) -> &mut Command {
    command.env(VARIABLE, file())
}

/// Tells of a step of this program that was left out.
///
/// # Errors
/// When it cannot be told.
pub fn skip(step: &str, why: &str, loss: &str, how: &str) -> Result<(), String> {
    let file = file();
    let open = OpenOptions::new().create(true).append(true).open(&file);
    open.and_then(|mut file| file.write_all(format!("{step}\t{loss}\t{why}\t{how}\n").as_bytes()))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// Runs tests, and prints at the end what they left out, whether or not they passed.
///
/// # Errors
/// Those of the tests.
pub fn told(run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    told_from(&file(), run, |summary| println!("{summary}"))
}

fn told_from(
    file: &Path,
    run: impl FnOnce() -> Result<(), String>,
    print: impl FnOnce(&str),
) -> Result<(), String> {
    let failed = |error| format!("cannot use {}: {error}", file.display());
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).map_err(failed)?;
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let ran = run();
    let lines = match fs::read_to_string(file) {
        Ok(lines) => lines,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    print(&summary(&lines));
    ran
}

/// Why something was left out, and how to have it.
type Reason<'a> = (&'a str, &'a str);

/// A paragraph for each thing that was not there.
fn summary(lines: &str) -> String {
    // For each reason what was left out, and by which tests.
    let mut reasons: BTreeMap<Reason<'_>, [BTreeSet<&str>; 2]> = BTreeMap::new();
    for line in lines.lines() {
        let mut words = line.splitn(4, '\t');
        let [test, loss, why, how] = [(); 4].map(|()| words.next().unwrap_or("?"));
        let [losses, tests] = reasons.entry((why, how)).or_default();
        losses.insert(loss);
        tests.insert(test);
    }
    if reasons.is_empty() {
        return "nothing was left out".to_owned();
    }
    let mut text = "left out, though these tests say ok:".to_owned();
    for ((why, how), [losses, tests]) in reasons {
        let join = |words: BTreeSet<&str>| words.into_iter().collect::<Vec<_>>().join(", ");
        let (losses, tests) = (join(losses), join(tests));
        // Writing to a string does not fail.
        let _ = write!(text, "\n- {losses}: {why}\n  to have it: {how}\n  tests: {tests}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::output;

    #[test]
    fn what_tests_left_out_is_told_last_with_how_to_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/left-out");
        let lines = "vm::b\tno guest of it is run\tthere is no dragon\tfind one\n\
                     vm::a\tno guest of it is run\tthere is no dragon\tfind one\n\
                     c\tno door is tried\tthis is not root\tbe root\n";
        let ran = |result: Result<(), String>, lines: &str| {
            let mut told = String::new();
            let run = || {
                fs::write(&file, lines).unwrap();
                result.clone()
            };
            assert_eq!(told_from(&file, run, |text| text.clone_into(&mut told)), result);
            told
        };
        let expected = "left out, though these tests say ok:\n\
                        - no guest of it is run: there is no dragon\n  to have it: find one\n  \
                        tests: vm::a, vm::b\n\
                        - no door is tried: this is not root\n  to have it: be root\n  tests: c";
        for result in [Ok(()), Err("a test failed".to_owned())] {
            assert_eq!(ran(result, lines), expected);
        }
        // What an earlier run left out is forgotten.
        let mut told = String::new();
        told_from(&file, || Ok(()), |text| text.clone_into(&mut told)).unwrap();
        assert_eq!(told, "nothing was left out");
    }

    /// The class: a test that ends well and prints that it checked nothing.
    #[test]
    fn no_test_leaves_something_out_in_another_way() {
        let mut git = Command::new("git");
        let listed = output(git.args(["ls-files", "--", "*.rs"]).current_dir(root())).unwrap();
        let place = "integration/tests/support/left_out.rs";
        let elsewhere = listed.lines().filter(|file| {
            let text = fs::read_to_string(root().join(file)).unwrap_or_default();
            let mut lines = text.lines().map(str::trim_start);
            let says = |line: &str| {
                ["eprintln!(\"skipped", "println!(\"skipped", "eprintln!(\"not checked"]
                    .iter()
                    .any(|start| line.starts_with(start))
            };
            *file != place && lines.any(says)
        });
        assert_eq!(elsewhere.collect::<Vec<_>>(), [""; 0]);
        assert!(fs::read_to_string(root().join(place)).unwrap().contains(VARIABLE));
    }
}
