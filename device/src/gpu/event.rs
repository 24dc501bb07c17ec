//! An eventfd.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Something that one thread polls for and others signal.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// An event that nobody has signaled.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Signals.
    pub fn signal(&self) {
        // Fails only when 2^64 - 2 signals were not waited for.
        if let Err(error) = write(&self.0, &1u64.to_ne_bytes()) {
            tracing::error!(%error, "an eventfd was not signaled");
        }
    }

    /// Takes the signal that there is, if any, and clears it.
    pub fn clear(&self) {
        let mut count = [0; size_of::<u64>()];
        loop {
            match read(&self.0, &mut count) {
                Err(Errno::INTR) => {}
                Ok(_) | Err(Errno::AGAIN) => return,
                Err(error) => {
                    tracing::error!(%error, "an eventfd was not cleared");
                    return;
                }
            }
        }
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
