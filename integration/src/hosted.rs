//! Daemon and guest as processes of their own, started and ended together.

use anyhow::{Context, bail};
use command_fds::{CommandFdExt, FdMapping};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// How the guest's work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The guest did it.
    Succeeded,
    /// The guest said that it failed.
    Failed,
    /// Somebody pressed Ctrl-C, or sent SIGTERM.
    Interrupted,
}

/// The number that the listening socket has in the daemon.
const LISTENER_FD: i32 = 3;

/// Makes this process end when the one that started it does, however that ends.
///
/// # Errors
/// When the kernel refuses.
pub fn end_with_parent() -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM)).context("cannot follow the parent process")
}

/// Starts a daemon and a guest that does `work`, and waits for the guest. Nothing is left of
/// either when this returns.
///
/// # Errors
/// When one cannot be started, or the daemon ends before the guest.
pub fn run(config: Option<&Path>, work: &[OsString]) -> anyhow::Result<Outcome> {
    // The socket goes with its folder, and listens before the daemon runs: the guest need not
    // wait for it.
    let folder = tempfile::Builder::new()
        .prefix("bellhop-")
        .tempdir()
        .context("cannot make a folder for the socket; set TMPDIR to one that you may write")?;
    let path = folder.path().join("gpu.sock");
    let listener = UnixListener::bind(&path)
        .with_context(|| format!("cannot listen on {}", path.display()))?;
    block_on(async {
        let mut signals = Signals::new()?;
        let mut daemon = start_daemon(listener.into(), config)?;
        let mut guest = start_guest(&path, work)?;
        let outcome = tokio::select! {
            status = guest.wait() => outcome(status?),
            status = daemon.wait() => {
                // The guest notices by itself and says what it lost; but it may have been about
                // to end.
                guest.wait().await?;
                bail!("bellhopd ended ({}) before the guest did", status?);
            }
            () = signals.received() => Outcome::Interrupted,
        };
        end(guest).await?;
        end(daemon).await?;
        Ok(outcome)
    })
}

/// Starts only a guest, for a daemon that listens at `socket_path`.
///
/// # Errors
/// When it cannot be started.
pub fn run_guest(socket_path: &Path, work: &[OsString]) -> anyhow::Result<Outcome> {
    block_on(async {
        let mut signals = Signals::new()?;
        let mut guest = start_guest(socket_path, work)?;
        let outcome = tokio::select! {
            status = guest.wait() => outcome(status?),
            () = signals.received() => Outcome::Interrupted,
        };
        end(guest).await?;
        Ok(outcome)
    })
}

fn outcome(status: std::process::ExitStatus) -> Outcome {
    if status.success() { Outcome::Succeeded } else { Outcome::Failed }
}

fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(future)
}

fn this_executable() -> anyhow::Result<Command> {
    let path = std::env::current_exe().context("cannot find bellhop's own executable")?;
    let mut command = Command::new(path);
    command.kill_on_drop(true);
    Ok(command)
}

fn start_daemon(listener: OwnedFd, config: Option<&Path>) -> anyhow::Result<Child> {
    let mut command = this_executable()?;
    command.args(["daemon", "--", "--fd", &LISTENER_FD.to_string()]);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    // People asked for a report, not for the daemon's life story.
    if std::env::var_os("BELLHOP_LOG").is_none() {
        command.env("BELLHOP_LOG", "warn");
    }
    let mapping = FdMapping { parent_fd: listener, child_fd: LISTENER_FD };
    command.as_std_mut().fd_mappings(vec![mapping]).context("cannot pass the socket on")?;
    command.spawn().context("cannot start bellhopd")
}

fn start_guest(socket_path: &Path, work: &[OsString]) -> anyhow::Result<Child> {
    let mut command = this_executable()?;
    command.args(["guest", "--", "--end-with-parent", "--socket-path"]).arg(socket_path).args(work);
    command.spawn().context("cannot start the guest")
}

/// Ends a process that may have ended already.
async fn end(mut child: Child) -> anyhow::Result<()> {
    if let Some(id) = child.id()
        && let Some(pid) = rustix::process::Pid::from_raw(id as i32)
    {
        // It has not been waited for, so the number is still its own.
        rustix::process::kill_process(pid, Signal::TERM).context("cannot end a process")?;
        child.wait().await?;
    }
    Ok(())
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("cannot watch for Ctrl-C")?,
            terminate: signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
