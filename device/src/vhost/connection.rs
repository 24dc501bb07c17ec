// SPDX-License-Identifier: MIT OR Apache-2.0

//! One connection of a front end: the thread that receives its messages and the guest's kicks, from the first to
//! the last.
//!
//! The thread waits only for its own front end: for a bounded time for the rest of a message, and in the guest's
//! memory for as long as the front end punches holes there. It is the one thread that reads requests from the guest's
//! memory and writes replies and events to it, so nobody else waits then.

use super::backend::{GuestBackend, Host, ServiceError};
use super::channel::{self, Channel, ChannelError};
use super::event::FrontEndEvent;
use super::lost_memory;
use super::messages::Messages;
use super::place::Place;
use bellhop_host_kmd::hardware::{FrontEnd, GuestId};
use bellhop_protocol::config::QUEUE_COUNT;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{Errno, ioctl_fionread, retry_on_intr};
use rustix::net::{RecvFlags, recv};
use std::io;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::{Span, debug, info};
use vhost::vhost_user::message::{FrontendReq, MAX_MSG_SIZE};
use vhost::vhost_user::{BackendReqHandler, Error as MessageError};

/// Niceness of this thread: a third of an engine's share while both want a processor.
const NICENESS: i32 = 5;
/// Linux gives a thread so many times the share of one that is nicer by one.
const SHARE_OF_NICENESS: f64 = 1.25;
/// Longest time from the first byte of a message to its last.
const PATIENCE: Duration = Duration::from_secs(5);
/// Length of a message's header. Its last four bytes hold the length of the body.
const HEADER: usize = 12;
/// Events taken from the kernel at once.
const READY: usize = 8;

/// Most rounds of a step.
#[cfg(feature = "stepped")]
const ROUNDS: usize = 128;

/// Identifiers of epoll events. From `KICKS` on, each is the kick of a queue.
const MESSAGES: u64 = 0;
const LOSSES: u64 = 1;
const CHANNEL: u64 = 2;
const WAKE: u64 = 3;
const KICKS: u64 = 4;

/// Why the device ends a connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The device refused a message.
    #[error("{message}: {reason}")]
    Message {
        /// The message's name.
        message: String,
        /// The reason.
        reason: String,
    },
    /// The rest of a message did not arrive.
    #[error("the front end did not finish a message within {} s", PATIENCE.as_secs())]
    HalfMessage,
    /// The front end uses its request channel for more than answers.
    #[error("the front end sent a reply that no request of the back end asked for")]
    UnaskedAnswer,
    /// The guest cannot be served.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A part of the guest's memory disappeared.
    #[error(
        "memory of the guest's is gone while it is in use: its file was shortened, or there is no page for it; \
         seal it (memory-backend-memfd does), or give it room"
    )]
    MemoryLost,
    /// The operating system refused a call.
    #[error("cannot wait for the front end: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for ConnectionError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// How nice the thread of each guest is of a socket that has so many: all together want no more of a processor than one alone.
fn niceness(connections: u32) -> i32 {
    let nicer = f64::from(connections.max(1)).log(SHARE_OF_NICENESS).ceil();
    NICENESS.saturating_add(nicer as i32)
}

/// A connection that another thread can end, before and while it is served.
pub struct Connection {
    socket: Arc<UnixStream>,
    backend: GuestBackend,
    span: Span,
    memory_limit: u64,
    front_end: FrontEnd,
    niceness: i32,
}

/// Ends the connection when dropped, also after a panic, so that the guest leaves nothing behind that affects
/// others.
struct End<'c>(&'c Connection);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.backend.close();
        self.0.shut_down();
    }
}

/// The state of the next message.
enum Next {
    /// The whole message has arrived: its number and its length.
    Message(u32, usize),
    /// A part of the message has arrived.
    Half,
    Nothing,
    /// The connection ended.
    End,
}

