// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who asks on the operator's socket, and whether they may. The file's mode lets in the same people; this does not
//! depend on who may write the folder, nor on a descriptor that was passed on before the mode was set.

use crate::service::peer;
use rustix::fs::Gid;
use rustix::process::geteuid;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use tokio::net::UnixStream;
use tracing::debug;

/// Most supplementary groups of a process (`NGROUPS_MAX`).
const MOST_GROUPS: usize = 65_536;

/// The process that connected, as the operating system names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Peer {
    /// Its user.
    pub(super) uid: u32,
    /// Its process id; 0 if it is in another PID namespace.
    pub(super) pid: u32,
    /// Its name, which it chooses; empty if it is hidden.
    pub(super) command: String,
    /// Its groups.
    groups: Vec<u32>,
}

impl Peer {
    /// Looks who connected.
    ///
    /// # Errors
    /// If the operating system does not tell.
    pub(super) fn of(stream: &UnixStream) -> io::Result<Self> {
        // Not with rustix, which has no PID 0: see `service::peer`.
        let credentials = stream.peer_cred()?;
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        let mut groups = peer_groups(stream.as_fd())?;
        groups.push(credentials.gid());
        let command = peer::command(pid).unwrap_or_default();
        Ok(Self { uid: credentials.uid(), pid, command, groups })
    }

    /// Whether it may operate: root, the daemon's own user, and the group's members.
    pub(super) fn may_operate(&self, group: Option<Gid>) -> bool {
        let is_user = self.uid == 0 || self.uid == geteuid().as_raw();
        is_user || group.is_some_and(|group| self.groups.contains(&group.as_raw()))
    }
}

/// The supplementary groups of the process that connected (`SO_PEERGROUPS`).
fn peer_groups(stream: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut bytes = size_of_val(&groups[..]) as libc::socklen_t;
        // SAFETY: the descriptor is open while it is borrowed; `groups` is writable for `bytes` bytes, which the call
        // never exceeds, and any bytes are numbers.
        #[expect(unsafe_code, reason = "no crate has this socket option")]
        let done = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<u32>();
        if done == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        match io::Error::last_os_error() {
            // `bytes` says how much room there must be.
            error if error.raw_os_error() == Some(libc::ERANGE) && groups.len() < MOST_GROUPS => {
                groups.resize(count.clamp(groups.len() + 1, MOST_GROUPS), 0);
            }
            // A socket without credentials: such a process has no groups.
            error if error.raw_os_error() == Some(libc::ENODATA) => return Ok(Vec::new()),
            error => {
                debug!(%error, "cannot tell an operator's groups");
                return Err(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_process_that_connected_is_known_with_its_groups() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = Peer::of(&ours).unwrap();
        assert_eq!((peer.uid, peer.pid), (geteuid().as_raw(), std::process::id()));
        let own: Vec<_> = rustix::process::getgroups().unwrap();
        assert!(own.iter().all(|group| peer.groups.contains(&group.as_raw())), "{peer:?}");
        assert!(peer.may_operate(None), "the daemon's own user");
    }

    #[test]
    fn only_root_the_daemon_s_user_and_the_group_may_operate() {
        let peer = |uid, groups: &[u32]| Peer {
            uid,
            pid: 1,
            command: String::new(),
            groups: groups.to_vec(),
        };
        let other = geteuid().as_raw() + 4711;
        let group = Some(Gid::from_raw(77));
        assert!(peer(0, &[]).may_operate(None) && peer(geteuid().as_raw(), &[]).may_operate(None));
        assert!(peer(other, &[5, 77]).may_operate(group));
        assert!(!peer(other, &[5, 77]).may_operate(None) && !peer(other, &[5]).may_operate(group));
    }
}
