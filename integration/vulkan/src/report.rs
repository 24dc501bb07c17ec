// SPDX-License-Identifier: MIT OR Apache-2.0

//! Behaviours that are tried one after the other, and what was seen.

use crate::cases::selected;
use crate::lab::{Failure, Lab};
use std::fmt;
use std::io::{self, Write};
use std::time::Instant;

/// How many behaviours had which outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// They were seen.
    pub passed: usize,
    /// Something else was seen.
    pub failed: usize,
    /// The device does not offer what they need.
    pub not_offered: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, not_offered } = self;
        write!(f, "{passed} passed, {failed} failed, {not_offered} not offered")
    }
}

/// Writes the names of the behaviours that these words select, and what each shows.
///
/// # Errors
/// When it cannot be written.
pub fn list(words: &[String], out: &mut dyn Write) -> io::Result<()> {
    selected(words).try_for_each(|case| writeln!(out, "{:32} {}", case.id, case.shows))
}

/// Tries the behaviours that these words select, one after the other. Writes a line for each, before the next is tried:
/// a driver may end the process.
///
/// # Errors
/// When a line cannot be written.
pub fn run(lab: &Lab, words: &[String], out: &mut dyn Write) -> io::Result<Tally> {
    let mut tally = Tally::default();
    writeln!(out, "{}", lab.name())?;
    for case in selected(words) {
        write!(out, "{:32} ", case.id)?;
        out.flush()?;
        let start = Instant::now();
        let outcome = case.try_with(lab);
        let milliseconds = start.elapsed().as_millis();
        match outcome {
            Ok(()) => {
                tally.passed += 1;
                writeln!(out, "passed in {milliseconds} ms")?;
            }
            Err(Failure::NotOffered(why)) => {
                tally.not_offered += 1;
                writeln!(out, "not offered: {why}")?;
            }
            Err(Failure::Seen(what)) => {
                tally.failed += 1;
                writeln!(out, "FAILED after {milliseconds} ms: {what}; {}", case.shows)?;
            }
        }
    }
    writeln!(out, "{tally}")?;
    Ok(tally)
}
