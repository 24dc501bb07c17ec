// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks that every source file names its licence.

use crate::command::output;
use crate::workspace::root;
use std::fs;
use std::process::Command;

/// The comment that a source file begins with, behind a `#!` line if it has one.
const LINE: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";
/// Git's patterns for source files.
const SOURCES: [&str; 4] = ["*.rs", "*.c", "*.h", "*.sh"];

/// Checks the source files that git tracks, and new ones that it does not ignore.
///
/// # Errors
/// Names the files that lack the line.
pub fn check() -> Result<(), String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "--"]);
    let listed = output(git.args(SOURCES).current_dir(root()))?;
    let mut files = 0;
    let mut missing = Vec::new();
    for file in listed.lines() {
        // Git still lists a file that was removed but not committed.
        let Ok(text) = fs::read_to_string(root().join(file)) else { continue };
        files += 1;
        if !names_licence(&text) {
            missing.push(file);
        }
    }
    match (files, missing.as_slice()) {
        (0, _) => Err("git lists no source file".to_owned()),
        (_, []) => Ok(()),
        _ => Err(format!("these lack a first line with {LINE:?}: {}", missing.join(", "))),
    }
}

fn names_licence(text: &str) -> bool {
    let mut lines = text.lines().skip_while(|line| line.starts_with("#!"));
    lines.next().is_some_and(|line| line.contains(LINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_licence() {
        assert!(names_licence(&format!("// {LINE}\n\n//! Text.\n")));
        assert!(names_licence(&format!("#!/bin/sh\n# {LINE}\n")));
        assert!(!names_licence(&format!("//! Text.\n// {LINE}\n")));
        assert!(!names_licence("// SPDX-License-Identifier: MIT\n"));
        assert!(!names_licence(""));
    }
}
