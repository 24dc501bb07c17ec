// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where the manager of a security node's worker and the engine meet without a lock.

use crate::gpu::shared::chip::{Chip, attention};
use crate::gpu::shared::event::Event;
use bellhop_worker::security::owner::Conversation;
use crossbeam_queue::ArrayQueue;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::{fmt, io};

/// A worker, as the engine has it. A later one has a greater number, and the first has 1.
#[derive(Debug)]
pub struct Numbered {
    /// Its number.
    pub number: u64,
    /// What is said to it.
    pub conversation: Conversation,
}

/// Where they meet.
pub struct Mailbox {
    chip: Arc<Chip>,
    /// The chain's number of the node's engine.
    engine: u32,
    /// The latest worker, until the engine takes it.
    worker: ArrayQueue<Numbered>,
    /// Whether a worker is here or about to be. Relaxed: the engine looks again whenever its attention is raised.
    is_coming: AtomicBool,
    /// The number of the last worker that the engine has given up; the manager ends it and starts another, unless it has
    /// done so. Relaxed: the event hands it over.
    lost: AtomicU64,
    stops: AtomicBool,
    event: Event,
    /// The worker's process id, for tools; 0 for none.
    pid: AtomicU32,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

impl Mailbox {
    /// Nothing is handed over yet.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn new(chip: Arc<Chip>, node: u32) -> io::Result<Self> {
        let engine = chip.engine_of(node);
        Ok(Self {
            chip,
            engine,
            worker: ArrayQueue::new(1),
            is_coming: AtomicBool::new(true),
            lost: AtomicU64::new(0),
            stops: AtomicBool::new(false),
            event: Event::new()?,
            pid: AtomicU32::new(0),
        })
    }

    /// Manager: hands the engine a worker. One that it has not taken is gone.
    pub fn hand_over(&self, worker: Numbered, pid: u32) {
        self.pid.store(pid, Ordering::Relaxed);
        self.is_coming.store(true, Ordering::Relaxed);
        self.worker.force_push(worker);
        self.call();
    }

    /// Manager: there is no worker for now.
    pub fn has_none(&self) {
        self.pid.store(0, Ordering::Relaxed);
        self.is_coming.store(false, Ordering::Relaxed);
        self.call();
    }

    /// Makes the engine look at queues that wait.
    fn call(&self) {
        if let Some(port) = self.chip.engines.get(self.engine as usize) {
            port.raise(attention::FENCE);
        }
    }

    /// Engine: takes the latest worker.
    pub fn take(&self) -> Option<Numbered> {
        self.worker.pop()
    }

    /// Engine: whether a worker is about to come.
    pub fn is_coming(&self) -> bool {
        self.is_coming.load(Ordering::Relaxed)
    }

    /// Engine: the worker with this number has ended, or does not answer. The manager may have seen it before, and the
    /// next one be here.
    pub fn lose(&self, number: u64) {
        self.is_coming.store(true, Ordering::Relaxed);
        self.lost.store(number, Ordering::Relaxed);
        self.event.signal();
    }

    /// Manager: whether the engine has given up the worker with this number.
    pub fn was_lost(&self, number: u64) -> bool {
        self.event.clear();
        self.lost.load(Ordering::Relaxed) >= number
    }

    /// Ends the manager.
    pub fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
        self.event.signal();
    }

    /// Manager: whether it is to end.
    pub fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// Manager: readable after `lose` and `stop`.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// The worker's process id, if there is a worker.
    pub fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    /// The chain's number of the engine.
    pub fn engine(&self) -> u32 {
        self.engine
    }
}