impl Connection {
    /// A connection that was just accepted from this front end, which has this place at its socket.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub fn new(
        host: Host,
        socket: UnixStream,
        front_end: FrontEnd,
        place: Place,
    ) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        let (span, memory_limit) = (host.span.clone(), host.memory_limit);
        let (socket, niceness) = (Arc::new(socket), niceness(host.connections));
        let end = Some(Arc::clone(&socket));
        let backend = GuestBackend::new(host, front_end.clone(), place, end)?;
        Ok(Self { socket, backend, span, memory_limit, front_end, niceness })
    }

    /// The process at the other end.
    #[must_use]
    pub fn front_end(&self) -> &FrontEnd {
        &self.front_end
    }

    /// The guest, while it runs.
    #[must_use]
    pub fn guest(&self) -> Option<GuestId> {
        self.backend.guest()
    }

    /// Serves the connection until it ends, and frees everything that the guest held.
    ///
    /// # Errors
    /// If the device ended the connection.
    pub fn serve(&self) -> Result<(), ConnectionError> {
        let _span = self.span.enter();
        info!("front end connected");
        // If it shares a processor with the guest's engine, the engine does the work that the guest waits for.
        if let Err(error) = rustix::process::nice(self.niceness) {
            debug!(%error, "cannot lower the priority of the thread that takes kicks");
        }
        let _end = End(self);
        let mut conversation = self.converse()?;
        while conversation.round(None)? != Round::End {}
        Ok(())
    }

    /// Whether the front end has ended the connection, which may still be served for a moment.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "does not wait: it gives no time")]
    pub fn has_hung_up(&self) -> bool {
        let mut end = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let polled = retry_on_intr(|| poll(&mut end, Some(&Timespec::default())));
        polled.is_ok_and(|ended| ended > 0)
    }

    /// Ends the connection.
    pub fn shut_down(&self) {
        // Fails if the connection has already ended.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn converse(&self) -> Result<Conversation<'_>, ConnectionError> {
        let messages = Arc::new(Mutex::new(Messages::new(self.backend.clone(), self.memory_limit)));
        let handler =
            BackendReqHandler::from_stream(self.socket.try_clone()?, Arc::clone(&messages));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // Edge-triggered: a part of a message may stay in the socket for a while, and the event of losses stays
        // readable.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&epoll, &self.socket, epoll::EventData::new_u64(MESSAGES), flags)?;
        epoll::add(&epoll, lost_memory::event()?, epoll::EventData::new_u64(LOSSES), flags)?;
        epoll::add(&epoll, self.backend.wake(), epoll::EventData::new_u64(WAKE), flags)?;
        Ok(Conversation {
            connection: self,
            messages,
            handler,
            epoll,
            kicks: Default::default(),
            has_hung_up: false,
            may_be_there: true,
            began: None,
        })
    }

    /// Peeks at the next message without consuming bytes.
    #[expect(clippy::disallowed_methods, reason = "the guest's own thread")]
    fn next(&self) -> io::Result<Next> {
        let mut header = [0; HEADER];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let (length, _) = match retry_on_intr(|| recv(&*self.socket, &mut header, flags)) {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(Next::Nothing),
            Err(Errno::CONNRESET) => return Ok(Next::End),
            Err(error) => return Err(error.into()),
        };
        let [a, b, c, d, .., e, f, g, h] = header;
        let body = u32::from_ne_bytes([e, f, g, h]) as usize;
        // A header that claims a longer body than any message has is refused without its body.
        let whole = HEADER + if body > MAX_MSG_SIZE { 0 } else { body };
        Ok(match length {
            0 => Next::End,
            HEADER if ioctl_fionread(&*self.socket)? >= whole as u64 => {
                Next::Message(u32::from_ne_bytes([a, b, c, d]), whole)
            }
            _ => Next::Half,
        })
    }
}

#[cfg(feature = "stepped")]
impl Connection {
    /// Serves the connection as [`Self::serve`] does, on this thread and beside its front end: `act` is given what hears
    /// everything that the front end has sent, and returns whether the connection goes on.
    ///
    /// # Errors
    /// As [`Self::serve`].
    pub fn serve_in_steps(
        &self,
        act: impl FnOnce(&mut dyn FnMut() -> bool),
    ) -> Result<(), ConnectionError> {
        let _end = End(self);
        let mut conversation = self.converse()?;
        let mut ended = None;
        act(&mut || {
            // A front end can have a kick that stays readable.
            for _ in 0..ROUNDS {
                if ended.is_some() {
                    break;
                }
                match conversation.round(Some(Duration::ZERO)) {
                    Ok(Round::Heard) => {}
                    Ok(Round::Nothing) => return true,
                    Ok(Round::End) => ended = Some(Ok(())),
                    Err(error) => ended = Some(Err(error)),
                }
            }
            ended.is_none()
        });
        ended.unwrap_or(Ok(()))
    }
}

/// A connection while it is served.
struct Conversation<'c> {
    connection: &'c Connection,
    messages: Arc<Mutex<Messages>>,
    handler: BackendReqHandler<Mutex<Messages>>,
    epoll: OwnedFd,
    /// The kicks that epoll watches.
    kicks: [Option<Arc<FrontEndEvent>>; QUEUE_COUNT as usize],
    has_hung_up: bool,
    /// Whether bytes of a message may have arrived.
    may_be_there: bool,
    /// When the first part of a message arrived whose rest has not.
    began: Option<Instant>,
}

/// What came of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Something was heard.
    Heard,
    /// Nothing, for as long as it waited.
    Nothing,
    /// The front end ended the connection.
    End,
}

