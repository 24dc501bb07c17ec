// SPDX-License-Identifier: MIT OR Apache-2.0

//! Daemon and guest as separate processes, started and ended together.

use anyhow::{Context, bail};
use bellhop_guest::bench::DAEMON_VARIABLE;
use bellhop_guest::processors::{self, Apart};
use bellhop_processes::daemon::{self, Daemon, Options};
use bellhop_processes::process::{self, Signals, block_on, end};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::process::{Child, Command};

/// How the guest's work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The guest succeeded.
    Succeeded,
    /// The guest failed, with this exit status.
    Failed(u8),
    /// Ctrl-C or SIGTERM ended it.
    Interrupted,
}

/// The arguments that make `bellhop` a worker.
pub const WORKER: &[&str] = &["worker", "--"];

/// The exit status with which shells report a program that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// The file of this process's program.
///
/// # Errors
/// When it is unknown.
pub fn this_executable() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find bellhop's own executable")
}

impl Outcome {
    /// `bellhop`'s exit code.
    #[must_use]
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Succeeded => ExitCode::SUCCESS,
            Self::Failed(status) => status.into(),
            Self::Interrupted => INTERRUPTED.into(),
        }
    }
}

/// Starts a daemon with these options and a guest that does `work`, on separate processors if `apart` says which, and
/// waits for the guest. Both have ended when this returns.
///
/// # Errors
/// When one cannot be started, or the daemon ends before the guest.
pub fn run(
    options: Options<'_>,
    apart: Option<Apart>,
    work: &[OsString],
) -> anyhow::Result<Outcome> {
    beside(options, apart, |path| guest(path, work))
}

/// The same, with the guest that `command` starts, given the path of the daemon's socket.
///
/// # Errors
/// When one cannot be started, or the daemon ends before the guest.
pub fn beside(
    options: Options<'_>,
    apart: Option<Apart>,
    command: impl FnOnce(&Path) -> anyhow::Result<Command>,
) -> anyhow::Result<Outcome> {
    let folder = daemon::folder()?;
    let path = folder.path().join("gpu.sock");
    block_on(async {
        let mut signals = Signals::new()?;
        let start_daemon = || Daemon::start(&[&path], options);
        let start_guest = |daemon: &Daemon| {
            let mut command = command(&path)?;
            command.envs(daemon.id().map(|id| (DAEMON_VARIABLE, id.to_string())));
            start(command)
        };
        let (mut daemon, mut guest) = match apart {
            Some(Apart { guest, daemon }) => {
                let daemon = processors::on(daemon, start_daemon)??;
                let guest = processors::on(guest, || start_guest(&daemon))??;
                (daemon, guest)
            }
            None => {
                let daemon = start_daemon()?;
                let guest = start_guest(&daemon)?;
                (daemon, guest)
            }
        };
        let outcome = tokio::select! {
            status = guest.wait() => outcome(status?),
            status = daemon.ended() => {
                // The guest notices by itself and reports its loss, but it may also have been about to end.
                guest.wait().await?;
                bail!("bellhopd ended ({}) before the guest did", status?);
            }
            () = signals.received() => Outcome::Interrupted,
        };
        end(guest).await?;
        daemon.end().await?;
        Ok(outcome)
    })
}

/// Starts only a guest, for a daemon that listens at `socket_path`.
///
/// # Errors
/// When it cannot be started.
pub fn run_guest(socket_path: &Path, work: &[OsString]) -> anyhow::Result<Outcome> {
    alone(guest(socket_path, work)?)
}

/// Starts only the guest that `command` does, and waits for it.
///
/// # Errors
/// When it cannot be started.
pub fn alone(command: Command) -> anyhow::Result<Outcome> {
    block_on(async {
        let mut signals = Signals::new()?;
        let mut guest = start(command)?;
        let outcome = tokio::select! {
            status = guest.wait() => outcome(status?),
            () = signals.received() => Outcome::Interrupted,
        };
        end(guest).await?;
        Ok(outcome)
    })
}

pub(crate) fn outcome(status: std::process::ExitStatus) -> Outcome {
    match status.code().map(u8::try_from) {
        Some(Ok(0)) => Outcome::Succeeded,
        Some(Ok(code)) => Outcome::Failed(code),
        // A signal ended the guest; shells say it so.
        Some(Err(_)) | None => {
            Outcome::Failed(status.signal().map_or(1, |signal| 128 | signal as u8))
        }
    }
}

pub(crate) fn start_guest(socket_path: &Path, work: &[OsString]) -> anyhow::Result<Child> {
    start(guest(socket_path, work)?)
}

fn start(mut command: Command) -> anyhow::Result<Child> {
    command.spawn().with_context(|| {
        let program = command.as_std().get_program().to_string_lossy();
        format!("cannot start the guest, {program}")
    })
}

pub(crate) fn guest(socket_path: &Path, work: &[OsString]) -> anyhow::Result<Command> {
    let mut command = process::this_executable()?;
    command.args(["guest", "--", "--end-with-parent", "--socket-path"]).arg(socket_path).args(work);
    Ok(command)
}
