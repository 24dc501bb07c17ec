// SPDX-License-Identifier: MIT OR Apache-2.0

//! What failed tests printed, told again at the end: other tests print for minutes after them.

use crate::command;
use std::process::Command;

/// Of what a test printed that failed, this many lines from its beginning and as many from its end are told again.
const LINES: usize = 20;

/// Runs tests, prints each line as `print` does, and has the error say what those printed that failed.
///
/// # Errors
/// When one fails.
pub fn told(tests: &mut Command, print: impl Fn(&str)) -> Result<(), String> {
    let mut failures = Failures::default();
    let ran = command::run_by_lines(tests, |line| {
        print(line);
        failures.read(line);
    });
    ran.map_err(|error| failures.told() + &error)
}

/// The failed tests of a run, each with what it printed.
#[derive(Debug, Default)]
struct Failures {
    tests: Vec<Vec<String>>,
    /// Whether the lines that follow are the last test's.
    reads: bool,
}

impl Failures {
    /// Reads a line of what the test harness prints: before a test's own lines it has `---- NAME stdout ----`, and after
    /// the last test's `failures:`.
    fn read(&mut self, line: &str) {
        if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            self.tests.push(Vec::new());
            self.reads = true;
        } else if line == "failures:" {
            self.reads = false;
        }
        if let Some(test) = self.tests.last_mut().filter(|_| self.reads) {
            test.push(line.to_owned());
        }
    }

    fn told(&self) -> String {
        let mut text = String::new();
        for lines in &self.tests {
            let (begin, rest) = lines.split_at(lines.len().min(LINES));
            let end = &rest[rest.len().saturating_sub(LINES)..];
            let between = rest.len() - end.len();
            let gap = (between > 0).then(|| format!("[{between} lines are above]"));
            for line in begin.iter().chain(&gap).chain(end) {
                text += line;
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(script: &str) -> Result<(), String> {
        told(Command::new("sh").args(["-c", script]), |_| {})
    }

    #[test]
    fn what_failed_tests_print_is_told_at_the_end() {
        let printed = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nno a\n\n\
                       ---- b stdout ----\nno b\n\nfailures:\n    a\n    b\n\ntest c ... ok\n";
        let error = error(&format!("echo '{printed}'; exit 1")).unwrap_err();
        let expected = "---- a stdout ----\nno a\n\n---- b stdout ----\nno b\n\nthis failed";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn of_a_test_that_prints_much_beginning_and_end_are_told() {
        let error = error("echo '---- a stdout ----'; seq 100; exit 1").unwrap_err();
        let expected = "---- a stdout ----\n1\n";
        assert!(error.starts_with(expected), "{error}");
        assert!(error.contains("\n19\n[61 lines are above]\n81\n"), "{error}");
        assert!(error.contains("\n100\nthis failed"), "{error}");
    }

    #[test]
    fn tests_that_pass_are_no_error() {
        assert_eq!(error("echo '---- a stdout ----'"), Ok(()));
    }
}
