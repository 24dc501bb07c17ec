// SPDX-License-Identifier: MIT OR Apache-2.0

//! A running VM: QEMU as a process, from its start to the guest's exit status.

use crate::accelerator::Accelerator;
use crate::attachment;
use crate::guest::share;
use crate::monitor::Monitor;
use crate::qemu::Qemu;
use crate::task::Task;
use crate::trace::EVENTS;
use crate::variant::Variant;
use anyhow::{Context, anyhow, bail};
use bellhop_processes::process;
use command_fds::{CommandFdExt, FdMapping};
use std::fs::{self, File};
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::thread::JoinHandle;
use tokio::process::Child;

/// Lines of a log's end that an error quotes.
const QUOTED_LINES: usize = 40;
/// The beginning of a panicking kernel's reason.
const PANIC: &str = "Kernel panic";
/// Descriptor numbers in QEMU: its monitor, and the guest's output and errors.
const MONITOR_FD: i32 = 3;
pub const OUTPUT_FD: i32 = 4;
const ERRORS_FD: i32 = 5;

/// A VM to be started.
#[derive(Debug)]
pub struct Machine<'a, P> {
    /// Its shape.
    pub variant: &'a Variant,
    /// The accelerator that executes it.
    pub accelerator: Accelerator,
    /// The kernel's image.
    pub kernel: &'a Path,
    /// The guest's file system.
    pub initramfs: &'a Path,
    /// The guest's task.
    pub task: &'a Task,
    /// Whether the VM survives a reboot of its guest.
    pub reboots: bool,
    /// Each GPU's socket.
    pub sockets: &'a [P],
    /// The file for the guest kernel's messages.
    pub kernel_log: &'a Path,
    /// The file for QEMU's own messages.
    pub qemu_log: &'a Path,
    /// The file for the task's exit status.
    pub status: &'a Path,
    /// The file for QEMU's trace; `None` for no trace.
    pub trace: Option<&'a Path>,
    /// The socket of QEMU's monitor for other programs, if they may use it.
    pub qmp: Option<&'a Path>,
    /// The file with a table that the guest's firmware tells of, if there is one.
    pub acpi_table: Option<&'a Path>,
    /// The file for QEMU's log of processor resets; `None` for no log.
    pub resets: Option<&'a Path>,
}

