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
    /// Nothing but its services. They end with the VM.
    Serve,
}

/// A service of the guest's, which systemd starts at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The guest's agent.
    Agent,
    /// The guest's broker. Programs share the device by it, and a task is one of them.
    Broker,
    /// What a portable computer with somebody at it has: a system bus, logind and a session, UPower, a lid and a battery.
    Portable,
}

/// Whose a task is, in a guest with a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum User {
    /// A user without privileges, who may connect to the broker.
    #[default]
    User,
    /// The administrator.
    Root,
}
