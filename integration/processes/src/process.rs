// SPDX-License-Identifier: MIT OR Apache-2.0

//! Child processes, which end with this one.

use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// Makes this process end when its parent ends, for whatever reason.
///
/// # Errors
/// When the kernel refuses.
pub fn end_with_parent() -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .context("cannot arrange to end with the parent process")
}

/// Runs a future to its end on this thread.
///
/// # Errors
/// The future's own, and when the runtime cannot start.
pub fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(future)
}

/// A command for `bellhop` itself, to run one of the programs that it contains.
///
/// # Errors
/// When its executable cannot be found.
pub fn this_executable() -> anyhow::Result<Command> {
    let path = std::env::current_exe().context("cannot find bellhop's own executable")?;
    let mut command = Command::new(path);
    command.kill_on_drop(true);
    Ok(command)
}

/// Ends a process that may have ended already.
///
/// # Errors
/// When the signal cannot be sent.
pub async fn end(mut child: Child) -> anyhow::Result<()> {
    if let Some(id) = child.id()
        && let Some(pid) = rustix::process::Pid::from_raw(id as i32)
    {
        // The process has not been waited for, so the number still names it.
        rustix::process::kill_process(pid, Signal::TERM).context("cannot end a process")?;
        child.wait().await?;
    }
    Ok(())
}

/// The signals that request the end of the program.
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    /// Catches the signals from now on; they no longer end this process by themselves.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("cannot watch for Ctrl-C")?,
            terminate: signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?,
            hang_up: signal(SignalKind::hangup()).context("cannot watch for SIGHUP")?,
        })
    }

    /// Waits for Ctrl-C, SIGTERM, or the end of the terminal.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }

    /// Whether a signal has arrived already.
    pub async fn have_come(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.received() => true,
            () = std::future::ready(()) => false,
        }
    }
}
