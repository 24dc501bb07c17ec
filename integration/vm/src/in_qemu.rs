// SPDX-License-Identifier: MIT OR Apache-2.0

//! Running a VM in QEMU.

use crate::accelerator::Accelerator;
use crate::environment::Environment;
use crate::guest::initramfs::Guest;
use crate::guest::portable;
use crate::keyboard::Keyboard;
use crate::machine::{self, End, Machine, Running};
use crate::options::{Options, Outcome, or_in};
use crate::task::{Service, Task};
use crate::trace::Accesses;
use anyhow::{Context, bail, ensure};
use bellhop_guest::output::note;
use bellhop_processes::daemon::{self, Daemon};
use bellhop_processes::process::{Signals, block_on};
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

/// Boots a VM in QEMU, has it do its task, and waits for it.
///
/// # Errors
/// When it cannot be set up or started, or does not complete the task.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let Options { sources, variant, services, task, .. } = options;
    let environment = Environment::prepare(sources, variant.kernel, services, task)?;
    let accelerator = options.accelerator.first(&environment.kvm_fails);
    match attempt(options, &environment, accelerator)? {
        Attempt::Ended(outcome) => Ok(outcome),
        // The task has not begun, so another accelerator can be tried.
        Attempt::NotExecuted(_) if accelerator == Accelerator::Auto => {
            note("bellhop: this machine's KVM cannot run the guest; continuing with emulation");
            environment.kvm_fails.write()?;
            match attempt(options, &environment, Accelerator::Tcg)? {
                Attempt::Ended(outcome) => Ok(outcome),
                Attempt::NotExecuted(why) => {
                    bail!("QEMU stopped the VM before its kernel ran: {why}")
                }
            }
        }
        Attempt::NotExecuted(why) => {
            bail!("QEMU stopped the VM before its kernel ran: {why}\ntry it with --accel tcg")
        }
    }
}

/// The result of an attempt to run a VM.
pub enum Attempt {
    /// The VM ran.
    Ended(Outcome),
    /// The VM's kernel did not run: why, in QEMU's words.
    NotExecuted(String),
}

/// A VM that did not end in time.
#[derive(Debug, thiserror::Error)]
#[error(
    "the guest did not finish within {} s; allow more with --timeout{said}", timeout.as_secs()
)]
pub struct TooLate {
    timeout: Duration,
    /// The last messages of its kernel.
    said: String,
}

fn attempt(
    options: &Options,
    environment: &Environment,
    accelerator: Accelerator,
) -> anyhow::Result<Attempt> {
    let folder = daemon::folder()?;
    let initramfs = folder.path().join("initramfs");
    let archive = File::create(&initramfs).context("cannot write the guest's file system")?;
    let Environment { qemu, kernel, busybox, systemd, .. } = environment;
    let guest = Guest {
        busybox,
        program: &options.guest_program,
        kernel,
        carried: &options.files,
        systemd: systemd.as_ref().map(|systemd| (systemd, &options.services[..])),
        task: &options.task,
        user: options.user,
    };
    guest.write(archive)?;

    let acpi_table = if options.services.contains(&Service::Portable) {
        let table = folder.path().join("portable.aml");
        fs::write(&table, portable::table()).context("cannot write the guest's ACPI table")?;
        Some(table)
    } else {
        None
    };
    let count = options.variant.devices;
    let sockets = match options.sockets.len() {
        0 => (0..count).map(|number| folder.path().join(format!("gpu{number}.sock"))).collect(),
        given => {
            ensure!(given == count, "this VM has {count} GPUs, so it needs as many sockets");
            options.sockets.clone()
        }
    };
    let kernel_log = or_in(folder.path(), options.kernel_log.as_deref(), "kernel.log");
    let machine = Machine {
        variant: options.variant,
        accelerator,
        kernel: &kernel.image,
        initramfs: &initramfs,
        task: &options.task,
        reboots: options.reboots,
        sockets: &sockets,
        kernel_log: &kernel_log,
        qemu_log: &folder.path().join("qemu.log"),
        status: &folder.path().join("status"),
        trace: options.trace.as_deref(),
        qmp: options.qmp.as_deref(),
        acpi_table: acpi_table.as_deref(),
        resets: None,
    };
    let attempt = block_on(async {
        let mut signals = Signals::new()?;
        let mut daemon = if options.sockets.is_empty() {
            Some(Daemon::start(&sockets, options.of_daemon())?)
        } else {
            None
        };
        let mut running = machine.start(qemu, options.output()?)?;
        let attempt =
            attend(&machine, options.timeout, &mut signals, &mut daemon, &mut running).await;
        running.end().await?;
        if let Some(daemon) = daemon {
            daemon.end().await?;
        }
        attempt
    })?;
    if let (Some(trace), Attempt::Ended(_)) = (&options.trace, &attempt) {
        note(Accesses::read(trace)?.to_string().trim_end());
    }
    Ok(attempt)
}

/// Waits for the first event that ends a VM.
///
/// # Errors
/// When that is neither the VM's own end nor Ctrl-C.
pub async fn attend<P: AsRef<Path>>(
    machine: &Machine<'_, P>,
    timeout: Duration,
    signals: &mut Signals,
    daemon: &mut Option<Daemon>,
    running: &mut Running,
) -> anyhow::Result<Attempt> {
    let log = machine.kernel_log;
    let keyboard = Keyboard::find();
    let daemon_ended = async {
        match daemon {
            Some(daemon) => daemon.ended().await,
            None => std::future::pending().await,
        }
    };
    let too_late = async {
        match machine.task {
            Task::Run(_) | Task::Program(_) => tokio::time::sleep(timeout).await,
            Task::Serve => std::future::pending().await,
            Task::Shell => match keyboard.ended().await {
                Ok(()) => tokio::time::sleep(timeout).await,
                Err(error) => note(format_args!("bellhop: cannot watch standard input: {error}")),
            },
        }
    };
    tokio::select! {
        end = running.ended() => match end? {
            End::Exited(status) => {
                let said = || machine::last_lines(machine.qemu_log);
                ensure!(status.success(), "QEMU failed ({status}):\n{}", said());
                let status = machine::exit_status(machine.status, log)?;
                Ok(Attempt::Ended(Outcome::Exited(status)))
            }
            End::Stopped(why) if !machine::has_started(log) => {
                let said = machine::last_lines(machine.qemu_log);
                Ok(Attempt::NotExecuted(format!("{why}\n{said}").trim_end().to_owned()))
            }
            End::Stopped(why) => bail!("QEMU stopped the VM: {why}{}", machine::messages(log)),
        },
        ended = daemon_ended => bail!("bellhopd ended ({}) before the VM did", ended?),
        () = signals.received() => Ok(Attempt::Ended(Outcome::Interrupted)),
        () = too_late => bail!(TooLate { timeout, said: machine::messages(log) }),
    }
}