impl<P: AsRef<Path>> Machine<'_, P> {
    /// Starts QEMU. The output of a task goes to `output`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        &self,
        qemu: &Qemu,
        output: impl Write + Send + 'static,
    ) -> anyhow::Result<Running> {
        let mut command = qemu.command();
        command.args(self.arguments()?);
        // QEMU warns a lot, which matters only when it fails.
        command.stderr(File::create(self.qemu_log).context("cannot create QEMU's log")?);
        let (monitor, monitor_end) = Monitor::pair()?;
        let mut mappings = vec![FdMapping { parent_fd: monitor_end, child_fd: MONITOR_FD }];
        let mut copies = Vec::new();
        if !matches!(self.task, Task::Shell) {
            command.stdin(Stdio::null());
            // Ctrl-C is for bellhop, which ends QEMU.
            command.process_group(0);
            copies.push(redirect(OUTPUT_FD, output, &mut mappings)?);
            copies.push(redirect(ERRORS_FD, io::stderr(), &mut mappings)?);
        }
        command.fd_mappings(mappings).context("cannot pass descriptors on to QEMU")?;
        let mut command = tokio::process::Command::from(command);
        command.kill_on_drop(true);
        let child = command.spawn().context("cannot start QEMU")?;
        // QEMU's ends of the pipes must be the last.
        drop(command);
        Ok(Running { child, monitor, copies })
    }

    fn arguments(&self) -> anyhow::Result<Vec<String>> {
        let mut arguments = attachment::arguments(self.variant, self.sockets)?;
        if let Task::Program(program) = self.task {
            arguments.extend(share::arguments(program.shared())?);
        }
        let path = attachment::escape;
        let iommu = if self.variant.iommu { " intel_iommu=on" } else { "" };
        // Whatever the kernel's built-in default, it leaves plugged memory alone until told to use it.
        let plugged =
            if self.variant.memory_slots > 0 { " memhp_default_state=offline" } else { "" };
        let huge = if self.variant.huge_pages { "" } else { " transparent_hugepage=never" };
        // Mitigations protect nothing on an emulated processor, and are slow to emulate.
        let nests = if self.variant.nests { " mitigations=off nokaslr" } else { "" };
        // A panicking kernel reboots, which ends QEMU. Without `no_timer_check`, the kernel panics if it misses timer
        // ticks while it boots, as happens when QEMU, which emulates the timer, gets no processor for that long.
        let kernel_command_line =
            format!("console=ttyS0 panic=-1 no_timer_check{iommu}{plugged}{huge}{nests}");
        let (kernel_log, status) = (path(self.kernel_log)?, path(self.status)?);
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
        add(&["-no-user-config", "-nodefaults", "-display", "none"]);
        if !self.reboots {
            add(&["-no-reboot"]);
        }
        add(&["-run-with", "exit-with-parent=on"]);
        if self.variant.nests {
            // All features that TCG can emulate. A nested guest's code is translated twice, hence the large buffer.
            add(&["-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max"]);
        } else {
            add(self.accelerator.arguments());
            if matches!(self.task, Task::Program(_)) {
                // Others build for newer processors than the one that QEMU has if nothing is said.
                add(&["-cpu", "max"]);
            }
        }
        if let Some(resets) = self.resets {
            add(&["-d", "cpu_reset", "-D", text(resets)?]);
        }
        if let Some(table) = self.acpi_table {
            add(&["-acpitable", &format!("file={}", path(table)?)]);
        }
        add(&["-chardev", &format!("socket,id=monitor,fd={MONITOR_FD}")]);
        add(&["-qmp", "chardev:monitor"]);
        if let Some(socket) = self.qmp {
            add(&["-chardev", &format!("socket,id=qmp,path={},server=on,wait=off", path(socket)?)]);
            add(&["-qmp", "chardev:qmp"]);
        }
        let (kernel, initramfs) = (text(self.kernel)?, text(self.initramfs)?);
        add(&["-kernel", kernel, "-initrd", initramfs, "-append", &kernel_command_line]);
        add(&["-chardev", &format!("file,id=kernel,path={kernel_log}")]);
        match self.task {
            Task::Run(_) | Task::Program(_) | Task::Serve => {
                for (name, fd) in [("output", OUTPUT_FD), ("errors", ERRORS_FD)] {
                    add(&["-add-fd", &format!("fd={fd},set={fd}")]);
                    add(&["-chardev", &format!("file,id={name},path=/dev/fdset/{fd},append=on")]);
                }
            }
            Task::Shell => {
                // Ctrl-A X ends the VM; Ctrl-C goes to the guest.
                add(&["-chardev", "stdio,id=output,signal=off,mux=on"]);
                add(&["-chardev", "null,id=errors"]);
            }
        }
        add(&["-chardev", &format!("file,id=status,path={status}")]);
        // An interrupt for each port: ISA devices cannot share one.
        let ports = [("kernel", 4), ("output", 3), ("errors", 5), ("status", 7)];
        for (index, (name, irq)) in ports.iter().enumerate() {
            add(&["-device", &format!("isa-serial,chardev={name},index={index},irq={irq}")]);
        }
        if let Some(trace) = self.trace {
            add(&["-D", text(trace)?]);
            EVENTS.iter().for_each(|event| add(&["-trace", event]));
        }
        Ok(arguments)
    }
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("QEMU accepts only UTF-8 paths, not {path:?}"))
}

/// Copies the guest's output through a pipe: QEMU wants a write-only descriptor, which a terminal's is not.
///
/// # Errors
/// When the kernel refuses.
pub fn redirect(
    child_fd: i32,
    to: impl Write + Send + 'static,
    mappings: &mut Vec<FdMapping>,
) -> anyhow::Result<JoinHandle<io::Result<()>>> {
    let (from, qemus) = io::pipe().context("cannot create a pipe")?;
    mappings.push(FdMapping { parent_fd: qemus.into(), child_fd });
    Ok(std::thread::spawn(move || copy(from, to)))
}

/// Copies input as soon as it arrives.
fn copy(mut from: PipeReader, mut to: impl Write) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..count])?;
        to.flush()?;
    }
}

/// A running QEMU.
pub struct Running {
    child: Child,
    monitor: Monitor,
    copies: Vec<JoinHandle<io::Result<()>>>,
}

