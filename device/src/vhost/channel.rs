//! The channel on which the device asks the front end.

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
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vhost::vhost_user::Backend;
use vhost::vhost_user::message::{FrontendReq, VhostUserHeaderFlag, VhostUserProtocolFeatures};

/// Why a descriptor is no channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// There is none, or more than one.
    #[error("it comes with {0} descriptors, and one is wanted")]
    Descriptors(usize),
    /// It is something else.
    #[error("the descriptor is no connected Unix stream socket")]
    NoSocket,
    /// It leads to a listening socket, such as this daemon's.
    #[error(
        "the descriptor is connected to a socket with a name, as this connection's own end is; make a pair of \
         sockets without names"
    )]
    Named,
    /// The protocol feature was not taken.
    #[error("VHOST_USER_PROTOCOL_F_BACKEND_REQ was not taken")]
    NotTaken,
    /// The operating system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The device's end. The front end may answer there and say nothing else: what nobody reads could keep its
/// connection open, which is in the queue of a socket as well as in a descriptor.
pub struct Channel {
    backend: Backend,
    socket: UnixStream,
    /// Odd while an answer is waited for.
    asked: AtomicU64,
    /// The connection, which ends with the channel's abuse.
    connection: Arc<UnixStream>,
}

impl Channel {
    /// Takes a descriptor over.
    fn new(
        descriptor: OwnedFd,
        features: VhostUserProtocolFeatures,
        connection: Arc<UnixStream>,
    ) -> Result<Self, ChannelError> {
        if !sockopt::socket_type(&descriptor).is_ok_and(|kind| kind == SocketType::STREAM) {
            return Err(ChannelError::NoSocket);
        }
        let socket = UnixStream::from(descriptor);
        // It fails for a socket of another family too, and for one that is not connected.
        let peer = socket.peer_addr().map_err(|_| ChannelError::NoSocket)?;
        if !peer.is_unnamed() {
            return Err(ChannelError::Named);
        }
        socket.set_nonblocking(false)?;
        let backend = Backend::from_stream(socket.try_clone()?);
        backend.set_reply_ack_flag(features.contains(VhostUserProtocolFeatures::REPLY_ACK));
        backend.set_shmem_flag(features.contains(VhostUserProtocolFeatures::SHMEM));
        Ok(Self { backend, socket, asked: AtomicU64::new(0), connection })
    }

    /// Asks the front end, and waits for the answer. One thread asks.
    pub fn ask<T>(&self, question: impl FnOnce(&Backend) -> T) -> T {
        // Relaxed: the kernel orders what is sent after this, and what comes back before the other.
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = question(&self.backend);
        if self.has_unread() {
            let _ = self.connection.shutdown(Ends::Both);
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        answer
    }

    /// Whether there is something that nobody asked for.
    pub fn is_abused(&self) -> bool {
        let before = self.asked.load(Ordering::Relaxed);
        before.is_multiple_of(2)
            && self.has_unread()
            && before == self.asked.load(Ordering::Relaxed)
    }

    fn has_unread(&self) -> bool {
        ioctl_fionread(&self.socket).is_ok_and(|bytes| bytes > 0)
    }

    /// Ends it, and whatever waits for an answer.
    pub fn shut_down(&self) {
        // It fails when the front end has ended it already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Most descriptors of a message: a memory table's.
const MOST_DESCRIPTORS: usize = 32;
/// The version of the protocol that headers name.
const VERSION: u32 = 1;

/// Receives `SET_BACKEND_REQ_FD`, all of which is there, and acknowledges it. `vhost` does that too, but gives nobody
/// the descriptor.
///
/// # Errors
/// See [`ChannelError`].
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
        // The header, and a word that is 0 for success.
        let reply = [code, flags, size_of::<u64>() as u32, 0, 0].map(u32::to_ne_bytes).concat();
        (&**connection).write_all(&reply)?;
    }
    Ok(channel)
}
