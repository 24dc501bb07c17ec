// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a guest is started for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a guest does.
#[derive(Debug)]
pub enum Task {
    /// Runs the guest program with these arguments.
    Run(Vec<OsString>),
    /// Runs a program of others', which uses the GPU through the guest's broker.
    Program(Program),
    /// Starts a shell.
    Shell,
    /// Nothing but its services. They end with the VM.
    Serve,
}

/// A program that uses the GPU through Vulkan, and knows nothing of Bellhop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The folder of this machine's that is its `/usr`.
    pub usr: PathBuf,
    /// Folders of this machine's that it finds at the same paths, which are absolute.
    pub folders: Vec<PathBuf>,
    /// The library of the Vulkan driver.
    pub driver: PathBuf,
    /// The library of a Vulkan loader, where its `/usr` has none.
    pub loader: Option<PathBuf>,
    /// The program, by its absolute path in the guest, and its arguments.
    pub words: Vec<OsString>,
}

impl Program {
    /// Returns the folders of this machine's that its guest reads; `/usr` is the first.
    pub(crate) fn shared(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.usr).chain(&self.folders).map(PathBuf::as_path)
    }
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
