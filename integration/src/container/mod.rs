// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop container`: a guest in a container.
//!
//! The container has only the device's socket: no network, no capability, no writable file, and a user that the
//! host does not know. `bellhop-guest` in it is the front end of the vhost-user connection and so stands for a
//! VMM.

pub mod cdi;
mod engine;
mod guest;
mod image;
mod program;
mod socket;

use crate::hosted::Outcome;
use anyhow::{Context, bail};
use bellhop_guest::cli::CarriedFile;
use bellhop_guest::output::put_line;
use bellhop_guest_umd::transport::find::SOCKET_VARIABLE;
use bellhop_processes::daemon::{self, Daemon};
use bellhop_processes::process::{Signals, block_on};
use engine::Engine;
pub use guest::Payload;
use guest::{Container, Guest};
pub use program::{OF_THIS_MACHINE, Program, Root};
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where the service listens.
pub const SOCKET_OF_SERVICE: &str = "/run/bellhop/gpu.sock";

/// Where a container finds its device.
const SOCKET_IN_CONTAINER: &str = "/run/bellhop/gpu.sock";

/// The options of a run in a container.
#[derive(Debug)]
pub struct Options {
    /// The socket of a running daemon; `None` to start one.
    pub socket: Option<PathBuf>,
    /// The configuration of a daemon that this starts.
    pub config: Option<PathBuf>,
    /// The words of the command line of that daemon's workers; empty for its own.
    pub worker: Vec<OsString>,
    /// The container's memory limit, as podman reads it.
    pub memory: Option<String>,
    /// What runs in the container.
    pub payload: Payload,
    /// Files of the host's that are to be in the container.
    pub files: Vec<CarriedFile>,
    /// The file for the task's output; `None` for standard output.
    pub output: Option<File>,
}

/// What an image is made of.
#[derive(Debug, Clone, Copy)]
pub enum Contents<'a> {
    /// This `bellhop-guest` alone.
    Guest(&'a Path),
    /// Nothing that is not the host's.
    Links,
    /// The user has the image.
    Made,
}

/// Builds an image, runs it, and removes image and container.
///
/// # Errors
/// When podman fails, the container is killed, or the daemon ends before the guest.
pub fn run(options: Options, contents: Contents<'_>) -> anyhow::Result<Outcome> {
    in_folder(async |folder, signals| {
        // The user's image is in the user's storage.
        let storage = (!matches!(contents, Contents::Made)).then_some(folder);
        let Some(engine) = prepare(storage, contents, folder, signals).await? else {
            return Ok(Outcome::Interrupted);
        };
        let Options { socket, config, worker, memory, payload, files, output } = options;
        let files = copied(&files, &folder.join("files"))?;
        match socket {
            Some(socket) => {
                let guest = Guest { socket: absolute(&socket)?, memory, files, payload };
                alone(Container::start(&engine, guest, output, folder)?, signals).await
            }
            None => {
                let socket = folder.join("gpu.sock");
                let options = daemon::Options {
                    config: config.as_deref(),
                    worker: &worker,
                    ..daemon::Options::default()
                };
                let daemon = Daemon::start(&[&socket], options)?;
                // The host does not know the container's user. Other users still cannot reach the socket: only the
                // owner may enter the folder.
                fs::set_permissions(&socket, Permissions::from_mode(0o666))
                    .context("cannot let the container use the socket")?;
                let guest = Guest { socket, memory, files, payload };
                beside(daemon, Container::start(&engine, guest, output, folder)?, signals).await
            }
        }
    })
}

/// Puts the image into the user's own storage and prints its name.
///
/// # Errors
/// When podman fails.
pub fn make_image(program: &Path) -> anyhow::Result<Outcome> {
    in_folder(async |folder, signals| {
        if prepare(None, Contents::Guest(program), folder, signals).await?.is_none() {
            return Ok(Outcome::Interrupted);
        }
        put_line(image::NAME)?;
        Ok(Outcome::Succeeded)
    })
}

