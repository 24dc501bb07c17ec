// SPDX-License-Identifier: MIT OR Apache-2.0

//! A VM in cloud-hypervisor, which has one serial port and one console.
//!
//! The guest's output goes through the console unchanged. The port carries its kernel's messages, and between
//! them, marked, its errors and its exit status.

use crate::environment::Stock;
use crate::guest::initramfs::Guest;
use crate::machine::{OUTPUT_FD, finish, last_lines, redirect};
use crate::options::{Options, Outcome, or_in};
use anyhow::{Context, bail, ensure};
use bellhop_guest::output::note;
use bellhop_processes::daemon::{self, Daemon};
use bellhop_processes::process::{self, Signals, block_on};
use bellhop_protocol::config::VIRTIO_DEVICE_ID;
use command_fds::CommandFdExt;
use rustix::fs::{Access, access};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program's name, which is also the VMM's.
pub const PROGRAM: &str = "cloud-hypervisor";
/// The variable that names another program.
const VARIABLE: &str = "BELLHOP_CLOUD_HYPERVISOR";
const KVM: &str = "/dev/kvm";
/// Marks of the guest's lines among its kernel's messages (`guest/init.sh`).
const ERROR: &str = "bellhop-guest-error: ";
const STATUS: &str = "bellhop-guest-status: ";

/// A running guest, however slow, gives a sign of life within this time.
const SILENCE: Duration = Duration::from_secs(120);

/// Finds the program.
///
/// # Errors
/// When it is not found.
pub fn find() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "{VARIABLE} names {}, which is no file", path.display());
        return Ok(path);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(PROGRAM)).find(|path| path.is_file())
        .with_context(|| {
            format!(
                "{PROGRAM} is not in PATH, and {VARIABLE} names none; it is one static program: see \
                 https://github.com/cloud-hypervisor/cloud-hypervisor/releases"
            )
        })
}

/// Boots the VM on this machine's KVM, and has it do its task.
///
/// # Errors
/// When it cannot be set up or started, or does not complete the task.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let program = find()?;
    access(KVM, Access::READ_OK | Access::WRITE_OK)
        .with_context(|| format!("{PROGRAM} needs {KVM}; without it, try --nested"))?;
    let stock = Stock::open(&options.sources)?;
    let (kernel, busybox) = (stock.kernel(options.variant.kernel)?, stock.busybox()?);
    drop(stock);
    let folder = daemon::folder()?;
    let file = |name: &str| folder.path().join(name);
    let initramfs = file("initramfs");
    let archive = File::create(&initramfs).context("cannot write the guest's file system")?;
    let guest = Guest {
        busybox: &busybox,
        program: &options.guest_program,
        kernel: &kernel,
        carried: &options.files,
        systemd: None,
        task: &options.task,
        user: options.user,
    };
    guest.write(archive)?;
    let socket = match &options.sockets[..] {
        [] => file("gpu0.sock"),
        [socket] => socket.clone(),
        _ => bail!("this VM has one GPU, so it needs one socket"),
    };
    let log = or_in(folder.path(), options.kernel_log.as_deref(), "kernel.log");
    let own_log = file("cloud-hypervisor.log");
    let mut command = Command::new(program);
    command.args(arguments(options, &kernel.image, &initramfs, &socket, &log)?);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(&own_log).context("cannot create cloud-hypervisor's log")?);
    // Ctrl-C is for bellhop, which ends the VMM.
    command.process_group(0);
    block_on(async {
        let mut signals = Signals::new()?;
        let mut daemon = if options.sockets.is_empty() {
            Some(Daemon::start(&[&socket], options.of_daemon())?)
        } else {
            None
        };
        let mut mappings = Vec::new();
        let copy = redirect(OUTPUT_FD, options.output()?, &mut mappings)?;
        command.fd_mappings(mappings).context("cannot pass descriptors on")?;
        let mut command = tokio::process::Command::from(command);
        command.kill_on_drop(true);
        let mut child = command.spawn().context("cannot start cloud-hypervisor")?;
        // The VMM's end of the pipe must be the last.
        drop(command);
        let daemon_ended = async {
            match &mut daemon {
                Some(daemon) => daemon.ended().await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            status = child.wait() => {
                let status = status.context("cannot wait for cloud-hypervisor")?;
                let said = || last_lines(&own_log);
                ensure!(status.success(), "cloud-hypervisor failed ({status}):\n{}", said());
                None
            }
            ended = daemon_ended => bail!("bellhopd ended ({}) before the VM did", ended?),
            () = signals.received() => Some(Outcome::Interrupted),
            () = stands_still(&log, SILENCE) => {
                note(format_args!(
                    "bellhop: the guest's kernel has given no sign of life for {} s; the last that it \
                     said:\n{}",
                    SILENCE.as_secs(),
                    last_lines(&log),
                ));
                Some(Outcome::StoodStill)
            }
            () = tokio::time::sleep(options.timeout) => bail!(
                "the guest did not finish within {} s; allow more with --timeout; the last that it \
                 said:\n{}",
                options.timeout.as_secs(),
                last_lines(&log),
            ),
        };
        process::end(child).await?;
        finish(copy)?;
        if let Some(daemon) = daemon {
            daemon.end().await?;
        }
        match outcome {
            Some(outcome) => Ok(outcome),
            None => exit_status(&log).map(Outcome::Exited),
        }
    })
}

