// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sockets that carry whole messages.

use crate::transport::TransportError;
use bellhop_protocol::broker::{MessageHeader, MessageKind};
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
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
use std::time::Duration;
use zerocopy::IntoBytes;

/// One socket. It is shut down on drop.
pub(super) struct Channel(OwnedFd);

impl From<OwnedFd> for Channel {
    fn from(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

fn gone() -> TransportError {
    TransportError::Disconnected("the broker closed the connection".into())
}

fn failed(what: &'static str) -> impl Fn(Errno) -> TransportError {
    move |error| match error {
        Errno::PIPE | Errno::CONNRESET => gone(),
        error => TransportError::Io(what, error.into()),
    }
}

/// Does it again while signals interrupt it.
fn again<T>(mut act: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
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
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(3))];
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

    /// Waits until there is a message or the channel has ended; returns false when the time is over.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Result<bool, TransportError> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut socket = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut socket, timeout.as_ref()) {
            // An interrupted wait may return early.
            Ok(0) | Err(Errno::INTR) => Ok(false),
            Ok(_) => Ok(true),
            Err(error) => Err(TransportError::Io("poll", error.into())),
        }
    }

    /// Fails if the channel has ended.
    pub(super) fn check(&self) -> Result<(), TransportError> {
        let mut socket = [PollFd::new(&self.0, PollFlags::RDHUP)];
        match poll(&mut socket, Some(&Timespec::default())) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => Err(gone()),
            Err(error) => Err(TransportError::Io("poll", error.into())),
        }
    }
}

/// Channels that threads take one after another.
pub(super) struct Channels {
    free: Mutex<Vec<Channel>>,
    freed: Condvar,
}

impl Channels {
    pub(super) fn new(channels: impl IntoIterator<Item = Channel>) -> Self {
        Self { free: Mutex::new(channels.into_iter().collect()), freed: Condvar::new() }
    }

    /// No code panics while it holds the lock, so a poisoned list is whole.
    fn lock(&self) -> MutexGuard<'_, Vec<Channel>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a channel alone meanwhile.
    pub(super) fn with<T>(&self, act: impl FnOnce(&Channel) -> T) -> T {
        let mut free = self.lock();
        let channel = loop {
            match free.pop() {
                Some(channel) => break channel,
                None => free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(free);
        let done = act(&channel);
        self.lock().push(channel);
        self.freed.notify_one();
        done
    }
}
