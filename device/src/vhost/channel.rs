// SPDX-License-Identifier: MIT OR Apache-2.0

//! The channel on which the device sends requests to the front end.

use rustix::cmsg_space;
use rustix::io::{ioctl_fionread, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, SocketType, recvmsg, shutdown,
    sockopt,
};
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown as Ends;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use vhost::vhost_user::Backend;
use vhost::vhost_user::message::{FrontendReq, VhostUserHeaderFlag, VhostUserProtocolFeatures};

/// Why a descriptor cannot be the channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// There is no descriptor, or more than one.
    #[error("the message carries {0} descriptors instead of one")]
    Descriptors(usize),
    /// The descriptor is not a stream socket.
    #[error("the descriptor is not a connected Unix stream socket")]
    NoSocket,
    /// The descriptor is connected to a listening socket, such as this daemon's.
    #[error(
        "the descriptor is connected to a socket with a name, as this connection's own end is; make a pair of \
         sockets without names"
    )]
    Named,
    /// The front end did not accept the protocol feature.
    #[error("VHOST_USER_PROTOCOL_F_BACKEND_REQ was not negotiated")]
    NotTaken,
    /// The operating system refused a call.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The device's end of the channel. The front end may only answer: messages that are never read could keep its
/// connection open, since a queued message can hold a descriptor of it.
pub struct Channel {
    backend: Backend,
    socket: UnixStream,
    /// Held by the thread that waits for an answer. There may be two such threads: a front end that resets the
    /// device during the mapping of its BAR makes it map the BAR again.
    asking: Mutex<()>,
    /// The connection, which ends if the channel is abused.
    connection: Arc<UnixStream>,
}

impl Channel {
    /// Takes ownership of a descriptor.
    fn new(
        descriptor: OwnedFd,
        features: VhostUserProtocolFeatures,
        connection: Arc<UnixStream>,
    ) -> Result<Self, ChannelError> {
        if !sockopt::socket_type(&descriptor).is_ok_and(|kind| kind == SocketType::STREAM) {
            return Err(ChannelError::NoSocket);
        }
        let socket = UnixStream::from(descriptor);
        // Also fails for a socket of another family and for an unconnected one.
        let peer = socket.peer_addr().map_err(|_| ChannelError::NoSocket)?;
        if !peer.is_unnamed() {
            return Err(ChannelError::Named);
        }
        socket.set_nonblocking(false)?;
        let backend = Backend::from_stream(socket.try_clone()?);
        backend.set_reply_ack_flag(features.contains(VhostUserProtocolFeatures::REPLY_ACK));
        backend.set_shmem_flag(features.contains(VhostUserProtocolFeatures::SHMEM));
        Ok(Self { backend, socket, asking: Mutex::default(), connection })
    }

    /// Sends a request to the front end and waits for the answer. One thread asks at a time.
    #[expect(clippy::disallowed_methods, reason = "threads of one guest alone")]
    pub fn ask<T>(&self, question: impl FnOnce(&Backend) -> T) -> T {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = question(&self.backend);
        if self.has_unread() {
            let _ = self.connection.shutdown(Ends::Both);
        }
        answer
    }

