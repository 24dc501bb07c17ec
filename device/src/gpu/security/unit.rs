// SPDX-License-Identifier: MIT OR Apache-2.0

//! The engine's side of the worker with the keys: one piece of work at a time.
//!
//! While the worker computes, the engine may serve other queues. Work of a queue that is taken off the run list does not
//! hold others up: it is dropped, and begun anew when the queue is back. Nothing was written yet.

use super::mailbox::{Mailbox, Numbered};
use crate::gpu::memory::violation::Violation;
use crate::gpu::shared::hw_queue::HwQueue;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::security::{MAX_ASSOCIATED, MAX_SEALED, SEALED_OVERHEAD};
use bellhop_worker::security::owner::{Answer, Identity, Job};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long an engine waits for the worker before it looks for other work.
const SLICE: Duration = Duration::from_micros(100);
/// How long the worker may take. It takes a millisecond where processors have AES, and twenty where they have not.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most bytes of data.
pub const MAX_DATA: usize = MAX_SEALED as usize + SEALED_OVERHEAD;

/// Work that the worker does. It is abandoned when this is dropped.
#[derive(Debug)]
pub struct InFlight {
    number: u64,
    _wanted: Arc<()>,
}

/// Whether the worker does the work.
#[derive(Debug)]
pub enum Start {
    /// It does.
    Begun(InFlight),
    /// It does other work.
    Busy,
    /// There is none. The engine's attention is raised when there is.
    Waits,
}

/// Whether the work is done.
#[derive(Debug)]
pub enum Wait {
    /// It is.
    Done(Answer),
    /// Not yet.
    GoesOn(InFlight),
    /// It was dropped: to be begun anew.
    Again,
}

/// Work in progress.
#[derive(Debug)]
struct Running {
    number: u64,
    wanted: Weak<()>,
    /// Not kept: a guest that goes leaves nothing behind.
    queue: Weak<HwQueue>,
    since: Instant,
}

impl Running {
    /// Whether its queue waits for it.
    fn is_wanted(&self) -> bool {
        let may_run = |queue: Arc<HwQueue>| queue.membership.may_run();
        self.wanted.strong_count() > 0 && self.queue.upgrade().is_some_and(may_run)
    }
}

/// An engine's way to the worker with the keys.
#[derive(Debug)]
pub struct SecurityUnit {
    mailbox: Arc<Mailbox>,
    worker: Option<Numbered>,
    running: Option<Running>,
    /// The number of the last work.
    number: u64,
    /// What goes to the worker and comes from it: data, and associated data.
    pub data: Box<[u8]>,
    /// Associated data.
    pub associated: Box<[u8]>,
    /// For how long the engine has waited for the worker since somebody asked.
    waited: Duration,
}

impl SecurityUnit {
    /// No worker yet.
    pub fn new(mailbox: Arc<Mailbox>) -> Self {
        Self {
            mailbox,
            worker: None,
            running: None,
            number: 0,
            data: vec![0; MAX_DATA].into(),
            associated: vec![0; MAX_ASSOCIATED as usize].into(),
            waited: Duration::ZERO,
        }
    }

