// SPDX-License-Identifier: MIT OR Apache-2.0

//! The sockets between a worker and its owner.

use crate::messages::{Malformed, Message};
use crate::waiting::{Looking, is_readable};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::Instant;
use zerocopy::IntoBytes;

/// Makes a socket for packets, and its other end.
///
/// # Errors
/// When there are no descriptors left.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends a message, with a descriptor if it has one. Only makes system calls, so a signal handler may call it.
///
/// # Errors
/// When the other side has closed its end.
pub fn send<M: Message>(
    socket: impl AsFd,
    message: M,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let packet = [IoSlice::new(M::HEADER.as_bytes()), IoSlice::new(message.as_bytes())];
    send_parts(socket, &packet, descriptor.as_slice(), SendFlags::NOSIGNAL)
}

/// What an owner's sends are: a worker that was taken over may read nothing.
const AT_ONCE: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// Sends a message as [`send`] does, or fails at once.
///
/// # Errors
/// As [`send`]; and `AGAIN` when the other side has not received for so long that the socket is full.
pub fn send_at_once<M: Message>(
    socket: impl AsFd,
    message: M,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let packet = [IoSlice::new(M::HEADER.as_bytes()), IoSlice::new(message.as_bytes())];
    send_parts(socket, &packet, descriptor.as_slice(), AT_ONCE)
}

/// Sends a packet, or fails at once.
///
/// # Errors
/// As [`send_at_once`].
pub fn send_packet(socket: impl AsFd, packet: &[u8]) -> io::Result<()> {
    send_parts(socket, &[IoSlice::new(packet)], &[], AT_ONCE)
}

#[expect(
    clippy::disallowed_methods,
    reason = "does not wait for a worker: a packet that does not fit ends it"
)]
fn send_parts(
    socket: impl AsFd,
    packet: &[IoSlice<'_>],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        // The buffer has room for what the callers send: one, or two in a test.
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        match sendmsg(&socket, packet, &mut control, flags) {
            Err(Errno::INTR) => {}
            result => return result.map(drop),
        }
    }
}

/// A received packet.
pub struct Received<'a> {
    /// The packet's bytes.
    pub bytes: &'a [u8],
    descriptor: Option<OwnedFd>,
}

impl<'a> Received<'a> {
    /// Returns the descriptor that came with the packet.
    ///
    /// # Errors
    /// When none came.
    pub fn descriptor(self) -> Result<OwnedFd, Malformed> {
        self.descriptor.ok_or(Malformed::Descriptor)
    }

    /// Returns the bytes of a packet that comes without a descriptor.
    ///
    /// # Errors
    /// When one came.
    pub fn alone(self) -> Result<&'a [u8], Malformed> {
        if self.descriptor.is_some() { Err(Malformed::Descriptor) } else { Ok(self.bytes) }
    }
}

/// Receives a packet into this buffer. Returns `None` if the other side has closed its end.
///
/// # Errors
/// `MSGSIZE` if the packet is longer than the buffer, or comes with more than one descriptor. All are closed then.
/// `AGAIN` if `flags` say not to wait, and there is none.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> io::Result<Option<Received<'_>>> {
    let taken = take(&socket, buffer, flags)?;
    Ok(taken.map(|(bytes, descriptor)| Received { bytes: &buffer[..bytes], descriptor }))
}

/// Receives a packet as [`receive`] does, which it waits for until the deadline, if there is one, after a look for it.
///
/// # Errors
/// As [`receive`]; `AGAIN` if none came in time.
pub fn receive_until<'a>(
    socket: impl AsFd,
    buffer: &'a mut [u8],
    deadline: Option<Instant>,
    looking: &Looking,
) -> io::Result<Option<Received<'a>>> {
    let mut taken = take(&socket, buffer, RecvFlags::DONTWAIT);
    if taken.as_ref().is_err_and(|error| *error == Errno::AGAIN) {
        let has_time = deadline.is_none_or(|deadline| deadline > Instant::now());
        let look = || take(&socket, buffer, RecvFlags::DONTWAIT);
        taken = match has_time.then(|| looking.look(look)).transpose()?.flatten() {
            Some(taken) => Ok(taken),
            None => match deadline {
                Some(deadline) if !has_time || !is_readable(&socket, deadline)? => {
                    Err(Errno::AGAIN)
                }
                _ => take(&socket, buffer, RecvFlags::empty()),
            },
        };
    }
    let taken = taken?;
    Ok(taken.map(|(bytes, descriptor)| Received { bytes: &buffer[..bytes], descriptor }))
}

/// Receives a packet, and returns its length and its descriptor.
#[expect(clippy::disallowed_methods, reason = "does not wait where an owner listens")]
fn take(
    socket: impl AsFd,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
    // Its alignment gives the buffer room for a second descriptor, so the flag alone does not tell of it.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(buffer)];
        match recvmsg(&socket, &mut parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            result => break result?,
        }
    };
    let mut descriptors = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten();
    let (descriptor, second) = (descriptors.next(), descriptors.next());
    descriptors.for_each(drop);
    let cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    if cut || second.is_some() {
        return Err(Errno::MSGSIZE);
    }
    let bytes = received.bytes;
    Ok((bytes > 0).then_some((bytes, descriptor)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, pipe};

    #[test]
    fn a_packet_with_two_descriptors_is_an_error_and_leaves_none_open() {
        let (ours, theirs) = pair().unwrap();
        let (mut read, write) = pipe().unwrap();
        let mut buffer = [0; 8];
        let mut take = || {
            receive(&ours, &mut buffer, RecvFlags::empty()).map(|received| {
                received.map(|received| (received.bytes.to_vec(), received.descriptor()))
            })
        };
        let packet = [IoSlice::new(b"packet")];
        send_parts(&theirs, &packet, &[write.as_fd(), write.as_fd()], AT_ONCE).unwrap();
        drop(write);
        assert_eq!(take().err(), Some(Errno::MSGSIZE));
        // The pipe ends if nobody holds its other end.
        assert_eq!(read.read(&mut [0]).unwrap(), 0);
        // The next packets are not hurt.
        send_parts(&theirs, &packet, &[theirs.as_fd()], AT_ONCE).unwrap();
        let (bytes, descriptor) = take().unwrap().unwrap();
        assert_eq!(bytes, b"packet");
        descriptor.unwrap();
        send_packet(&theirs, b"longer than the buffer").unwrap();
        assert_eq!(take().err(), Some(Errno::MSGSIZE));
        drop(theirs);
        assert!(take().unwrap().is_none());
    }

    #[test]
    fn a_descriptor_is_there_when_it_must_be_and_only_then() {
        let (ours, theirs) = pair().unwrap();
        let mut buffer = [0; 8];
        let packet = [IoSlice::new(b"packet")];
        send_parts(&theirs, &packet, &[theirs.as_fd()], AT_ONCE).unwrap();
        let received = receive(&ours, &mut buffer, RecvFlags::empty()).unwrap().unwrap();
        assert_eq!(received.alone(), Err(Malformed::Descriptor));
        send_packet(&theirs, b"packet").unwrap();
        let received = receive(&ours, &mut buffer, RecvFlags::empty()).unwrap().unwrap();
        assert!(matches!(received.descriptor(), Err(Malformed::Descriptor)));
    }
}
