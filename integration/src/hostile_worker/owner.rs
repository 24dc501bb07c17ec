// SPDX-License-Identifier: MIT OR Apache-2.0

//! The worker's end of a socket.

use bellhop_worker::messages::{MAX_REQUEST, Message};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Signal, getpid, kill_process};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use zerocopy::IntoBytes;

/// The packet with a message.
pub(super) fn packet<M: Message>(message: &M) -> Vec<u8> {
    [M::HEADER.as_bytes(), message.as_bytes()].concat()
}

/// Ends this process, as a fault of its own would: its owner sees the end of the socket.
pub(super) fn crash() {
    let _ = kill_process(getpid(), Signal::KILL);
}

/// The worker's end of a socket.
pub(super) struct Owner<'a>(pub(super) BorrowedFd<'a>);

impl Owner<'_> {
    pub(super) fn tell<M: Message>(&self, message: &M) {
        self.tell_bytes(&packet(message));
    }

    /// Returns whether there is an owner. One that is gone ends this process when it listens next.
    pub(super) fn tell_bytes(&self, bytes: &[u8]) -> bool {
        // The only call to send that the sandbox allows.
        let mut none = SendAncillaryBuffer::default();
        sendmsg(self.0, &[IoSlice::new(bytes)], &mut none, SendFlags::NOSIGNAL).is_ok()
    }

    /// With a descriptor that no message of a worker has.
    pub(super) fn tell_with_descriptor<M: Message>(&self, message: &M) {
        let packet = packet(message);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [self.0];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let _ = sendmsg(self.0, &[IoSlice::new(&packet)], &mut control, SendFlags::NOSIGNAL);
    }

    /// A packet, and the descriptor that came with it.
    pub(super) fn hear(&self) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        let mut buffer = vec![0; MAX_REQUEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let length = recvmsg(self.0, &mut parts, &mut control, RecvFlags::empty()).ok()?.bytes;
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        buffer.truncate(length);
        (length > 0).then_some((buffer, descriptor))
    }
}
