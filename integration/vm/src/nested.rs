// SPDX-License-Identifier: MIT OR Apache-2.0

//! cloud-hypervisor on a machine without a working KVM: in a VM that QEMU emulates, with KVM on the emulated
//! processor. That VM runs `bellhop vm`, and has all needed files in its file system.

use crate::accelerator::Accelerator;
use crate::cloud_hypervisor;
use crate::environment::{BUSYBOX, BUSYBOX_PROGRAM, KERNEL, Stock};
use crate::in_qemu::{Attempt, TooLate, attend};
use crate::initramfs::{HostFiles, Task, write_host};
use crate::machine::Machine;
use crate::options::{Options, Outcome, STOOD_STILL, or_in};
use crate::packages::cache;
use crate::variant::HOST;
use anyhow::{Context, bail, ensure};
use bellhop_processes::daemon;
use bellhop_processes::process::{Signals, block_on};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
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
/// The dynamic loader, which lists programs' libraries.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// Boots the VM in a VM, and has it do its task.
///
/// # Errors
/// When it cannot be set up or started, or does not complete the task.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let program = cloud_hypervisor::find()?;
    let task = options.task.as_deref().context("a guest in cloud-hypervisor cannot run a shell")?;
    ensure!(options.sockets.is_empty(), "--nested starts a bellhopd of its own, in the VM");
    let stock = Stock::open(&options.sources)?;
    let (qemu, host) = (stock.qemu()?, stock.host_kernel()?);
    let (kernel, busybox) = (stock.kernel(options.variant.kernel)?, stock.busybox()?);
    drop(stock);
    let folder = daemon::folder()?;
    let file = |name: &str| folder.path().join(name);
    let this = std::env::current_exe().context("cannot find bellhop's own executable")?;
    let mut programs = vec![
        ("bin/busybox".to_owned(), busybox.clone()),
        (format!("bin/{}", cloud_hypervisor::PROGRAM), program),
        ("bin/bellhop-guest".to_owned(), options.guest_program.clone()),
        ("bin/bellhop".to_owned(), this.clone()),
    ];
    programs.extend(libraries(&this)?);
    // Paths at which `bellhop vm` there looks for them.
    let piece = |piece: &str, name: &str| format!("cache/{}/{piece}/{name}", cache::LAYOUT);
    programs.push((piece(BUSYBOX, BUSYBOX_PROGRAM), busybox));
    let mut files = vec![(piece(KERNEL, "vmlinuz"), kernel.image)];
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    files.extend(
        kernel
            .modules
            .into_iter()
            .map(|path| (piece(KERNEL, &format!("modules/{}", name(&path))), path)),
    );
    let modules = host.modules.iter();
    files.extend(modules.map(|path| (format!("modules/{}", name(path)), path.clone())));
    let mut line: Vec<OsString> = ["vm", "--vmm", "cloud-hypervisor"].map(OsString::from).into();
    line.extend(["--guest-binary", "/bin/bellhop-guest", "--timeout"].map(OsString::from));
    line.push(options.timeout.as_secs().to_string().into());
    if let Some(config) = &options.config {
        files.push(("bellhopd.toml".to_owned(), config.clone()));
        line.extend(["--config", "/bellhopd.toml"].map(OsString::from));
    }
    line.push("--".into());
    line.extend(task.iter().cloned());
    let initramfs = file("initramfs");
    let archive = File::create(&initramfs).context("cannot write the VM's file system")?;
    write_host(&HostFiles { programs: &programs, files: &files, arguments: &line }, archive)?;
    let kernel_log = or_in(folder.path(), options.kernel_log.as_deref(), "kernel.log");
    let machine = Machine::<PathBuf> {
        variant: &HOST,
        accelerator: Accelerator::Tcg,
        kernel: &host.image,
        initramfs: &initramfs,
        task: &Task::Run(&line),
        reboots: false,
        sockets: &[],
        kernel_log: &kernel_log,
        qemu_log: &file("qemu.log"),
        status: &file("status"),
        trace: None,
        qmp: None,
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
            Ok(Attempt::Ended(Outcome::Exited(STOOD_STILL))) => eprintln!("{BROKE_DOWN}"),
            Ok(Attempt::Ended(outcome)) => return Ok(outcome),
            Ok(Attempt::NotExecuted(why)) => {
                bail!("QEMU stopped the VM before its kernel ran: {why}")
            }
            // The outer VM should have ended the inner one before that: not even its clock works.
            Err(error) if error.is::<TooLate>() || has_triple_fault(&file("resets.log")) => {
                eprintln!("{BROKE_DOWN}");
            }
            Err(error) => return Err(error),
        }
    }
    bail!("QEMU's emulation of a machine with KVM broke down {ATTEMPTS} times")
}

fn has_triple_fault(resets: &Path) -> bool {
    fs::read_to_string(resets).is_ok_and(|log| log.contains(TRIPLE_FAULT))
}

/// The libraries of a program, and their loader; empty for a static program.
fn libraries(program: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let listed = Command::new(LOADER).arg("--list").arg(program).output();
    let listed = listed.with_context(|| format!("cannot start {LOADER}"))?;
    if !listed.status.success() {
        return Ok(Vec::new());
    }
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut libraries = vec![(LOADER[1..].to_owned(), PathBuf::from(LOADER))];
    libraries.extend(listed.lines().filter_map(library));
    Ok(libraries)
}

/// The library in a line of the loader: `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f57e881e000)`.
fn library(line: &str) -> Option<(String, PathBuf)> {
    let (name, rest) = line.trim().split_once(" => ")?;
    let (path, _) = rest.rsplit_once(" (")?;
    Some((format!("lib/{name}"), path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_libraries_are_read_from_what_the_loader_prints() {
        let line = "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f57e881e000)";
        let expected = ("lib/libc.so.6".into(), "/lib/x86_64-linux-gnu/libc.so.6".into());
        assert_eq!(library(line), Some(expected));
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007f57e9139000)"), None);
        assert_eq!(library("\t/lib64/ld-linux-x86-64.so.2 (0x00007f57e913b000)"), None);
        // This test is a program that needs the C library.
        let this = libraries(&std::env::current_exe().unwrap()).unwrap();
        assert!(this.iter().any(|(name, _)| name == "lib/libc.so.6"), "{this:?}");
    }

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
