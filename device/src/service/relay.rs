//! Serving a socket that is connected already.
//!
//! `vhost-user-backend` accepts its connection itself, from a listener. So a connected socket is
//! relayed, byte for byte and descriptor for descriptor, through a listener of this process that
//! has no name anybody could connect to. Only vhost-user messages take this way; doorbells,
//! rings and virtqueues are shared memory and do not.

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, listen,
    recvmsg, sendmsg, socket_with,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use tracing::debug;

/// Bytes of a vhost-user message's header; the last four tell how many follow.
const HEADER: usize = 12;
/// Most bytes that follow, which is more than vhost-user has messages for.
const MAX_BODY: usize = 8192;
/// Most descriptors in one vhost-user message: a memory table of 32 regions.
const MAX_DESCRIPTORS: usize = 32;

/// A listener that accepts one connection, whose other end is `connected`.
pub(super) fn listener_for(connected: UnixStream) -> io::Result<UnixListener> {
    connected.set_nonblocking(false)?;
    // Without a name the kernel chooses an unused one that is in no folder.
    let listener =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&listener, &SocketAddrUnix::new_unnamed())?;
    listen(&listener, 1)?;
    let listener = UnixListener::from(listener);
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

/// Forwards message by message. Several read at once would go on as one, and descriptors that came
/// with the last of them would arrive with the first.
fn pump(from: &UnixStream, to: &UnixStream) -> io::Result<()> {
    let mut message = [0; HEADER + MAX_BODY];
    loop {
        let mut descriptors = Vec::new();
        let (header, body) = message.split_at_mut(HEADER);
        if !fill(from, header, &mut descriptors)? {
            return Ok(());
        }
        let [.., a, b, c, d] = *header else { return Ok(()) };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let body = body.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
        if !fill(from, body, &mut descriptors)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        send(to, &message[..HEADER + length], &descriptors)?;
    }
}

/// Receives until `bytes` are full; false when the connection ended before the first of them.
fn fill(from: &UnixStream, bytes: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let mut filled = 0;
    while filled < bytes.len() {
        let (length, received) = receive(from, &mut bytes[filled..])?;
        descriptors.extend(received);
        match length {
            0 if filled == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => filled += length,
        }
    }
    Ok(true)
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

    /// A message with this body.
    fn message(body: &[u8]) -> Vec<u8> {
        let header = [7u32, 1, body.len() as u32].map(u32::to_le_bytes).concat();
        [header, body.to_vec()].concat()
    }

    #[test]
    fn messages_and_their_descriptors_pass_and_an_end_passes_too() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let listener = listener_for(theirs).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();

        // Two at once: the descriptors belong to the second.
        let (first, second) = (message(b"features"), message(b"table"));
        let file = tempfile::tempfile().unwrap();
        ours.write_all(&first).unwrap();
        send(&ours, &second, &[file.into()]).unwrap();
        for (message, count) in [(first, 0), (second, 1)] {
            let (mut bytes, mut descriptors) = (vec![0; message.len()], Vec::new());
            assert!(fill(&accepted, &mut bytes, &mut descriptors).unwrap());
            assert_eq!((bytes, descriptors.len()), (message, count));
        }

        let reply = message(b"");
        accepted.write_all(&reply).unwrap();
        let mut bytes = vec![0; reply.len()];
        ours.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, reply);

        drop(ours);
        assert_eq!(accepted.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn several_connections_are_relayed_at_once() {
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..3).map(|_| UnixStream::pair().unwrap()).unzip();
        let listeners = theirs.into_iter().map(|theirs| listener_for(theirs).unwrap());
        for (listener, ours) in listeners.collect::<Vec<_>>().iter().zip(&ours) {
            let (mut accepted, _) = listener.accept().unwrap();
            send(ours, &message(b"x"), &[]).unwrap();
            accepted.read_exact(&mut vec![0; message(b"x").len()]).unwrap();
        }
    }

    #[test]
    fn a_message_that_is_too_long_ends_the_connection() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let listener = listener_for(theirs).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        let header = [7u32, 1, u32::MAX].map(u32::to_le_bytes).concat();
        ours.write_all(&header).unwrap();
        assert_eq!(accepted.read(&mut [0; 1]).unwrap(), 0);
    }
}
