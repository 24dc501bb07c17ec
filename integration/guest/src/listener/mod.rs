// SPDX-License-Identifier: MIT OR Apache-2.0

//! A socket that programs of the guest connect to, and who does.

pub(crate) mod descriptors;

use anyhow::{Context, bail};
use rustix::fs::{Mode, chmod};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, shutdown, socket_with,
};
use std::fmt;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// A socket that programs connect to. Its file is removed on drop.
pub(crate) struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

/// What waits at a listener's socket.
pub(crate) enum Knock {
    /// A program.
    Program(Connection),
    /// A program, for which there are no descriptors or no memory now.
    Scarce(Errno),
    /// Nobody: the listener was ended.
    End,
}

/// Ends a listener from another thread.
pub(crate) struct Ender(OwnedFd);

/// A program's connection.
pub(crate) struct Connection {
    /// The socket.
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
}

/// Who connected, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The user.
    pub(crate) user: u32,
    /// The process that connected.
    pub(crate) process: i32,
}

impl Peer {
    fn of(socket: &OwnedFd) -> Result<Self, Errno> {
        let credentials = socket_peercred(socket)?;
        let (user, process) = (credentials.uid.as_raw(), credentials.pid.as_raw_nonzero().get());
        Ok(Self { user, process })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of user {}", self.process, self.user)
    }
}

fn socket(kind: SocketType) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
}

impl Listener {
    /// Listens at a path, as this kind of server, with sockets of this type. A socket that a server left there is replaced, one that
    /// another serves is not.
    pub(crate) fn bind(
        path: &Path,
        mode: u32,
        who: &str,
        kind: SocketType,
    ) -> anyhow::Result<Self> {
        let cannot = || format!("cannot listen at {}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(cannot)?;
        }
        let address = SocketAddrUnix::new(path).with_context(cannot)?;
        let is_served = connect(socket(kind)?, &address).is_ok();
        if is_served {
            bail!("another {who} serves {}", path.display());
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(cannot);
            }
            _ => {}
        }
        let socket = socket(kind)?;
        bind(&socket, &address).with_context(cannot)?;
        chmod(path, Mode::from_raw_mode(mode)).with_context(cannot)?;
        // An older Linux takes them.
        let _ = descriptors::refuse(&socket);
        listen(&socket, BACKLOG).with_context(cannot)?;
        Ok(Self { socket, path: path.to_owned() })
    }

    pub(crate) fn ender(&self) -> anyhow::Result<Ender> {
        Ok(Ender(self.socket.try_clone().context("no descriptors are left")?))
    }

    /// The next program.
    pub(crate) fn accept(&self) -> anyhow::Result<Knock> {
        loop {
            match accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    let Ok(peer) = Peer::of(&socket) else { continue };
                    return Ok(Knock::Program(Connection { socket, peer }));
                }
                // Ended, by another thread.
                Err(Errno::INVAL) => return Ok(Knock::End),
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    return Ok(Knock::Scarce(error));
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(error).context("cannot accept programs"),
            }
        }
    }
}

impl Ender {
    pub(crate) fn end(&self) {
        // It fails only for a listener that has ended.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Somebody may have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}
