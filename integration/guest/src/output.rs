// SPDX-License-Identifier: MIT OR Apache-2.0

//! Standard output and standard error, which may be closed or on a full disk.

use anyhow::Error;
use bellhop_config::ConfigError;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// The exit status that shells report for a program that SIGPIPE ended.
const NO_READER: u8 = 141;
/// The exit status for an unusable configuration (`EX_CONFIG` of `sysexits.h`). It tells a service manager not to start the
/// program again.
const CONFIGURATION_FAULT: u8 = 78;

/// Standard output could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub struct Unwritable(#[from] io::Error);

/// Writes text to standard output.
///
/// # Errors
/// When its reader is gone, or there is no room.
pub fn put(text: impl Display) -> Result<(), Unwritable> {
    let mut out = io::stdout().lock();
    write!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Writes a line to standard output.
///
/// # Errors
/// As [`put`].
pub fn put_line(text: impl Display) -> Result<(), Unwritable> {
    put(format_args!("{text}\n"))
}

/// Writes a line to standard error, and ignores a failure.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Most columns of a line.
pub const WIDTH: usize = 80;

/// Wraps words into lines of at most [`WIDTH`] columns. The first line begins with `first`, the others with
/// as many spaces.
#[must_use]
pub fn wrapped(first: &str, text: &str) -> String {
    let indent = first.chars().count();
    let mut lines = String::new();
    let mut line = first.to_owned();
    for word in text.split_whitespace() {
        let width = line.chars().count();
        if width > indent && width + word.chars().count() > WIDTH {
            lines += line.trim_end();
            lines.push('\n');
            line = " ".repeat(indent);
        }
        line += word;
        line.push(' ');
    }
    lines + line.trim_end() + "\n"
}

/// Reports why a program failed, and returns its exit status. Does not report that the reader of its output
/// is gone.
#[must_use]
pub fn failure(program: &str, error: &Error) -> ExitCode {
    if let Some(Unwritable(reason)) = error.downcast_ref()
        && reason.kind() == ErrorKind::BrokenPipe
    {
        return NO_READER.into();
    }
    note(format_args!("{program}: {error:#}"));
    if error.is::<ConfigError>() { CONFIGURATION_FAULT.into() } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_beneath_each_other_and_a_long_one_is_left_whole() {
        let long = "x".repeat(100);
        let text = wrapped("  - ", &format!("{} {long} end", "word ".repeat(20)));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], format!("  - {}", "word ".repeat(15).trim_end()));
        assert_eq!(lines[1], format!("    {}", "word ".repeat(5).trim_end()));
        assert_eq!(lines[2..], [format!("    {long}"), "    end".to_owned()]);
    }

    #[test]
    fn only_a_reader_that_went_away_causes_no_failure() {
        let unwritable = |kind: ErrorKind| Error::from(Unwritable(kind.into()));
        let status = |error: Error| format!("{:?}", failure("test", &error));
        let no_reader = format!("{:?}", ExitCode::from(NO_READER));
        assert_eq!(status(unwritable(ErrorKind::BrokenPipe)), no_reader);
        assert_eq!(status(unwritable(ErrorKind::StorageFull)), format!("{:?}", ExitCode::FAILURE));
        let elsewhere = Error::from(io::Error::from(ErrorKind::BrokenPipe));
        assert_eq!(status(elsewhere), format!("{:?}", ExitCode::FAILURE));
    }
}
