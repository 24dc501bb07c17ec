// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a guest is started for.

use std::ffi::OsString;

/// What a guest does.
#[derive(Debug)]
pub enum Task {
    /// Runs the guest program with these arguments.
    Run(Vec<OsString>),
    /// Starts a shell.
    Shell,
    /// Starts systemd, and by it the guest's agent. It ends with the VM.
    Agent,
}
