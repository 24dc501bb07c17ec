// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sockets that carry whole messages.

use crate::transport::TransportError;
use bellhop_protocol::broker::{DESCRIPTORS, MessageHeader, MessageKind};
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use zerocopy::{FromBytes as _, IntoBytes as _};

/// One socket. It is shut down on drop.
pub(super) struct Channel(OwnedFd);

impl From<OwnedFd> for Channel {
    fn from(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

pub(super) fn gone() -> TransportError {
    TransportError::Disconnected("the broker closed the connection".into())
}

pub(super) fn failed(what: &'static str) -> impl Fn(Errno) -> TransportError {
    move |error| match error {
        Errno::PIPE | Errno::CONNRESET => gone(),
        error => TransportError::Io(what, error.into()),
    }
}

/// Does it again while signals interrupt it.
pub(super) fn again<T>(mut act: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match act() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

impl Channel {
    pub(super) fn connect(path: &Path) -> Result<Self, TransportError> {
        let io = |error: Errno| {
            TransportError::Io("cannot connect to the broker's socket", error.into())
        };
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let socket = socket.map_err(io)?;
        let address = SocketAddrUnix::new(path).map_err(io)?;
        again(|| connect(&socket, &address)).map_err(io)?;
        Ok(Self(socket))
    }

    pub(super) fn send(&self, kind: MessageKind, bytes: &[u8]) -> Result<(), TransportError> {
        let header = MessageHeader { kind, reserved: 0 };
        let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(bytes)];
        let mut nothing = SendAncillaryBuffer::default();
        let sent = again(|| sendmsg(&self.0, &parts, &mut nothing, SendFlags::NOSIGNAL));
        sent.map(drop).map_err(failed("cannot send to the broker"))
    }

    /// Waits for a message, and returns its length in bytes.
    pub(super) fn receive(&self, bytes: &mut [u8]) -> Result<usize, TransportError> {
        let mut nothing = RecvAncillaryBuffer::default();
        let received = again(|| {
            let mut parts = [IoSliceMut::new(bytes)];
            recvmsg(&self.0, &mut parts, &mut nothing, RecvFlags::CMSG_CLOEXEC)
        });
        match received.map_err(failed("cannot receive from the broker"))?.bytes {
            0 => Err(gone()),
            length => Ok(length),
        }
    }

    /// As [`Self::receive`], with the descriptors that come with the message.
    pub(super) fn receive_with_files(
        &self,
        bytes: &mut [u8],
    ) -> Result<(usize, Vec<OwnedFd>), TransportError> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = again(|| {
            let mut parts = [IoSliceMut::new(bytes)];
            recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        });
        let length = received.map_err(failed("cannot receive from the broker"))?.bytes;
        let messages = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        Ok((length, messages.flatten().collect()))
    }

    /// Asks for another channel; `None` if there are no more.
    fn another(&self) -> Result<Option<Self>, TransportError> {
        self.send(MessageKind::CHANNEL, &[])?;
        let mut answer = [0; size_of::<MessageHeader>()];
        let (length, files) = self.receive_with_files(&mut answer)?;
        let header = answer.get(..length).map(MessageHeader::read_from_bytes);
        match header {
            Some(Ok(MessageHeader { kind: MessageKind::CHANNEL, .. })) => {
                Ok(files.into_iter().next().map(Self))
            }
            _ if length == 0 => Err(gone()),
            _ => Err(TransportError::Protocol("the broker did not answer with a channel".into())),
        }
    }
}

/// Channels that threads take one after another. There are more of them when more threads want one.
pub(super) struct Channels {
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    free: Vec<Channel>,
    /// How many more there may be.
    left: usize,
}

impl Channels {
    /// `most` may be fewer than there are: then there are no more.
    pub(super) fn new(channels: Vec<Channel>, most: usize) -> Self {
        let left = most.saturating_sub(channels.len());
        Self { state: Mutex::new(State { free: channels, left }), freed: Condvar::new() }
    }

    /// No code panics while it holds the lock, so poisoned channels are whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a channel alone meanwhile.
    pub(super) fn with<T>(&self, act: impl FnOnce(&Channel) -> T) -> T {
        let mut state = self.lock();
        let channel = loop {
            match state.free.pop() {
                Some(channel) => break channel,
                None => state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        // Whoever takes the last one asks on it for the next: a thread that finds none has nothing to ask with.
        let asks = state.free.is_empty() && state.left > 0;
        state.left -= usize::from(asks);
        drop(state);
        if asks {
            match channel.another() {
                Ok(Some(another)) => self.give_back(another),
                // If the broker is gone, the caller is about to learn it.
                Ok(None) | Err(_) => self.lock().left = 0,
            }
        }
        let done = act(&channel);
        self.give_back(channel);
        done
    }

    fn give_back(&self, channel: Channel) {
        self.lock().free.push(channel);
        self.freed.notify_one();
    }
}
