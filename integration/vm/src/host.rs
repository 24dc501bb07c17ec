// SPDX-License-Identifier: MIT OR Apache-2.0

//! A VM that stands for a host: Debian's systemd starts the services that are installed there, and then a task. It has
//! no GPU itself.

use crate::accelerator::Accelerator;
use crate::environment::{Sources, Stock};
use crate::guest::archive::{Entries, Entry};
use crate::guest::initramfs::{modules, write_services};
use crate::in_qemu::{Attempt, attend};
use crate::machine::{Machine, last_lines};
use crate::options::Outcome;
use crate::task::Task;
use crate::variant::{KernelSeries, SERVICES};
use anyhow::{Context, bail};
use bellhop_processes::daemon;
use bellhop_processes::process::{Signals, block_on};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A host, and what it is started for.
#[derive(Debug, Default)]
pub struct Host {
    programs: Vec<(String, PathBuf)>,
    files: Entries,
}

/// How a host's task ended, and what its kernel said last.
#[derive(Debug)]
pub struct Ended {
    /// The task's end.
    pub outcome: Outcome,
    /// The last messages of the kernel, and of systemd.
    pub messages: String,
}

impl Host {
    /// Installs a program of this machine's, with the libraries that it needs, at a path that is relative to the root.
    pub fn program(&mut self, path: &str, program: &Path) {
        self.programs.push((path.into(), program.into()));
    }

    /// Installs a file of this machine's.
    pub fn file(&mut self, path: &str, file: &Path) {
        self.files.insert(path.into(), Entry::File(file.into()));
    }

    /// Installs a file with this text.
    pub fn text(&mut self, path: &str, text: &str) {
        self.files.insert(path.into(), Entry::Text(text.into()));
    }

    /// Installs a symbolic link.
    pub fn link(&mut self, path: &str, to: &str) {
        self.files.insert(path.into(), Entry::Link(to.into()));
    }

    /// Boots the VM, has it do the task once all its services have started, and waits for it. The task's output goes to
    /// `output`, and its errors to standard error.
    ///
    /// # Errors
    /// When it cannot be set up or started, or does not complete the task in this time.
    pub fn run(
        &self,
        task: &[OsString],
        timeout: Duration,
        output: impl Write + Send + 'static,
    ) -> anyhow::Result<Ended> {
        let sources = Sources::default();
        let stock = Stock::open(&sources)?;
        let (qemu, kernel, busybox) =
            (stock.qemu()?, stock.kernel(KernelSeries::Stable)?, stock.busybox()?);
        let systemd = stock.systemd()?;
        drop(stock);
        let folder = daemon::folder()?;
        let file = |name: &str| folder.path().join(name);
        let mut entries = systemd.of_host(&self.programs)?;
        entries.extend(self.files.clone());
        entries.extend(modules(&kernel, "modules"));
        entries.insert("bin/busybox".into(), Entry::Program(busybox));
        let initramfs = file("initramfs");
        let archive = File::create(&initramfs).context("cannot write the VM's file system")?;
        write_services(entries, task, archive)?;
        let machine = Machine::<PathBuf> {
            variant: &SERVICES,
            accelerator: Accelerator::Tcg,
            kernel: &kernel.image,
            initramfs: &initramfs,
            task: &Task::Run(task.into()),
            reboots: false,
            sockets: &[],
            kernel_log: &file("kernel.log"),
            qemu_log: &file("qemu.log"),
            status: &file("status"),
            trace: None,
            qmp: None,
            acpi_table: None,
            resets: None,
        };
        let attempt = block_on(async {
            let mut signals = Signals::new()?;
            let mut running = machine.start(&qemu, output)?;
            let attempt = attend(&machine, timeout, &mut signals, &mut None, &mut running).await;
            running.end().await?;
            attempt
        });
        match attempt? {
            Attempt::Ended(outcome) => {
                Ok(Ended { outcome, messages: last_lines(machine.kernel_log) })
            }
            Attempt::NotExecuted(why) => {
                bail!("QEMU stopped the VM before its kernel ran: {why}")
            }
        }
    }
}
