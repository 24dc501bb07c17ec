// SPDX-License-Identifier: MIT OR Apache-2.0

//! The socket of the compositor, and who connects to it.

use anyhow::{Context, bail};
use rustix::net::sockopt::socket_peercred;
use std::fmt;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a program waits that there are no descriptors for.
const SCARCE: Duration = Duration::from_millis(100);

/// A socket that programs connect to. Its file is removed on drop.
pub(super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

/// Who connected, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    /// The user.
    pub(super) user: u32,
    /// The process that connected.
    process: i32,
}

impl Peer {
    fn of(program: &UnixStream) -> Option<Self> {
        let credentials = socket_peercred(program).ok()?;
        let (user, process) = (credentials.uid.as_raw(), credentials.pid.as_raw_nonzero().get());
        Some(Self { user, process })
    }
}

#[cfg(test)]
impl Peer {
    /// A process of a user.
    pub(super) const fn of_user(user: u32) -> Self {
        Self { user, process: 1 }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of user {}", self.process, self.user)
    }
}

impl Listener {
    /// Listens at a path. A socket that a compositor left there is replaced, one that another serves is not.
    pub(super) fn bind(path: &Path, mode: u32) -> anyhow::Result<Self> {
        let cannot = || format!("cannot listen at {}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(cannot)?;
        }
        if UnixStream::connect(path).is_ok() {
            bail!("another compositor serves {}", path.display());
        }
        if path.exists() {
            std::fs::remove_file(path).with_context(cannot)?;
        }
        let socket = UnixListener::bind(path).with_context(cannot)?;
        std::fs::set_permissions(path, Permissions::from_mode(mode)).with_context(cannot)?;
        Ok(Self { socket, path: path.to_owned() })
    }
}

impl Iterator for Listener {
    type Item = (UnixStream, Peer);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.socket.accept() {
                Ok((program, _)) => {
                    let Some(peer) = Peer::of(&program) else { continue };
                    return Some((program, peer));
                }
                // There are no descriptors or no memory, of which others of the system may free some: nobody tells of that.
                Err(_) => std::thread::sleep(SCARCE),
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Somebody may have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}
