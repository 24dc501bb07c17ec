// SPDX-License-Identifier: MIT OR Apache-2.0

//! Running other programs.

use crate::workspace::root;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

/// The cargo that runs this, at the workspace's root.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(root());
    command
}

/// Runs a program that must succeed.
///
/// # Errors
/// When it cannot be started, or fails; a program that fails has printed why.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| not_started(command, &error))?;
    succeeded(command, status)
}

/// Runs a program that must succeed, and gives each line that it prints.
///
/// # Errors
/// When it cannot be started, prints what is no UTF-8, or fails.
pub fn run_by_lines(command: &mut Command, mut take: impl FnMut(&str)) -> Result<(), String> {
    command.stdout(Stdio::piped());
    let mut running = command.spawn().map_err(|error| not_started(command, &error))?;
    let printed = running.stdout.take().into_iter();
    for printed in printed.flat_map(|printed| BufReader::new(printed).lines()) {
        let printed = printed.map_err(|error| {
            format!("cannot read what is printed by {}: {error}", line(command))
        })?;
        take(&printed);
    }
    let status = running.wait();
    let status = status.map_err(|error| format!("cannot wait for {}: {error}", line(command)))?;
    succeeded(command, status)
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<(), String> {
    if status.success() {
        return Ok(());
    }
    Err(format!("this failed ({status}): {}", line(command)))
}

/// Runs a program and returns its output.
///
/// # Errors
/// When it cannot be started, or fails.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| not_started(command, &error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("this failed ({}): {}", said.trim(), line(command)));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| format!("this did not print UTF-8: {}", line(command)))
}

/// Whether a program can be found.
pub fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether the video codecs can be built with their assembly: a build for x86-64 takes an assembler.
pub fn has_assembler() -> bool {
    cfg!(target_arch = "x86_64") && exists("nasm")
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    let program = command.get_program().to_string_lossy();
    format!("cannot start {program}: {error}; install it, or put it into PATH")
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_named_with_its_arguments() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert!(error.contains("sh -c exit 3") && error.contains('3'), "{error}");
        let error = output(Command::new("sh").args(["-c", "echo why >&2; false"])).unwrap_err();
        assert!(error.contains("why"), "{error}");
    }

    #[test]
    fn a_program_that_is_missing_is_to_be_installed() {
        assert!(exists("sh") && !exists("no-such-program"));
        let error = run(&mut Command::new("no-such-program")).unwrap_err();
        assert!(error.contains("no-such-program") && error.contains("install"), "{error}");
    }
}
