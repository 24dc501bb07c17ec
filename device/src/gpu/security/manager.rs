// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread that has the worker with the keys: it starts it, and another when it has ended.
//!
//! Only this thread starts it: a worker ends with the thread that started it.

use super::config::SecurityConfig;
use super::mailbox::{Mailbox, Numbered};
use crate::gpu::shared::chip::Chip;
use crate::gpu::workers::roster::describe_keeper;
use bellhop_host_kmd::hardware::WorkerDescription;
use bellhop_protocol::control::security::{SECURITY_LASTING_KEY, SECURITY_SUPPORTED, SecurityCaps};
use bellhop_protocol::security::{MAX_ASSOCIATED, MAX_SEALED};
use bellhop_worker::owner::WorkerError;
use bellhop_worker::security::owner::{Conversation, Process, spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long a worker may take to start.
const START: Duration = Duration::from_secs(20);
/// How long no worker is started after one could not be, or ended within this time: at first and at most.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A security node's worker.
#[derive(Debug)]
pub struct Security {
    mailbox: Arc<Mailbox>,
    caps: SecurityCaps,
    thread: Option<JoinHandle<()>>,
}

impl Security {
    /// Starts a worker for the node with this ordinal, and waits until it has its keys.
    ///
    /// # Errors
    /// If it does not start.
    #[expect(
        clippy::disallowed_methods,
        reason = "the daemon's start: until its own worker has keys, 20 s"
    )]
    pub fn start(config: SecurityConfig, chip: Arc<Chip>, node: u32) -> io::Result<Self> {
        let mailbox = Arc::new(Mailbox::new(chip, node)?);
        let (started, starting) = sync_channel(1);
        let lasting = config.about.lasting == 1;
        let manager =
            Manager { mailbox: Arc::clone(&mailbox), config, number: 0, public_key: None };
        let thread =
            Builder::new().name("security-worker".into()).spawn(move || manager.run(&started))?;
        let told = starting.recv().map_err(|_| io::Error::other("its thread ended"))?;
        let public_key = told.map_err(|error| {
            io::Error::other(format!("the security node's worker does not start: {error}"))
        })?;
        let caps = SecurityCaps {
            flags: SECURITY_SUPPORTED | if lasting { SECURITY_LASTING_KEY } else { 0 },
            node,
            max_sealed: MAX_SEALED,
            max_associated: MAX_ASSOCIATED,
            public_key,
        };
        Ok(Self { mailbox, caps, thread: Some(thread) })
    }

    /// What guests are told.
    pub fn caps(&self) -> SecurityCaps {
        self.caps
    }

    /// Where the engine meets the manager.
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// What tools are told of the worker.
    pub fn describe(&self) -> Option<WorkerDescription> {
        let pid = self.mailbox.pid()?;
        Some(describe_keeper(pid, self.mailbox.engine()))
    }
}

impl Drop for Security {
    #[expect(clippy::disallowed_methods, reason = "the end of the adapter")]
    fn drop(&mut self) {
        self.mailbox.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the manager of the security node's worker panicked");
        }
    }
}

struct Manager {
    mailbox: Arc<Mailbox>,
    config: SecurityConfig,
    /// The number of the last worker.
    number: u64,
    /// The key of the first worker. A later one with another key has another root key.
    public_key: Option<[u8; 32]>,
}

impl Manager {
    /// Runs until it is told to stop. Tells whether the first worker started.
    #[expect(clippy::disallowed_methods, reason = "never full: it has room for the one result")]
    fn run(mut self, started: &SyncSender<Result<[u8; 32], WorkerError>>) {
        let mut pause = PAUSE;
        let mut worker = match self.begin() {
            Ok((worker, public_key)) => {
                self.public_key = Some(public_key);
                // `Security::start` waits for this.
                let _ = started.send(Ok(public_key));
                Some(worker)
            }
            Err(error) => {
                let _ = started.send(Err(error));
                return;
            }
        };
        let mut since = Instant::now();
        while !self.mailbox.is_stopping() {
            match &worker {
                Some(process) => wait(&[self.mailbox.fd(), process.ended()], None),
                None => wait(&[self.mailbox.fd()], Some(pause)),
            }
            let is_lost = self.mailbox.was_lost(self.number);
            let is_over = match &worker {
                Some(worker) => is_lost || is_readable(worker.ended()),
                None => true,
            };
            if self.mailbox.is_stopping() || !is_over {
                continue;
            }
            if let Some(ended) = worker.take() {
                let said = ended.said();
                tracing::warn!(?said, "the security node's worker ended; another is started");
                if since.elapsed() > LONGEST_PAUSE {
                    pause = PAUSE;
                } else {
                    // One that ends again and again costs no more than a little of a processor.
                    wait(&[self.mailbox.fd()], Some(pause));
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
            }
            match self.begin() {
                Ok((process, _)) => worker = Some(process),
                Err(error) => {
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                    tracing::error!(%error, "the security node's worker does not start");
                    self.mailbox.has_none();
                }
            }
            since = Instant::now();
        }
    }

    /// Starts a worker, and hands it to the engine when it has its keys.
    fn begin(&mut self) -> Result<(Process, [u8; 32]), WorkerError> {
        let SecurityConfig { worker, root, about } = &self.config;
        let (process, mut conversation) = spawn(worker.command(), root.as_fd(), about)?;
        let public_key = self.ready(&mut conversation).inspect_err(|_| {
            let said = process.said();
            tracing::warn!(?said, "the security node's worker does not begin");
        })?;
        self.number += 1;
        self.mailbox.hand_over(Numbered { number: self.number, conversation }, process.id());
        Ok((process, public_key))
    }

    fn ready(&self, conversation: &mut Conversation) -> Result<[u8; 32], WorkerError> {
        // A worker that has not started holds up the end of the daemon no longer than this.
        let public_key = conversation.ready(Instant::now() + START)?;
        if self.public_key.is_some_and(|known| known != public_key) {
            return Err(WorkerError::Impossible("the file with the root key was changed"));
        }
        Ok(public_key)
    }
}

/// Waits until one is readable, for at most so long.
#[expect(
    clippy::disallowed_methods,
    reason = "its own thread: until its worker or the daemon ends"
)]
fn wait(descriptors: &[BorrowedFd<'_>], most: Option<Duration>) {
    let mut polled: Vec<_> =
        descriptors.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let most = most.and_then(|most| Timespec::try_from(most).ok());
    // Whatever woke it, the caller looks.
    let _ = poll(&mut polled, most.as_ref());
}

#[expect(clippy::disallowed_methods, reason = "does not wait")]
fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}
