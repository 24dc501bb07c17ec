// SPDX-License-Identifier: MIT OR Apache-2.0

//! The sockets that guests and tools connect to.

use super::access::SocketAccess;
use anyhow::{Context, bail};
use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with, sockopt,
};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::warn;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 16;
/// Pause after a failure to accept a client.
const RECOVERY: Duration = Duration::from_millis(100);

/// A socket that brings guests.
pub struct Endpoint {
    pub(super) source: Source,
    _file: Option<SocketFile>,
    /// The socket's path, if it has one.
    pub(super) address: Option<PathBuf>,
}

/// The way in which guests arrive.
pub(super) enum Source {
    /// One after another, on a non-blocking listener.
    Listener(UnixListener),
    /// A single guest, already connected.
    Connected(UnixStream),
}

/// A socket's file, removed on drop.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may already be gone.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A listening socket for tools.
pub(super) struct ControlListener {
    /// Non-blocking.
    listener: UnixListener,
    _file: SocketFile,
}

/// The clients that come to a socket for tools.
pub(super) struct Clients {
    listener: tokio::net::UnixListener,
    name: &'static str,
}

impl ControlListener {
    /// Begins to accept clients, inside the runtime. Messages call the socket `name`.
    ///
    /// # Errors
    /// If the runtime cannot watch the socket.
    pub(super) fn clients(&self, name: &'static str) -> anyhow::Result<Clients> {
        let listener = self.listener.try_clone().and_then(tokio::net::UnixListener::from_std);
        let listener = listener.with_context(|| format!("cannot watch {name}"))?;
        Ok(Clients { listener, name })
    }
}

impl Clients {
    /// The next client. Who stops waiting loses none.
    pub(super) async fn next(&self) -> tokio::net::UnixStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    warn!(%error, "cannot accept a client of {}", self.name);
                    tokio::time::sleep(RECOVERY).await;
                }
            }
        }
    }
}

/// A descriptor that the process inherited.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inherited {
    pub(super) fd: RawFd,
    /// The source of its number, for error messages.
    pub(super) origin: String,
}

/// Takes over inherited sockets, each once, even if it was named several times.
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

/// Listens at `path`, replacing a socket that no process serves any more.
pub(super) fn listen(path: &Path, access: SocketAccess) -> anyhow::Result<Endpoint> {
    let bind = |path: &Path| {
        if access.is_usual() { UnixListener::bind(path) } else { bind_privately(path) }
    };
    let listener = take_place(path, "--socket-path", bind)?;
    let file = Some(SocketFile(path.to_owned()));
    access.give(path)?;
    Ok(Endpoint { _file: file, ..Endpoint::listening(listener)? })
}

/// Listens for tools at `path`, which an option names, replacing a socket that no process serves any more. Only the
/// daemon's user can connect.
pub(super) fn listen_for_tools(path: &Path, option: &str) -> anyhow::Result<ControlListener> {
    let listener = take_place(path, option, bind_privately)?;
    listener.set_nonblocking(true).context("cannot watch a socket for tools")?;
    Ok(ControlListener { listener, _file: SocketFile(path.to_owned()) })
}

/// Listens at a path where no file is, for this process's user alone. The kernel creates the file with the socket's mode,
/// less the umask, so the file never has a wider one.
///
/// # Errors
/// If there is a file already, or the folder may not be written.
pub fn bind_privately(path: &Path) -> std::io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn take_place(
    path: &Path,
    option: &str,
    bind: impl Fn(&Path) -> std::io::Result<UnixListener>,
) -> anyhow::Result<UnixListener> {
    let listener = match bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_stale(path, option)?;
            bind(path)
        }
        result => result,
    };
    listener.with_context(|| {
        format!(
            "cannot listen on {}; choose a {option} in an existing folder that you may write",
            path.display()
        )
    })
}