impl Conversation<'_> {
    /// Hears a message, if one is there, and waits for more: at most `most`, if that is given.
    fn round(&mut self, most: Option<Duration>) -> Result<Round, ConnectionError> {
        if self.may_be_there {
            match self.connection.next()? {
                Next::Message(number, length) => {
                    self.began = None;
                    if !self.hear(number, length)? {
                        return Ok(Round::End);
                    }
                    self.watch_kicks()?;
                }
                Next::Half if self.has_hung_up => return Ok(Round::End),
                Next::Half => {
                    self.began.get_or_insert_with(Instant::now);
                    self.may_be_there = false;
                }
                Next::Nothing => self.may_be_there = false,
                Next::End => return Ok(Round::End),
            }
        }
        let left = match (self.may_be_there, self.began) {
            (true, _) => Some(Duration::ZERO),
            (false, Some(began)) => Some(PATIENCE.saturating_sub(began.elapsed())),
            (false, None) => None,
        };
        if !self.may_be_there && left == Some(Duration::ZERO) {
            return Err(ConnectionError::HalfMessage);
        }
        let left = left.into_iter().chain(most).min();
        let has_come = self.wait(left)?;
        Ok(if has_come || self.may_be_there { Round::Heard } else { Round::Nothing })
    }

    #[expect(clippy::disallowed_methods, reason = "the guest's own thread")]
    fn messages(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most `time` and handles kicks, losses and the channel; sees whether bytes of a message have arrived.
    /// Returns whether anything has.
    #[expect(
        clippy::disallowed_methods,
        reason = "the guest's own thread, which has nothing else to do"
    )]
    fn wait(&mut self, time: Option<Duration>) -> Result<bool, ConnectionError> {
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let mut space = [const { MaybeUninit::uninit() }; READY];
        let (ready, _) = match epoll::wait(&self.epoll, space.as_mut_slice(), time.as_ref()) {
            Ok(ready) => ready,
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        for event in &*ready {
            match event.data.u64() {
                MESSAGES => {
                    self.may_be_there = true;
                    let ended = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP;
                    let flags = event.flags;
                    self.has_hung_up |= flags.intersects(ended);
                }
                LOSSES if self.messages().has_lost_memory() => {
                    return Err(ConnectionError::MemoryLost);
                }
                LOSSES => {}
                CHANNEL if self.connection.backend.is_channel_abused() => {
                    return Err(ConnectionError::UnaskedAnswer);
                }
                CHANNEL => {}
                WAKE => self.connection.backend.hand_out(),
                queue => self.take_kick(queue - KICKS)?,
            }
        }
        let has_come = !ready.is_empty();
        if has_come {
            // An event may wait for a buffer now, or none any longer.
            self.watch_kicks()?;
        }
        Ok(has_come)
    }

    fn take_kick(&self, queue: u64) -> Result<(), ConnectionError> {
        let kick = self.kicks.get(queue as usize).and_then(Option::as_ref);
        // An event in the same batch may have removed the kick.
        let Some(kick) = kick else { return Ok(()) };
        kick.take()?;
        Ok(self.connection.backend.kicked(queue as u16)?)
    }

    /// Handles a message that has arrived in full; returns false if the connection ended.
    fn hear(&mut self, number: u32, length: usize) -> Result<bool, ConnectionError> {
        let known = FrontendReq::try_from(number);
        let refused = |reason: String| {
            let message = known.map_or_else(|_| format!("message {number}"), |m| format!("{m:?}"));
            ConnectionError::Message { message, reason }
        };
        if known.is_ok_and(|message| message == FrontendReq::SET_BACKEND_REQ_FD) {
            let features = self.messages().protocol_features_taken();
            let channel = channel::receive(&self.connection.socket, length, features);
            let channel = channel.map(Arc::new).map_err(|error| refused(error.to_string()))?;
            self.open(&channel).map_err(|error| refused(error.to_string()))?;
            return Ok(true);
        }
        match self.handler.handle_request() {
            Ok(()) => Ok(true),
            // The errors that a front end causes when it exits or is killed.
            Err(
                MessageError::Disconnected
                | MessageError::PartialMessage
                | MessageError::SocketBroken(_),
            ) => Ok(false),
            Err(MessageError::ReqHandlerError(error)) => Err(refused(error.to_string())),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// Replaces the channel.
    fn open(&self, channel: &Arc<Channel>) -> Result<(), ChannelError> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if let Some(before) = self.connection.backend.set_channel(Arc::clone(channel)) {
            epoll::delete(&self.epoll, &*before).map_err(io::Error::from)?;
        }
        let data = epoll::EventData::new_u64(CHANNEL);
        Ok(epoll::add(&self.epoll, channel.as_fd(), data, flags).map_err(io::Error::from)?)
    }

    /// Watches the kicks of running queues that are this thread's, and no others. A queue that starts is processed at
    /// once, since kicks from before its start left work in it.
    fn watch_kicks(&mut self) -> Result<(), ConnectionError> {
        for (before, queue) in self.kicks.iter_mut().zip(0..) {
            let now = self.connection.backend.watched_kick(queue);
            let is_same = match (&*before, &now) {
                (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                (before, now) => before.is_none() && now.is_none(),
            };
            if is_same {
                continue;
            }
            // The front end has the same open file, so closing this descriptor would not stop epoll.
            if let Some(before) = before.take() {
                epoll::delete(&self.epoll, &*before)?;
            }
            if let Some(now) = &now {
                let data = epoll::EventData::new_u64(KICKS + u64::from(queue));
                epoll::add(&self.epoll, &**now, data, epoll::EventFlags::IN)?;
            }
            *before = now;
            if before.is_some() {
                self.connection.backend.kicked(queue)?;
            }
        }
        Ok(())
    }
}
