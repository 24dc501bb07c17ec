// SPDX-License-Identifier: MIT OR Apache-2.0

//! cloud-hypervisor on a machine without a working KVM: in a VM that QEMU emulates, with KVM on the emulated
//! processor. That VM runs `bellhop vm`, and has all needed files in its file system.

use crate::accelerator::Accelerator;
use crate::cloud_hypervisor;
use crate::environment::{BUSYBOX, BUSYBOX_PROGRAM, KERNEL, Stock};
use crate::guest::archive::Entry;
use crate::guest::initramfs::{modules, write_host};
use crate::guest::libraries::Loader;
use crate::in_qemu::{Attempt, TooLate, attend};
use crate::machine::Machine;
use crate::options::{Options, Outcome, STOOD_STILL, or_in};
use crate::packages::cache;
use crate::task::Task;
use crate::variant::HOST;
use anyhow::{Context, bail, ensure};
use bellhop_guest::output::note;
use bellhop_processes::daemon;
use bellhop_processes::process::{Signals, block_on};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of attempts: about one in twenty of these VMs ends in a triple fault of the emulated processor, and
/// some stall.
const ATTEMPTS: usize = 4;
/// The name of a triple fault in QEMU's log of resets.
const TRIPLE_FAULT: &str = "Triple fault";
const BROKE_DOWN: &str = "bellhop: QEMU's emulation of a machine with KVM broke down; trying again";
/// Extra time of the outer VM, more than it takes before the inner one starts and after it ends: the inner one has
/// the time that the user allows, and reports its own time-out.
const OUTER: Duration = Duration::from_secs(120);

/// Boots the VM in a VM, and has it do its task.
///
/// # Errors
/// When it cannot be set up or started, or does not complete the task.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let program = cloud_hypervisor::find()?;
    let Task::Run(task) = &options.task else {
        bail!("a guest of cloud-hypervisor does a task, and has no shell nor services")
    };
    ensure!(options.sockets.is_empty(), "--nested starts a bellhopd of its own, in the VM");
    let stock = Stock::open(&options.sources)?;
    let (qemu, host) = (stock.qemu()?, stock.host_kernel()?);
    let (kernel, busybox) = (stock.kernel(options.variant.kernel)?, stock.busybox()?);
    drop(stock);
    let folder = daemon::folder()?;
    let file = |name: &str| folder.path().join(name);
    let this = std::env::current_exe().context("cannot find bellhop's own executable")?;
    // Paths at which `bellhop vm` there looks for them.
    let piece = |piece: &str, name: &str| format!("cache/{}/{piece}/{name}", cache::LAYOUT);
    let mut entries = Loader::of_machine().libraries(&this)?;
    let programs = [
        ("bin/busybox".to_owned(), &busybox),
        (format!("bin/{}", cloud_hypervisor::PROGRAM), &program),
        ("bin/bellhop-guest".to_owned(), &options.guest_program),
        ("bin/bellhop".to_owned(), &this),
        (piece(BUSYBOX, BUSYBOX_PROGRAM), &busybox),
    ];
    entries.extend(programs.map(|(path, from)| (path, Entry::Program(from.clone()))));
    let image = kernel.image.file_name().unwrap_or_default().to_string_lossy();
    entries.insert(piece(KERNEL, &image), Entry::File(kernel.image.clone()));
    entries.extend(modules(&kernel, &piece(KERNEL, "modules")));
    entries.extend(modules(&host, "modules"));
    let mut line: Vec<OsString> = ["vm", "--vmm", "cloud-hypervisor"].map(OsString::from).into();
    line.extend(["--guest-binary", "/bin/bellhop-guest", "--timeout"].map(OsString::from));
    line.push(options.timeout.as_secs().to_string().into());
    if let Some(config) = &options.config {
        entries.insert("bellhopd.toml".into(), Entry::File(config.clone()));
        line.extend(["--config", "/bellhopd.toml"].map(OsString::from));
    }
    line.push("--".into());
    line.extend(task.iter().cloned());
    let initramfs = file("initramfs");
    let archive = File::create(&initramfs).context("cannot write the VM's file system")?;
    write_host(entries, &line, archive)?;
    let kernel_log = or_in(folder.path(), options.kernel_log.as_deref(), "kernel.log");
    let machine = Machine::<PathBuf> {
        variant: &HOST,
        accelerator: Accelerator::Tcg,
        kernel: &host.image,
        initramfs: &initramfs,
        task: &Task::Run(line),
        reboots: false,
        sockets: &[],
        kernel_log: &kernel_log,
        qemu_log: &file("qemu.log"),
        status: &file("status"),
        trace: None,
        qmp: None,
        acpi_table: None,
        resets: Some(&file("resets.log")),
    };
    for _ in 0..ATTEMPTS {
        let attempt = block_on(async {
            let mut signals = Signals::new()?;
            let mut running = machine.start(&qemu, options.output()?)?;
            let timeout = options.timeout.saturating_add(OUTER);
            let attempt = attend(&machine, timeout, &mut signals, &mut None, &mut running).await;
            running.end().await?;
            attempt
        });
        match attempt {
            Ok(Attempt::Ended(Outcome::Exited(STOOD_STILL))) => note(BROKE_DOWN),
            Ok(Attempt::Ended(outcome)) => return Ok(outcome),
            Ok(Attempt::NotExecuted(why)) => {
                bail!("QEMU stopped the VM before its kernel ran: {why}")
            }
            // The outer VM should have ended the inner one before that: not even its clock works.
            Err(error) if error.is::<TooLate>() || has_triple_fault(&file("resets.log")) => {
                note(BROKE_DOWN);
            }
            Err(error) => return Err(error),
        }
    }
    bail!("QEMU's emulation of a machine with KVM broke down {ATTEMPTS} times")
}

fn has_triple_fault(resets: &Path) -> bool {
    fs::read_to_string(resets).is_ok_and(|log| log.contains(TRIPLE_FAULT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_triple_fault_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        assert!(!has_triple_fault(&log));
        fs::write(&log, "CPU Reset (CPU 0)\nEAX=00000000\n").unwrap();
        assert!(!has_triple_fault(&log));
        fs::write(&log, "CPU Reset (CPU 0)\nTriple fault\nCPU Reset (CPU 0)\n").unwrap();
        assert!(has_triple_fault(&log));
    }
}
