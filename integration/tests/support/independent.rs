// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver in C, which was written from the documents without this project's code.

use super::{is_here, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The built driver, removed when this is dropped.
pub struct IndependentDriver(TempDir);

impl IndependentDriver {
    /// Builds the driver if there is a C compiler; with `is_static`, as a program that needs no libraries.
    pub fn build(is_static: bool) -> Option<Self> {
        let loss = "no independent driver is tried";
        if !["make", "cc"].iter().all(|program| is_here(program, loss)) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut make = Command::new("make");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("independent");
        make.arg("--directory").arg(sources).arg(format!("OUT={}", folder.path().display()));
        if is_static {
            make.arg("STATIC=1");
        }
        succeed(make.output().unwrap());
        Some(Self(folder))
    }

    /// The program's path.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("independent")
    }

    /// Runs these works, which must all succeed, and returns the output.
    pub fn run(&self, socket: &Path, works: &[&str]) -> String {
        let mut command = Command::new(self.path());
        succeed(command.arg("--socket-path").arg(socket).args(works).output().unwrap())
    }
}
