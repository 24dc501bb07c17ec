// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is run, and how it ends.

use crate::accelerator::Accelerator;
use crate::environment::Sources;
use crate::variant::Variant;
use crate::vmm::Vmm;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A VM, and what is done in it.
#[derive(Debug)]
pub struct Options {
    /// What runs it.
    pub vmm: Vmm,
    /// Whether that runs in a VM of QEMU's that emulates a machine with KVM.
    pub nested: bool,
    /// Its shape.
    pub variant: &'static Variant,
    /// What executes it.
    pub accelerator: Accelerator,
    /// What it is made from.
    pub sources: Sources,
    /// `bellhop-guest`, an executable that needs no libraries.
    pub guest_program: PathBuf,
    /// The guest program's arguments; a shell without.
    pub task: Option<Vec<OsString>>,
    /// Sockets of daemons that run already, one for each GPU; a daemon is started without.
    pub sockets: Vec<PathBuf>,
    /// The configuration of the daemon that is started.
    pub config: Option<PathBuf>,
    /// Whether the VM keeps running when its guest reboots.
    pub reboots: bool,
    /// How long a task may take.
    pub timeout: Duration,
    /// Where to keep the guest kernel's messages.
    pub kernel_log: Option<PathBuf>,
    /// Where to keep QEMU's trace of accesses that it emulates.
    pub trace: Option<PathBuf>,
    /// Where others may speak with QEMU's monitor.
    pub qmp: Option<PathBuf>,
}

/// How a VM ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The task's exit status.
    Exited(u8),
    /// Ctrl-C was pressed, or SIGTERM arrived.
    Interrupted,
    /// The guest's kernel stopped running: not even a program that only sleeps went on.
    StoodStill,
}

/// What `bellhop vm` exits with when the guest stood still: `EX_TEMPFAIL` of sysexits.h.
pub const STOOD_STILL: u8 = 75;

/// The file that was given, or one of this name in a folder.
pub(crate) fn or_in(folder: &Path, given: Option<&Path>, name: &str) -> PathBuf {
    given.map_or_else(|| folder.join(name), Path::to_owned)
}