/// Why a VM no longer runs.
#[derive(Debug)]
pub enum End {
    /// QEMU has ended.
    Exited(ExitStatus),
    /// QEMU has stopped the VM, for this reason in its words.
    Stopped(String),
}

impl Running {
    /// Waits until the VM no longer runs.
    ///
    /// # Errors
    /// When the kernel refuses, or QEMU sends an unexpected message.
    pub async fn ended(&mut self) -> anyhow::Result<End> {
        tokio::select! {
            status = self.child.wait() => Ok(End::Exited(status.context("cannot wait for QEMU")?)),
            why = self.monitor.stopped() => why.map(End::Stopped),
        }
    }

    /// Ends QEMU, and passes on the rest of the guest's output.
    ///
    /// # Errors
    /// When the signal cannot be sent, or the output could not be passed on.
    pub async fn end(self) -> anyhow::Result<()> {
        process::end(self.child).await?;
        self.copies.into_iter().try_for_each(finish)
    }
}

/// Waits until all output was passed on.
///
/// # Errors
/// When it could not be passed on.
pub fn finish(copy: JoinHandle<io::Result<()>>) -> anyhow::Result<()> {
    let result = copy.join().map_err(|_| anyhow!("a thread that copies panicked"))?;
    match result {
        // A reader that closed its end wants no more.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot pass on what the guest says")
        }
        _ => Ok(()),
    }
}

/// The exit status that the guest left.
///
/// # Errors
/// When it left none because it did not complete the task.
pub fn exit_status(status: &Path, kernel_log: &Path) -> anyhow::Result<u8> {
    let written = fs::read_to_string(status).unwrap_or_default();
    match written.trim().parse() {
        Ok(status) => Ok(status),
        Err(_) => bail!("the guest ended before its task did{}", messages(kernel_log)),
    }
}

/// Whether a guest's kernel has printed anything.
#[must_use]
pub fn has_started(kernel_log: &Path) -> bool {
    fs::metadata(kernel_log).is_ok_and(|log| log.len() > 0)
}

/// The last messages of a guest's kernel, for the end of an error.
#[must_use]
pub fn messages(kernel_log: &Path) -> String {
    match last_lines(kernel_log) {
        lines if lines.is_empty() => "; its kernel said nothing".to_owned(),
        lines => format!("; its kernel's last messages:\n{lines}"),
    }
}

/// The last lines of a log, which need not exist, and before them the reason of a kernel's panic: the dump of stack
/// and registers may be longer than the quote.
#[must_use]
pub fn last_lines(log: &Path) -> String {
    let log = fs::read(log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<_> = log.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(QUOTED_LINES));
    let reason = before.iter().find(|line| line.contains(PANIC));
    reason.into_iter().chain(last).copied().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_left_no_status_is_an_error_with_its_last_messages() {
        let folder = tempfile::tempdir().unwrap();
        let (status, log) = (folder.path().join("status"), folder.path().join("log"));
        let error = exit_status(&status, &log).unwrap_err().to_string();
        assert!(error.contains("said nothing"), "{error}");
        let messages: Vec<_> = (0..100).map(|number| format!("message {number}\r\n\r\n")).collect();
        fs::write(&log, messages.concat()).unwrap();
        fs::write(&status, "").unwrap();
        let error = exit_status(&status, &log).unwrap_err().to_string();
        assert!(error.ends_with("message 98\nmessage 99"), "{error}");
        assert!(!error.contains("message 59\n"), "{error}");
    }

    #[test]
    fn the_reason_of_a_kernel_panic_is_quoted_however_long_its_trace() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let trace = "[    3.4]  ? do_fault+0x31a/0x550\n".repeat(2 * QUOTED_LINES);
        fs::write(&log, format!("[    3.2] Kernel panic - not syncing: why\n{trace}")).unwrap();
        let lines = last_lines(&log);
        assert!(lines.starts_with("[    3.2] Kernel panic - not syncing: why\n"), "{lines}");
        assert_eq!(lines.lines().count(), 1 + QUOTED_LINES);
    }

    #[test]
    fn the_status_is_the_guest_s() {
        let folder = tempfile::tempdir().unwrap();
        let (status, log) = (folder.path().join("status"), folder.path().join("log"));
        fs::write(&status, "42\r\n").unwrap();
        assert_eq!(exit_status(&status, &log).unwrap(), 42);
    }
}
