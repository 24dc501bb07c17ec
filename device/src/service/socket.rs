//! Where guests connect.

use super::relay;
use anyhow::{Context, bail};
use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::net::{AddressFamily, sockopt};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket that listens for guests.
pub struct Endpoint {
    pub(super) listener: UnixListener,
    /// Only one guest will ever come: the one that was connected already.
    pub(super) single: bool,
    /// The path to remove at the end.
    path: Option<PathBuf>,
    /// The path that guests connect to, if there is one.
    pub(super) address: Option<PathBuf>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Somebody may have removed it already, which is as well.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A descriptor that this process was started with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inherited {
    pub(super) fd: RawFd,
    /// Who says so, for error messages.
    pub(super) origin: String,
}

/// Takes inherited sockets over, each once however often it was named.
pub(super) fn inherit(sockets: Vec<Inherited>) -> anyhow::Result<Vec<Endpoint>> {
    let mut taken = HashSet::new();
    sockets
        .into_iter()
        .filter(|socket| taken.insert(socket.fd))
        .map(|socket| {
            Endpoint::inherit(socket.fd).with_context(|| {
                format!("cannot serve descriptor {} of {}", socket.fd, socket.origin)
            })
        })
        .collect()
}

/// Listens at `path`, taking the place of a socket that nobody serves any more.
pub(super) fn listen(path: &Path) -> anyhow::Result<Endpoint> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_stale(path)?;
            UnixListener::bind(path)
        }
        result => result,
    };
    let listener = listener.with_context(|| {
        format!(
            "cannot listen on {}; choose a --socket-path in an existing folder that you may write",
            path.display()
        )
    })?;
    let address = Some(path.to_owned());
    Ok(Endpoint { listener, single: false, path: address.clone(), address })
}

fn remove_stale(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let kind = std::fs::symlink_metadata(path)
        .with_context(|| format!("cannot look at {shown}"))?
        .file_type();
    if !kind.is_socket() {
        bail!("{shown} exists and is not a socket; remove it or choose another --socket-path");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .with_context(|| {
                format!("cannot remove the abandoned socket {shown}; remove it by hand")
            }),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("{shown} belongs to somebody else; choose another --socket-path")
        }
        _ => bail!(
            "another process serves {shown}; stop that process or choose another --socket-path"
        ),
    }
}

impl Endpoint {
    /// Serves whoever comes to a socket that listens.
    #[must_use]
    pub fn listening(listener: UnixListener) -> Self {
        let address = listener.local_addr().ok();
        let address = address.and_then(|address| address.as_pathname().map(Path::to_owned));
        Self { listener, single: false, path: None, address }
    }

    /// Serves the one guest that is connected already.
    ///
    /// # Errors
    /// When the connection cannot be relayed.
    pub fn connected(stream: UnixStream) -> std::io::Result<Self> {
        let address = stream.local_addr()?.as_pathname().map(Path::to_owned);
        Ok(Self { listener: relay::listener_for(stream)?, single: true, path: None, address })
    }

    /// Takes one over that nobody else has.
    fn inherit(fd: RawFd) -> anyhow::Result<Self> {
        // SAFETY: the borrow ends within this function, and only asks the kernel about the
        // number: a descriptor that is not open, or no socket, is an error.
        #[expect(unsafe_code, reason = "an inherited descriptor is just a number")]
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        let advice = "pass a Unix stream socket, listening or connected";
        let family = sockopt::socket_domain(borrowed)
            .with_context(|| format!("it is no open socket; {advice}"))?;
        if family != AddressFamily::UNIX {
            bail!("it is no Unix socket; {advice}");
        }
        let listening =
            sockopt::socket_acceptconn(borrowed).context("cannot tell whether it listens")?;
        // SAFETY: the descriptor is open, as was just checked, was inherited for this process to
        // use by whoever named it, and nothing else here knows its number: the caller takes each
        // once, all descriptors that this process opens are close-on-exec, and it has none from
        // before `main` but the standard three, which cannot be named.
        #[expect(unsafe_code, reason = "an inherited descriptor is just a number")]
        let owned = unsafe { OwnedFd::from_raw_fd(fd) };
        if listening {
            return Ok(Self::listening(owned.into()));
        }
        Self::connected(owned.into()).context("it is connected, and cannot be relayed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::{AsRawFd, IntoRawFd};

    #[test]
    fn an_abandoned_socket_is_replaced_and_a_served_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gpu.sock");
        drop(UnixListener::bind(&path).unwrap());
        let endpoint = listen(&path).unwrap();
        let error = format!("{:#}", listen(&path).err().unwrap());
        assert!(error.contains("another process serves") && error.contains("--socket-path"));
        drop(endpoint);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        std::fs::write(&path, "keep").unwrap();
        assert!(listen(&path).err().unwrap().to_string().contains("not a socket"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "keep");
    }

    #[test]
    fn a_folder_that_does_not_exist_is_named_in_one_line() {
        let error = format!("{:#}", listen(Path::new("/nonexistent/gpu.sock")).err().unwrap());
        assert!(error.contains("/nonexistent/gpu.sock") && !error.contains('\n'));
    }

    #[test]
    fn a_descriptor_that_is_no_socket_is_refused() {
        let file = tempfile::tempfile().unwrap();
        let socket = Inherited { fd: file.as_raw_fd(), origin: "--fd".into() };
        let error = format!("{:#}", inherit(vec![socket]).err().unwrap());
        assert!(error.contains("--fd") && error.contains("no open socket"), "{error}");
    }

    #[test]
    fn a_socket_that_is_named_twice_is_taken_once() {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("gpu.sock")).unwrap();
        let fd = listener.into_raw_fd();
        let named = ["--fd", "LISTEN_FDS"].map(|origin| Inherited { fd, origin: origin.into() });
        assert_eq!(inherit(named.into()).unwrap().len(), 1);
    }
}
