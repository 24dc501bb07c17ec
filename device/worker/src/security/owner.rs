// SPDX-License-Identifier: MIT OR Apache-2.0

//! The owner's side of a worker with keys: starts it, gives it work and ends it.
//!
//! The owner trusts it with keys and with the bytes of its buffer, and with nothing else: an answer that fits no request is
//! an error.

pub use super::messages::{About, Identity};

use super::messages::{ATTEST, Begin, Buffer, Done, MAX_MESSAGE, OPEN, Ready, SEAL, Work, read};
use super::{BUFFER, DATA, MAX_DATA};
use crate::messages::{Malformed, Message, Refused};
use crate::owner::{self, Said, WorkerError, sealed};
use crate::socket::{pair, receive_until, send, send_at_once};
use crate::waiting::Looking;
use bellhop_protocol::security::{NONCE_SIZE, SEALED_OVERHEAD, SecurityOutcome, Statement};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// For how long an owner looks for an answer before it sleeps, as long as answers come so soon.
const LOOK: Duration = Duration::from_micros(50);

/// The process, and what it says. Dropping this kills it.
#[derive(Debug)]
pub struct Process {
    process: owner::Process,
    said: Said,
}

impl Process {
    /// What it said on its standard error: why it ended, perhaps.
    #[must_use]
    pub fn said(&self) -> String {
        self.said.text()
    }
}

impl Deref for Process {
    type Target = owner::Process;

    fn deref(&self) -> &owner::Process {
        &self.process
    }
}

/// What an engine says to a worker with keys, and hears of it.
#[derive(Debug)]
pub struct Conversation {
    socket: OwnedFd,
    buffer: File,
    /// The number of the last work.
    sequence: u64,
    /// What the answer to it may be, until it comes.
    expected: Option<Expected>,
    looking: Looking,
}

#[derive(Debug, Clone, Copy)]
struct Expected {
    /// Bytes of data if it is done.
    length: usize,
    /// Whether it is an `OPEN`, the only one that can fail.
    may_fail: bool,
}

/// Work for a worker with keys.
#[derive(Debug, Clone, Copy)]
pub enum Job<'a> {
    /// Seal these bytes, which were protected or not.
    Seal {
        /// The bytes.
        data: &'a [u8],
        /// Whether any of them were protected.
        protected: bool,
        /// What is authenticated with them.
        associated: &'a [u8],
    },
    /// Open these bytes.
    Open {
        /// The bytes, which begin with a header of their length.
        data: &'a [u8],
        /// What was authenticated with them.
        associated: &'a [u8],
    },
    /// Sign a statement.
    Attest {
        /// Its nonce.
        nonce: [u8; NONCE_SIZE],
    },
}

/// What came of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The outcome.
    pub outcome: SecurityOutcome,
    /// Bytes to [`Conversation::take`].
    pub length: usize,
}

/// Starts the process with a command that runs `bellhop-worker`, and does not wait. It ends when the calling thread does.
///
/// # Errors
/// When it cannot be started.
pub fn spawn(
    mut command: Command,
    root: BorrowedFd<'_>,
    about: &About,
) -> Result<(Process, Conversation), WorkerError> {
    let (socket, theirs) = pair()?;
    let (conversation, said) = (Conversation::new(socket)?, Said::new()?);
    let stderr = said.stdio().map_err(WorkerError::NotStarted)?;
    command.arg("secure").stdin(theirs).stdout(Stdio::null()).stderr(stderr);
    let process = owner::Process::spawn(&mut command)?;
    // Closes this process's copy of the worker's end, so that the socket closes when the worker ends.
    drop(command);
    let process = Process { process, said };
    // If it has ended, the next to listen learns of it.
    let Conversation { socket, buffer, .. } = &conversation;
    let _ = send(socket, Begin { about: *about }, Some(root));
    let _ = send(socket, Buffer { length: BUFFER as u64 }, Some(buffer.as_fd()));
    Ok((process, conversation))
}

impl Conversation {
    /// A conversation with what has the socket's other end, which has heard nothing yet.
    ///
    /// # Errors
    /// If Linux has no memory.
    pub fn new(socket: OwnedFd) -> Result<Self, Errno> {
        let buffer = sealed("bellhop-security", BUFFER as u64)?;
        let looking = Looking::new(LOOK);
        Ok(Self { socket, buffer, sequence: 0, expected: None, looking })
    }

