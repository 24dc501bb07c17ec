// SPDX-License-Identifier: MIT OR Apache-2.0

//! What failed tests printed, told again at the end: other tests print for minutes after them.

use crate::command;
use std::process::Command;

/// Of what a test printed that failed, this many lines from its beginning and as many from its end are told again, and as many of those
/// between that say what went wrong. What keeps the log of a run may keep little of its end.
const LINES: usize = 6;
/// Words of lines that say what went wrong.
const WRONG: [&str; 6] = ["panicked at", "failed", "error", "Error", "ERROR", "WARN"];
/// Before a panic's trace, and after it. Names say more than how the panic came about.
const TRACE: [&str; 2] = ["stack backtrace:", "note: Some details are omitted"];

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
            let lines = without_traces(lines);
            let (begin, rest) = lines.split_at(lines.len().min(LINES));
            let (between, end) = rest.split_at(rest.len().saturating_sub(LINES));
            let says = |line: &&&str| WRONG.iter().any(|word| line.contains(word));
            let wrong: Vec<_> = between.iter().filter(says).take(LINES).copied().collect();
            let left_out = between.len() - wrong.len();
            let gap = (left_out > 0).then(|| format!("[{left_out} more lines are above]"));
            let told = begin.iter().chain(&wrong).copied().chain(gap.as_deref());
            for line in told.chain(end.iter().copied()) {
                text += line;
                text.push('\n');
            }
        }
        text
    }
}

/// The lines without the traces of panics.
fn without_traces(lines: &[String]) -> Vec<&str> {
    let mut traces = false;
    let told = lines.iter().filter(|line| {
        let [begins, ends] = TRACE.map(|word| line.starts_with(word));
        traces = (traces || begins) && !ends;
        !traces && !ends
    });
    told.map(String::as_str).collect()
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
    fn of_a_test_that_prints_much_beginning_and_end_are_told_and_what_went_wrong() {
        let error = error("echo '---- a stdout ----'; seq 100; echo it failed; seq 100; exit 1");
        let error = error.unwrap_err();
        let expected = "---- a stdout ----\n1\n2\n3\n4\n5\nit failed\n[189 more lines are above]\n\
                        95\n96\n97\n98\n99\n100\nthis failed";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn traces_of_panics_are_left_out() {
        let printed = "---- a stdout ----\nthread panicked at a\nno a\nstack backtrace:\n   0: run\n\
                       note: Some details are omitted, run with\nb";
        let error = error(&format!("echo '{printed}'; exit 1")).unwrap_err();
        let expected = "---- a stdout ----\nthread panicked at a\nno a\nb\nthis failed";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn tests_that_pass_are_no_error() {
        assert_eq!(error("echo '---- a stdout ----'"), Ok(()));
    }
}
