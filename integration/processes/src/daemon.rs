// SPDX-License-Identifier: MIT OR Apache-2.0

//! A `bellhopd` for as long as a guest needs it.

use crate::process;
use anyhow::Context;
use command_fds::{CommandFdExt, FdMapping};
use std::ffi::OsString;
use std::fs::Permissions;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitStatus;
use tempfile::NamedTempFile;
use tokio::process::Child;

/// The descriptor number of the first listening socket in the daemon.
const FIRST_LISTENER_FD: i32 = 3;

/// A running `bellhopd`.
pub struct Daemon {
    child: Child,
    /// The configuration file, which the daemon reads while it starts.
    _config: Option<NamedTempFile>,
}

/// What a daemon is started with, beside its sockets for guests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// Its configuration; without one, its guest may change power states.
    pub config: Option<&'a Path>,
    /// The path of its control socket, which can be connected to once the daemon listens.
    pub control: Option<&'a Path>,
    /// The path of its operator's socket, as [`Self::control`].
    pub operator: Option<&'a Path>,
    /// The words of the command line of workers, as `bellhopd --worker` takes them; if empty, workers are this
    /// executable, with this machine's Vulkan.
    pub worker: &'a [OsString],
    /// Whether it logs errors alone by default: its guests do what it warns of.
    pub quiet: bool,
}

/// The options of `bellhopd` that make these words the command line of its workers.
pub fn worker_options(words: &[OsString]) -> impl Iterator<Item = OsString> {
    words.iter().map(|word| {
        let mut option = OsString::from("--worker=");
        option.push(word);
        option
    })
}

impl Daemon {
    /// Starts a daemon that serves a guest on each of these sockets. They listen before the daemon runs, so a
    /// guest can connect at once.
    ///
    /// # Errors
    /// When a socket cannot be made, or the daemon cannot be started.
    pub fn start<P: AsRef<Path>>(sockets: &[P], options: Options<'_>) -> anyhow::Result<Self> {
        let Options { config, control, operator, worker, quiet } = options;
        let mut command = process::this_executable()?;
        command.args(["daemon", "--"]);
        if let Some(control) = control {
            command.arg("--control-socket").arg(control);
        }
        if let Some(operator) = operator {
            command.arg("--operator-socket").arg(operator);
        }
        command.args(worker_options(worker));
        let mut mappings = Vec::new();
        for (path, child_fd) in sockets.iter().map(AsRef::as_ref).zip(FIRST_LISTENER_FD..) {
            let listener = UnixListener::bind(path)
                .with_context(|| format!("cannot listen on {}", path.display()))?;
            mappings.push(FdMapping { parent_fd: OwnedFd::from(listener), child_fd });
            command.args([OsString::from("--fd"), child_fd.to_string().into()]);
        }
        let own_config = match config {
            Some(_) => None,
            None => Some(private_config()?),
        };
        let config = config.or(own_config.as_ref().map(NamedTempFile::path));
        command.arg("--config").args(config);
        // People want a report, not the daemon's log.
        if std::env::var_os("BELLHOP_LOG").is_none() {
            command.env("BELLHOP_LOG", if quiet { "error" } else { "warn" });
        }
        // Ctrl-C is for bellhop, which ends the guest first.
        command.process_group(0);
        command.as_std_mut().fd_mappings(mappings).context("cannot pass the sockets on")?;
        let child = command.spawn().context("cannot start bellhopd")?;
        Ok(Self { child, _config: own_config })
    }

    /// The daemon's process id, unless it has ended.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until the daemon ends, which it does by itself only after an error.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends the daemon.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub async fn end(self) -> anyhow::Result<()> {
        process::end(self.child).await
    }
}

/// The configuration of a daemon for one run: its guest may change power states.
fn private_config() -> anyhow::Result<NamedTempFile> {
    let mut file = NamedTempFile::new().context(
        "cannot create the daemon's configuration; set TMPDIR to a folder you may write",
    )?;
    file.write_all(b"[debug]\npower_control = true\n")?;
    Ok(file)
}

/// A folder for the sockets and other files of one run; it is removed with the run.
///
/// # Errors
/// When it cannot be made.
pub fn folder() -> anyhow::Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("bellhop-")
        // A user who reaches a socket in it can use the GPU.
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .context("cannot create a folder for the run; set TMPDIR to one that you may write")
}