    /// Returns whether the front end sent anything unsolicited. False while a thread asks; that thread checks once
    /// it has its answer.
    pub fn is_abused(&self) -> bool {
        match self.asking.try_lock() {
            Ok(_nothing_is_asked) => self.has_unread(),
            Err(TryLockError::Poisoned(_)) => self.has_unread(),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    fn has_unread(&self) -> bool {
        ioctl_fionread(&self.socket).is_ok_and(|bytes| bytes > 0)
    }

    /// Ends the channel, and with it any wait for an answer.
    pub fn shut_down(&self) {
        // Fails if the front end ended the connection first.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Maximum number of descriptors in one message: those of a memory table.
const MOST_DESCRIPTORS: usize = 32;
/// The protocol version in each header.
const VERSION: u32 = 1;

/// Receives a whole `SET_BACKEND_REQ_FD` and acknowledges it. `vhost` handles the message too, but does not hand
/// out the descriptor.
///
/// # Errors
/// See [`ChannelError`].
#[expect(clippy::disallowed_methods, reason = "the guest's own thread")]
pub fn receive(
    connection: &Arc<UnixStream>,
    length: usize,
    features: VhostUserProtocolFeatures,
) -> Result<Channel, ChannelError> {
    let mut bytes = vec![0; length];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        recvmsg(&**connection, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    });
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let mut descriptors: Vec<OwnedFd> = descriptors.flatten().collect();
    if received.map_err(io::Error::from)?.bytes != length {
        return Err(io::Error::from(io::ErrorKind::InvalidData).into());
    }
    let count = descriptors.len();
    let (Some(descriptor), 1) = (descriptors.pop(), count) else {
        return Err(ChannelError::Descriptors(count));
    };
    if !features.contains(VhostUserProtocolFeatures::BACKEND_REQ) {
        return Err(ChannelError::NotTaken);
    }
    let channel = Channel::new(descriptor, features, Arc::clone(connection))?;
    let flags = bytes.get(4..8).and_then(|flags| flags.first_chunk());
    let flags = u32::from_ne_bytes(flags.copied().unwrap_or_default());
    let wants_reply = flags & VhostUserHeaderFlag::NEED_REPLY.bits() != 0;
    if wants_reply && features.contains(VhostUserProtocolFeatures::REPLY_ACK) {
        let code = u32::from(FrontendReq::SET_BACKEND_REQ_FD);
        let flags = VERSION | VhostUserHeaderFlag::REPLY.bits();
        // The header, and a word: 0 for success.
        let reply = [code, flags, size_of::<u64>() as u32, 0, 0].map(u32::to_ne_bytes).concat();
        (&**connection).write_all(&reply)?;
    }
    Ok(channel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    /// A channel, the front end's end of it, and the front end's end of the connection.
    fn channel() -> (Channel, UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (connection, front_end) = UnixStream::pair().unwrap();
        let features = VhostUserProtocolFeatures::BACKEND_REQ;
        let channel = Channel::new(ours.into(), features, Arc::new(connection)).unwrap();
        (channel, theirs, front_end)
    }

    fn exchange(channel: &Channel, inside: &AtomicBool) {
        channel.ask(|_| {
            assert!(!inside.swap(true, Ordering::Relaxed), "two questions at once");
            (&channel.socket).write_all(&[1]).unwrap();
            (&channel.socket).read_exact(&mut [0]).unwrap();
            inside.store(false, Ordering::Relaxed);
        });
    }

    #[test]
    fn answers_to_threads_that_ask_at_once_are_no_abuse() {
        let (channel, mut front_end, mut connection) = channel();
        let (inside, over) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|threads| {
            threads.spawn(|| {
                let mut question = [0];
                while front_end.read_exact(&mut question).is_ok() {
                    front_end.write_all(&question).unwrap();
                }
            });
            let looks = threads.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    assert!(!channel.is_abused());
                }
            });
            let ask = || (0..1000).for_each(|_| exchange(&channel, &inside));
            let asking = [threads.spawn(ask), threads.spawn(ask)];
            for asking in asking {
                asking.join().unwrap();
            }
            over.store(true, Ordering::Relaxed);
            looks.join().unwrap();
            channel.shut_down();
        });
        connection.set_nonblocking(true).unwrap();
        let open = connection.read(&mut [0]).unwrap_err();
        assert_eq!(open.kind(), io::ErrorKind::WouldBlock, "the connection continues");
    }

    #[test]
    fn an_unsolicited_message_is_abuse() {
        let (channel, mut front_end, mut connection) = channel();
        assert!(!channel.is_abused());
        front_end.write_all(&[1]).unwrap();
        assert!(channel.is_abused());
        // The asking thread detects a superfluous answer.
        channel.ask(|_| ());
        assert_eq!(connection.read(&mut [0]).unwrap(), 0, "the connection has ended");
    }
}
