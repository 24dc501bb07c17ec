// SPDX-License-Identifier: MIT OR Apache-2.0

//! The options of a VM, and its outcome.

use crate::accelerator::Accelerator;
use crate::environment::Sources;
use crate::task::{Service, Task, User};
use crate::variant::Variant;
use crate::vmm::Vmm;
use anyhow::{Context, ensure};
use bellhop_guest::cli::CarriedFile;
use bellhop_guest::units::bytes;
use bellhop_processes::daemon;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A VM and its task.
#[derive(Debug)]
pub struct Options {
    /// The VMM that runs it.
    pub vmm: Vmm,
    /// Whether the VMM runs in a QEMU VM that emulates a machine with KVM.
    pub nested: bool,
    /// Its shape.
    pub variant: &'static Variant,
    /// The accelerator that executes it.
    pub accelerator: Accelerator,
    /// The sources of its parts.
    pub sources: Sources,
    /// `bellhop-guest`, an executable that needs no libraries.
    pub guest_program: PathBuf,
    /// What the guest does.
    pub task: Task,
    /// Whose its task is, where it has a broker.
    pub user: User,
    /// The services that it boots with.
    pub services: Vec<Service>,
    /// Files of the host's that are to be in the guest.
    pub files: Vec<CarriedFile>,
    /// The file for the task's output; `None` for standard output.
    pub output: Option<File>,
    /// Sockets of running daemons, one for each GPU; if empty, a daemon is started.
    pub sockets: Vec<PathBuf>,
    /// The configuration of the daemon that is started.
    pub config: Option<PathBuf>,
    /// The words of the command line of that daemon's workers; empty for its own.
    pub worker: Vec<OsString>,
    /// Whether the VM keeps running when its guest reboots.
    pub reboots: bool,
    /// How long a task may take.
    pub timeout: Duration,
    /// Where to keep the guest kernel's messages.
    pub kernel_log: Option<PathBuf>,
    /// Where to keep QEMU's trace of accesses that it emulates.
    pub trace: Option<PathBuf>,
    /// The socket of QEMU's monitor for other programs.
    pub qmp: Option<PathBuf>,
}

impl Options {
    /// Where the task's output goes.
    pub(crate) fn output(&self) -> anyhow::Result<Box<dyn Write + Send>> {
        Ok(match &self.output {
            Some(file) => Box::new(file.try_clone().context("cannot write the task's output")?),
            None => Box::new(io::stdout()),
        })
    }

    /// Fails if the guest has no room for its files: they are in its memory.
    pub(crate) fn check_files(&self) -> anyhow::Result<()> {
        let size = |file: &CarriedFile| fs::metadata(&file.path).map_or(0, |file| file.len());
        let size: u64 = self.files.iter().map(size).sum();
        let room = u64::from(self.variant.memory_mib / 4) << 20;
        ensure!(
            size <= room,
            "{} of files are too much for this VM, which has room for {}; --variant large-memory has more",
            bytes(size),
            bytes(room)
        );
        Ok(())
    }

    /// What a daemon for the VM is started with.
    pub(crate) fn of_daemon(&self) -> daemon::Options<'_> {
        daemon::Options {
            config: self.config.as_deref(),
            worker: &self.worker,
            ..daemon::Options::default()
        }
    }
}

/// How a VM ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The task's exit status.
    Exited(u8),
    /// Ctrl-C was pressed, or SIGTERM arrived.
    Interrupted,
    /// The guest's kernel stalled: not even a program that only sleeps continued.
    StoodStill,
}

/// The exit status of `bellhop vm` when the guest stalled: `EX_TEMPFAIL` of sysexits.h.
pub const STOOD_STILL: u8 = 75;

/// The given file, or one of this name in a folder.
pub(crate) fn or_in(folder: &Path, given: Option<&Path>, name: &str) -> PathBuf {
    given.map_or_else(|| folder.join(name), Path::to_owned)
}