    /// For how long the engine has waited for the worker since the last call.
    pub fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }

    /// Makes room for work: whether the worker can begin some.
    ///
    /// # Errors
    /// `SECURITY_LOST` if there is none and none is coming.
    pub fn prepare(&mut self, lost: Violation) -> Result<Option<Start>, Violation> {
        if let Some(running) = &self.running {
            if running.is_wanted() {
                return Ok(Some(Start::Busy));
            }
            // Nobody waits for it any more; but the worker answers it before it takes other work.
            match self.worker.as_mut().map(|worker| worker.conversation.poll(Instant::now())) {
                Some(Ok(None)) if running.since.elapsed() < PATIENCE => {
                    return Ok(Some(Start::Busy));
                }
                Some(Ok(Some(_))) => self.running = None,
                _ => self.lose(),
            }
        }
        if let Some(newer) = self.mailbox.take() {
            self.worker = Some(newer);
        }
        match &self.worker {
            Some(_) => Ok(None),
            None if self.mailbox.is_coming() => Ok(Some(Start::Waits)),
            None => Err(lost),
        }
    }

    /// Gives the worker work, after [`Self::prepare`], with what is in `data` and `associated`.
    pub fn begin(&mut self, queue: &Arc<HwQueue>, guest: &Identity, job: OwnJob) -> Start {
        let Self { worker, data, associated, .. } = self;
        let Some(worker) = worker else { return Start::Waits };
        if worker.conversation.begin(guest, &job.of(data, associated)).is_err() {
            // It ended while it was idle, which is nobody's fault.
            self.lose();
            return Start::Waits;
        }
        self.number += 1;
        let wanted = Arc::new(());
        self.running = Some(Running {
            number: self.number,
            wanted: Arc::downgrade(&wanted),
            queue: Arc::downgrade(queue),
            since: Instant::now(),
        });
        Start::Begun(InFlight { number: self.number, _wanted: wanted })
    }

    /// Waits for a slice of time until work is done. What came of it is in `data` then.
    ///
    /// # Errors
    /// This violation if the worker has ended, or does not answer.
    pub fn wait(&mut self, in_flight: InFlight, lost: Violation) -> Result<Wait, Violation> {
        let Some(running) =
            self.running.as_ref().filter(|running| running.number == in_flight.number)
        else {
            return Ok(Wait::Again);
        };
        let is_late = running.since.elapsed() >= PATIENCE;
        let Some(worker) = &mut self.worker else { return Err(lost) };
        let start = Instant::now();
        let polled = worker.conversation.poll(start + SLICE);
        self.waited += start.elapsed();
        match polled {
            Ok(None) if !is_late => Ok(Wait::GoesOn(in_flight)),
            Ok(Some(answer)) => {
                self.running = None;
                let data = self.data.get_mut(..answer.length);
                match data.map(|data| worker.conversation.take(data)) {
                    Some(Ok(())) => Ok(Wait::Done(answer)),
                    _ => Err(lost),
                }
            }
            error => {
                if let Err(error) = error {
                    tracing::warn!(%error, "the security node's worker is lost");
                }
                self.lose();
                Err(lost)
            }
        }
    }

    /// Forgets data: it is a guest's.
    pub fn forget(&mut self, length: usize) {
        if let Some(data) = self.data.get_mut(..length) {
            data.fill(0);
        }
    }

    /// Gives up the worker. The manager starts another.
    fn lose(&mut self) {
        let worker = self.worker.take();
        self.running = None;
        // Plaintext of a guest may be there.
        self.data.fill(0);
        if let Some(Numbered { number, .. }) = worker {
            self.mailbox.lose(number);
        }
    }
}

/// Work, by lengths.
#[derive(Debug, Clone, Copy)]
pub enum OwnJob {
    /// Seal so many bytes, which were protected or not, with so many of associated data.
    Seal(usize, bool, usize),
    /// Open so many bytes, with so many of associated data.
    Open(usize, usize),
    /// Sign a statement with this nonce.
    Attest([u8; bellhop_protocol::security::NONCE_SIZE]),
}

impl OwnJob {
    fn of<'a>(&self, data: &'a [u8], associated: &'a [u8]) -> Job<'a> {
        // Packets were checked for both lengths.
        let part = |bytes: &'a [u8], length: usize| bytes.get(..length).unwrap_or_default();
        match *self {
            Self::Seal(length, protected, about) => Job::Seal {
                data: part(data, length),
                protected,
                associated: part(associated, about),
            },
            Self::Open(length, about) => {
                Job::Open { data: part(data, length), associated: part(associated, about) }
            }
            Self::Attest(nonce) => Job::Attest { nonce },
        }
    }
}

/// The fault of a packet that the worker was lost with.
pub fn lost(opcode: bellhop_protocol::packet::Opcode) -> Violation {
    Violation::new(FaultReason::SECURITY_LOST, opcode.0.into())
}
