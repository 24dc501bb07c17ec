// SPDX-License-Identifier: MIT OR Apache-2.0

//! The threads of a worker, which exist from its start on: none can be made in the sandbox.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread::{Builder, available_parallelism};

type Errand = Box<dyn FnOnce() + Send>;

/// Threads that wait for something to do.
pub(super) struct Hands {
    count: usize,
    errands: Sender<Errand>,
    waiting: Arc<Mutex<Receiver<Errand>>>,
}

impl Default for Hands {
    fn default() -> Self {
        let (errands, waiting) = channel();
        // As many as an honest worker has, and two at least.
        let count = available_parallelism().map_or(2, |all| all.get().max(2));
        Self { count, errands, waiting: Arc::new(Mutex::new(waiting)) }
    }
}

impl Hands {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Starts them, and another thread for `task`. All are there when this returns: a thread that begins in the sandbox
    /// would fail.
    pub(super) fn start(&self, task: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let there = Arc::new(Barrier::new(self.count + 2));
        let spawn = |work: Errand| {
            let there = Arc::clone(&there);
            Builder::new().spawn(move || {
                there.wait();
                work();
            })
        };
        spawn(Box::new(task))?;
        for _ in 0..self.count {
            let waiting = Arc::clone(&self.waiting);
            let next = move || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            spawn(Box::new(move || {
                while let Ok(errand) = next() {
                    errand();
                }
            }))?;
        }
        there.wait();
        Ok(())
    }

    /// Has one of them do this, once it has nothing else to do.
    pub(super) fn give(&self, errand: impl FnOnce() + Send + 'static) {
        // They wait for as long as this is there.
        let _ = self.errands.send(Box::new(errand));
    }

    /// Has all of them do this.
    pub(super) fn give_all(&self, errand: impl Fn() + Clone + Send + 'static) {
        (0..self.count).for_each(|_| self.give(errand.clone()));
    }
}