    /// Waits until the worker has its keys. Returns the one that verifies its statements.
    ///
    /// # Errors
    /// If it refuses, ends or is not ready by then.
    pub fn ready(&mut self, deadline: Instant) -> Result<[u8; 32], WorkerError> {
        let mut bytes = [0; MAX_ANSWER];
        let received = self.receive(&mut bytes, Some(deadline))?.ok_or(WorkerError::TooSlow)?;
        if let Ok(Refused { why }) = read(received) {
            return Err(WorkerError::Refused(why.read()));
        }
        let Ready { public_key } = read(received)?;
        Ok(public_key)
    }

    /// Gives work to a worker that has none, for this guest. The caller has checked its lengths.
    ///
    /// # Errors
    /// If the worker has ended.
    #[expect(
        clippy::disallowed_methods,
        reason = "an engine: a buffer that only the process with the keys has"
    )]
    pub fn begin(&mut self, guest: &Identity, job: &Job<'_>) -> Result<(), WorkerError> {
        if self.expected.is_some() {
            return Err(WorkerError::Impossible("the worker has other work"));
        }
        let none: &[u8] = &[];
        let (operation, data, associated, is_protected, nonce) = match *job {
            Job::Seal { data, protected, associated } => {
                (SEAL, data, associated, protected, [0; NONCE_SIZE])
            }
            Job::Open { data, associated } => (OPEN, data, associated, false, [0; NONCE_SIZE]),
            Job::Attest { nonce } => (ATTEST, none, none, false, nonce),
        };
        let length = match operation {
            SEAL => data.len() + SEALED_OVERHEAD,
            OPEN => data.len().saturating_sub(SEALED_OVERHEAD),
            _ => size_of::<Statement>(),
        };
        if data.len() > MAX_DATA || associated.len() > DATA || length > MAX_DATA {
            return Err(WorkerError::Impossible("the data is too long"));
        }
        let write = |bytes, at| self.buffer.write_all_at(bytes, at);
        write(associated, 0)
            .and_then(|()| write(data, DATA as u64))
            .map_err(WorkerError::NotStarted)?;
        self.sequence += 1;
        let work = Work {
            sequence: self.sequence,
            operation,
            protected: is_protected.into(),
            length: data.len() as u32,
            associated: associated.len() as u32,
            guest: *guest,
            nonce,
        };
        send_at_once(&self.socket, work, None)?;
        self.expected = Some(Expected { length, may_fail: operation == OPEN });
        self.looking.begin();
        Ok(())
    }

    /// Whether the worker has work.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.expected.is_some()
    }

    /// Waits for what came of the work. `None` if it has not come by then.
    ///
    /// # Errors
    /// If the worker has ended, or sends what fits no work.
    pub fn poll(&mut self, deadline: Instant) -> Result<Option<Answer>, WorkerError> {
        let Some(Expected { length, may_fail }) = self.expected else { return Ok(None) };
        let mut bytes = [0; MAX_ANSWER];
        let Some(received) = self.receive(&mut bytes, Some(deadline))? else { return Ok(None) };
        let Done { sequence, outcome, length: done } = read(received)?;
        self.looking.end();
        self.expected = None;
        let (outcome, done) = (SecurityOutcome(outcome), done as usize);
        let fits = match outcome {
            SecurityOutcome::DONE => done == length,
            SecurityOutcome::NOT_AUTHENTIC | SecurityOutcome::NOT_SEALED => may_fail && done == 0,
            _ => false,
        };
        if sequence != self.sequence || !fits {
            return Err(Malformed::Field("answer").into());
        }
        Ok(Some(Answer { outcome, length: done }))
    }

    /// Copies the data of the last answer.
    ///
    /// # Errors
    /// If Linux has no memory.
    #[expect(
        clippy::disallowed_methods,
        reason = "an engine: a buffer that only the process with the keys has"
    )]
    pub fn take(&self, data: &mut [u8]) -> Result<(), WorkerError> {
        self.buffer.read_exact_at(data, DATA as u64).map_err(WorkerError::NotStarted)
    }

    /// The packet that comes next; `None` if none has come by then.
    fn receive<'a>(
        &self,
        bytes: &'a mut [u8],
        deadline: Option<Instant>,
    ) -> Result<Option<&'a [u8]>, WorkerError> {
        match receive_until(&self.socket, bytes, deadline, &self.looking) {
            Ok(Some(received)) => Ok(Some(received.alone()?)),
            Ok(None) => Err(WorkerError::OutOfTurn("its end")),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The longest packet of a worker: why it refuses.
const MAX_ANSWER: usize = 2048;
const _: () = assert!(8 + size_of::<Refused>() <= MAX_ANSWER && MAX_MESSAGE <= MAX_ANSWER);
const _: () = assert!(<Ready as Message>::KIND != <Refused as Message>::KIND);
