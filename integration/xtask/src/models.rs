// SPDX-License-Identifier: MIT OR Apache-2.0

//! The ordering models of a workspace with mutants in its hand-offs, each run separately.

use crate::schema;
use crate::workspace::root;
use cargo_metadata::Message;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// libtest's exit status when a test failed.
const TEST_FAILED: i32 = 101;

/// A test program that holds models.
#[derive(Debug)]
pub struct Models {
    program: PathBuf,
    /// The folder of its package, where it runs.
    folder: PathBuf,
}

impl Models {
    /// Builds the models of the protocol crate in a workspace.
    ///
    /// # Errors
    /// When they do not build.
    pub fn build(workspace: &Path) -> Result<Self, String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "--quiet", "--package", "bellhop-protocol", "--release"]);
        cargo.args([
            "--test",
            "handoff",
            "--no-run",
            "--message-format",
            "json-render-diagnostics",
        ]);
        cargo.current_dir(workspace);
        // The target folder of the models, which has everything built except the protocol crate.
        cargo.env("CARGO_TARGET_DIR", root().join("target/loom")).env("RUSTFLAGS", "--cfg loom");
        let built = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr);
            return Err(format!("the models do not build:\n{said}"));
        }
        let program = Message::parse_stream(Cursor::new(built.stdout))
            .filter_map(|message| match message.ok()? {
                Message::CompilerArtifact(artifact) => artifact.executable,
                _ => None,
            })
            .last()
            .ok_or("cargo names no program of models")?;
        Ok(Self { program: program.into(), folder: workspace.join("protocol") })
    }

    /// The names of all models.
    ///
    /// # Errors
    /// When the program does not list them.
    pub fn names(&self) -> Result<Vec<String>, String> {
        let listed = self.command("").args(["--list", "--format", "terse"]).output();
        let listed = listed.map_err(|error| self.not_run(&error))?;
        let names: Vec<_> = String::from_utf8_lossy(&listed.stdout)
            .lines()
            .filter_map(|line| line.strip_suffix(": test").map(str::to_owned))
            .collect();
        if names.is_empty() { Err("there is no model".to_owned()) } else { Ok(names) }
    }

    /// Runs one model with the chosen mutant. Returns whether the model failed, and its time.
    ///
    /// # Errors
    /// When it neither passed nor failed.
    pub fn run(&self, model: &str, choice: &str) -> Result<(bool, Duration), String> {
        let start = Instant::now();
        let output = self.command(choice).args(["--exact", model]).output();
        let output = output.map_err(|error| self.not_run(&error))?;
        match output.status.code() {
            Some(0) => Ok((false, start.elapsed())),
            Some(TEST_FAILED) => Ok((true, start.elapsed())),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("{model} did not end ({}) with {choice:?}:\n{said}", output.status))
            }
        }
    }

    fn command(&self, choice: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).env(schema::CHOICE, choice).env("RUST_BACKTRACE", "0");
        command
    }

    fn not_run(&self, error: &std::io::Error) -> String {
        format!("cannot run {}: {error}", self.program.display())
    }
}
