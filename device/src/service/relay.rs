//! Serving a socket that is connected already.
//!
//! `vhost-user-backend` accepts its connection itself, from a listener. So a connected socket is
//! relayed, byte for byte and descriptor for descriptor, through a listener of this process that
//! has no name anybody could connect to. Only vhost-user messages take this way; doorbells,
//! rings and virtqueues are shared memory and do not.

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use tracing::debug;

/// Most descriptors in one vhost-user message: a memory table of 32 regions.
const MAX_DESCRIPTORS: usize = 32;

/// A listener that accepts one connection, whose other end is `connected`.
pub(super) fn listener_for(connected: UnixStream) -> io::Result<UnixListener> {
    connected.set_nonblocking(false)?;
    // An empty abstract name makes the kernel choose an unused one.
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(b"")?)?;
    let inner = UnixStream::connect_addr(&listener.local_addr()?)?;
    let (outer, inner) = (Arc::new(connected), Arc::new(inner));
    forward("relay-in", Arc::clone(&outer), Arc::clone(&inner))?;
    forward("relay-out", inner, outer)?;
    Ok(listener)
}

fn forward(name: &str, from: Arc<UnixStream>, to: Arc<UnixStream>) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(move || {
        if let Err(error) = pump(&from, &to) {
            debug!(%error, "relay ended");
        }
        // Both directions end together, as a connection does.
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    })?;
    Ok(())
}

fn pump(from: &UnixStream, to: &UnixStream) -> io::Result<()> {
    let mut bytes = [0; 8192];
    loop {
        let (length, descriptors) = receive(from, &mut bytes)?;
        if length == 0 {
            return Ok(());
        }
        send(to, &bytes[..length], &descriptors)?;
    }
}

fn receive(from: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(bytes)];
        recvmsg(from, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let descriptors = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    Ok((received.bytes, descriptors))
}

/// Sends everything; the descriptors go with the first bytes, as they came.
fn send(to: &UnixStream, mut bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut rights = (!borrowed.is_empty()).then_some(&borrowed[..]);
    while !bytes.is_empty() {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(descriptors) = rights.take() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let parts = [IoSlice::new(bytes)];
        match sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            // Nothing was sent: the descriptors must go with the next attempt.
            Err(Errno::INTR) => rights = (!borrowed.is_empty()).then_some(&borrowed[..]),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn bytes_and_descriptors_pass_and_an_end_passes_too() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let listener = listener_for(theirs).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();

        let file = tempfile::tempfile().unwrap();
        (&file).write_all(b"shared").unwrap();
        send(&ours, b"table", &[file.into()]).unwrap();
        let mut bytes = [0; 16];
        let (length, descriptors) = receive(&accepted, &mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"table");
        assert_eq!(descriptors.len(), 1);

        accepted.write_all(b"reply").unwrap();
        let mut reply = [0; 5];
        ours.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"reply");

        drop(ours);
        assert_eq!(accepted.read(&mut [0; 1]).unwrap(), 0);
    }
}