fn arguments(
    options: &Options,
    kernel: &Path,
    initramfs: &Path,
    socket: &Path,
    log: &Path,
) -> anyhow::Result<Vec<String>> {
    let text = |path: &Path| {
        let text = path.to_str().with_context(|| format!("this path is not UTF-8: {path:?}"))?;
        ensure!(!text.contains(','), "cloud-hypervisor takes no path with a comma: {text}");
        anyhow::Ok(text.to_owned())
    };
    let variant = options.variant;
    let pairs = [
        ("--kernel", text(kernel)?),
        ("--initramfs", text(initramfs)?),
        ("--cmdline", "console=ttyS0 panic=-1 no_timer_check mitigations=off ports=one".into()),
        ("--serial", format!("file={}", text(log)?)),
        ("--console", format!("file=/dev/fd/{OUTPUT_FD}")),
        // The device reads and writes guest memory itself.
        ("--memory", format!("size={}M,shared=on", variant.memory_mib)),
        ("--cpus", format!("boot={}", variant.processors)),
        (
            "--generic-vhost-user",
            format!("socket={},device_type={VIRTIO_DEVICE_ID},queue_sizes=[64,64]", text(socket)?),
        ),
    ];
    Ok(pairs.into_iter().flat_map(|(option, value)| [option.to_owned(), value]).collect())
}

/// Waits until the guest has given no sign of life for `silence`. It gives one every five seconds of its own clock
/// (`guest/init.sh`), whatever its task and the device do. A guest without any output may be about to start.
async fn stands_still(log: &Path, silence: Duration) {
    let length = || fs::metadata(log).map_or(0, |metadata| metadata.len());
    let (mut last, mut since) = (length(), Instant::now());
    while last == 0 || since.elapsed() < silence {
        tokio::time::sleep(silence / 20).await;
        let now = length();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// Passes on the guest's errors, and returns its exit status.
fn exit_status(log: &Path) -> anyhow::Result<u8> {
    let said = fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let marked = |mark: &'static str| {
        said.lines().filter_map(move |line| line.split_once(mark)).map(|(_, text)| text.trim_end())
    };
    marked(ERROR).for_each(note);
    match marked(STATUS).next_back() {
        Some(status) => status.parse().with_context(|| format!("{status:?} is no exit status")),
        None => bail!(
            "the guest ended before its task did; its kernel's last messages:\n{}",
            last_lines(log)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_stands_still_when_it_spoke_and_is_silent() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (silence, long) = (Duration::from_millis(1), Duration::from_millis(50));
        block_on(async {
            assert!(tokio::time::timeout(long, stands_still(&log, silence)).await.is_err());
            fs::write(&log, "[    1.0] booting\n").unwrap();
            stands_still(&log, silence).await;
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn the_status_is_found_among_the_kernel_s_messages() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let said = "[    1.0] booting\r\n[    2.0] bellhop-guest-error: why\r\n\
                    bellhop-guest-status: 42\r\n[    3.0] reboot: Power down\r\n";
        fs::write(&log, said).unwrap();
        assert_eq!(exit_status(&log).unwrap(), 42);
        fs::write(&log, "[    1.0] Kernel panic - not syncing: why\r\n").unwrap();
        let error = exit_status(&log).unwrap_err().to_string();
        assert!(error.contains("before its task did") && error.contains("not syncing"), "{error}");
    }
}