fn remove_stale(path: &Path, option: &str) -> anyhow::Result<()> {
    let shown = path.display();
    let kind = std::fs::symlink_metadata(path)
        .with_context(|| format!("cannot look at {shown}"))?
        .file_type();
    if !kind.is_socket() {
        bail!("{shown} exists and is not a socket; remove it or choose another {option}");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .with_context(|| {
                format!("cannot remove the abandoned socket {shown}; remove it by hand")
            }),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("{shown} belongs to another user; choose another {option}")
        }
        _ => bail!("another process serves {shown}; stop that process or choose another {option}"),
    }
}

impl Endpoint {
    /// An endpoint for the guests that connect to a listening socket.
    ///
    /// # Errors
    /// If the socket cannot be made non-blocking.
    pub fn listening(listener: UnixListener) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?.as_pathname().map(Path::to_owned);
        Ok(Self { source: Source::Listener(listener), _file: None, address })
    }

    /// An endpoint for one guest that is already connected.
    ///
    /// # Errors
    /// If the descriptor is not a Unix socket.
    pub fn connected(stream: UnixStream) -> std::io::Result<Self> {
        let address = stream.local_addr()?.as_pathname().map(Path::to_owned);
        Ok(Self { source: Source::Connected(stream), _file: None, address })
    }

    /// Takes over an inherited descriptor.
    fn inherit(fd: RawFd) -> anyhow::Result<Self> {
        // SAFETY: the borrow ends within this function and is only used for system calls, which fail for a
        // descriptor that is closed or not a socket.
        #[expect(unsafe_code, reason = "an inherited descriptor is just a number")]
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        let advice = "pass a Unix stream socket, listening or connected";
        let family = sockopt::socket_domain(borrowed)
            .with_context(|| format!("it is not an open socket; {advice}"))?;
        if family != AddressFamily::UNIX {
            bail!("it is not a Unix socket; {advice}");
        }
        let listening =
            sockopt::socket_acceptconn(borrowed).context("cannot tell whether it listens")?;
        // SAFETY: the descriptor is open, as just checked, and the process that started this one named it for use
        // here. Nothing else uses its number: the caller takes each number once, all descriptors that this process
        // opens are close-on-exec, and it opens none before `main` except the standard three, which cannot be
        // named.
        #[expect(unsafe_code, reason = "an inherited descriptor is just a number")]
        let owned = unsafe { OwnedFd::from_raw_fd(fd) };
        if listening {
            return Self::listening(owned.into()).context("cannot watch the listening socket");
        }
        Self::connected(owned.into()).context("cannot serve the connected socket")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::{AsRawFd, IntoRawFd};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_abandoned_socket_is_replaced_and_a_served_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gpu.sock");
        drop(UnixListener::bind(&path).unwrap());
        let endpoint = listen(&path, SocketAccess::default()).unwrap();
        let error = format!("{:#}", listen(&path, SocketAccess::default()).err().unwrap());
        assert!(error.contains("another process serves") && error.contains("--socket-path"));
        drop(endpoint);
        assert!(!path.exists());
    }

    #[test]
    fn a_control_socket_is_for_its_user_alone_and_goes_with_its_listener() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let listen_for_control = || listen_for_tools(&path, "--control-socket");
        let listener = listen_for_control().unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let error = format!("{:#}", listen_for_control().err().unwrap());
        assert!(error.contains("another process serves") && error.contains("--control-socket"));
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        std::fs::write(&path, "keep").unwrap();
        assert!(
            listen(&path, SocketAccess::default())
                .err()
                .unwrap()
                .to_string()
                .contains("not a socket")
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "keep");
    }

    #[test]
    fn a_folder_that_does_not_exist_is_named_in_one_line() {
        let error = format!(
            "{:#}",
            listen(Path::new("/nonexistent/gpu.sock"), SocketAccess::default()).err().unwrap()
        );
        assert!(error.contains("/nonexistent/gpu.sock") && !error.contains('\n'));
    }

    #[test]
    fn a_descriptor_that_is_no_socket_is_refused() {
        let file = tempfile::tempfile().unwrap();
        let socket = Inherited { fd: file.as_raw_fd(), origin: "--fd".into() };
        let error = format!("{:#}", inherit(vec![socket]).err().unwrap());
        assert!(error.contains("--fd") && error.contains("not an open socket"), "{error}");
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