/// The command that people may run themselves, with the image in their own storage. Its output goes to `output`.
///
/// # Errors
/// When this host, or the socket, does not allow it.
pub fn command_line(options: Options, output: Option<&Path>) -> anyhow::Result<String> {
    let Options { socket, memory, payload, mut files, .. } = options;
    for file in &mut files {
        file.path = absolute(&file.path)?;
    }
    let socket = absolute(socket.as_deref().unwrap_or(Path::new(SOCKET_OF_SERVICE)))?;
    let engine = block_on(Engine::new(None))?;
    let line = Guest { socket, memory, files, payload }.command_line(&engine)?;
    let words = line.iter().map(|word| word.to_str().context("a name is not UTF-8"));
    let words: Vec<&str> = words.collect::<anyhow::Result<_>>()?;
    let mut line = shlex::try_join(words).context("a name has a NUL")?;
    if let Some(output) = output {
        let output = output.to_str().context("a name is not UTF-8")?;
        line = format!("{line} > {}", shlex::try_quote(output)?);
    }
    Ok(line)
}

/// Copies files into a folder, where the container's user may read them.
fn copied(files: &[CarriedFile], folder: &Path) -> anyhow::Result<Vec<CarriedFile>> {
    fs::create_dir(folder).context("cannot create a folder")?;
    let copy = |file: &CarriedFile| {
        let path = folder.join(&file.name);
        let copy = || {
            // Not `fs::copy`: the file may be a pipe.
            io::copy(&mut File::open(&file.path)?, &mut File::create(&path)?)?;
            fs::set_permissions(&path, Permissions::from_mode(0o444))
        };
        copy().with_context(|| format!("cannot read {}", file.path.display()))?;
        Ok(CarriedFile { path, name: file.name.clone() })
    };
    files.iter().map(copy).collect()
}

/// Calls `work` with a temporary folder and the signals that interrupt it.
fn in_folder(
    work: impl AsyncFnOnce(&Path, &mut Signals) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    let folder = daemon::folder()?;
    let outcome = block_on(async {
        let outcome = work(folder.path(), &mut Signals::new()?).await;
        let removed = engine::remove_storage(folder.path()).await;
        let outcome = outcome?;
        removed.map(|()| outcome)
    })?;
    folder.close().context("cannot remove the folder of the run")?;
    Ok(outcome)
}

/// Builds the image in this storage, or the user's. Returns `None` when interrupted.
async fn prepare(
    storage: Option<&Path>,
    contents: Contents<'_>,
    folder: &Path,
    signals: &mut Signals,
) -> anyhow::Result<Option<Engine>> {
    let prepared = async {
        let engine = Engine::new(storage).await?;
        engine.explain();
        match contents {
            Contents::Guest(program) => image::build(&engine, program, folder).await?,
            Contents::Links => program::build(&engine, folder).await?,
            Contents::Made => {}
        }
        Ok(engine)
    }
    .await;
    // Signals are handled only now, because podman must not be ended while it writes.
    if signals.have_come().await { Ok(None) } else { prepared.map(Some) }
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
}

/// Waits for a container that uses an already running daemon.
async fn alone(mut container: Container<'_>, signals: &mut Signals) -> anyhow::Result<Outcome> {
    let outcome = tokio::select! {
        outcome = container.ended() => outcome,
        () = signals.received() => Ok(Outcome::Interrupted),
    };
    container.end().await?;
    outcome
}

/// Waits for a container, and then ends its daemon.
async fn beside(
    mut daemon: Daemon,
    mut container: Container<'_>,
    signals: &mut Signals,
) -> anyhow::Result<Outcome> {
    let outcome = tokio::select! {
        outcome = container.ended() => outcome,
        status = daemon.ended() => {
            // The guest notices by itself and reports its loss, but it may also have been about to end.
            let _ = container.ended().await;
            status.context("cannot wait for bellhopd").and_then(|status| {
                bail!("bellhopd ended ({status}) before the guest did")
            })
        }
        () = signals.received() => Ok(Outcome::Interrupted),
    };
    container.end().await?;
    daemon.end().await?;
    outcome
}
