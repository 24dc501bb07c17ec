// SPDX-License-Identifier: MIT OR Apache-2.0

//! The socket between a worker and its owner.

use crate::messages::{MAX_PACKET, Message};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use zerocopy::IntoBytes;

/// Sends a message, with a descriptor if it has one. Only makes system calls, so a signal handler may call it.
///
/// # Errors
/// When the other side has closed its end.
pub fn send<M: Message>(
    socket: impl AsFd,
    message: M,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.as_slice();
    if !descriptors.is_empty() {
        // The buffer has room for one descriptor.
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let packet = [IoSlice::new(M::HEADER.as_bytes()), IoSlice::new(message.as_bytes())];
    loop {
        match sendmsg(&socket, &packet, &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result.map(drop),
        }
    }
}

/// A received packet.
pub struct Received {
    bytes: [u8; MAX_PACKET],
    length: usize,
    /// The descriptor that came with it.
    pub descriptor: Option<OwnedFd>,
}

impl Received {
    /// Returns the packet's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Receives a packet. Returns `None` if the other side has closed its end. Closes all descriptors but the first.
///
/// # Errors
/// `MSGSIZE` if the packet is longer than `MAX_PACKET`, or its descriptors do not fit the buffer.
pub fn receive(socket: impl AsFd) -> io::Result<Option<Received>> {
    let mut bytes = [0; MAX_PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            result => break result?,
        }
    };
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Errno::MSGSIZE);
    }
    Ok((received.bytes > 0).then_some(Received { bytes, length: received.bytes, descriptor }))
}
