// SPDX-License-Identifier: MIT OR Apache-2.0

//! An eventfd.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An event that one thread polls and other threads signal.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// An unsignaled event.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Signals.
    #[expect(clippy::disallowed_methods, reason = "does not wait: the event is non-blocking")]
    pub fn signal(&self) {
        // Fails only after 2^64 - 2 uncleared signals.
        if let Err(error) = write(&self.0, &1u64.to_ne_bytes()) {
            tracing::error!(%error, "cannot signal an eventfd");
        }
    }

    /// Clears the signal, if there is one.
    #[expect(clippy::disallowed_methods, reason = "does not wait: the event is non-blocking")]
    pub fn clear(&self) {
        let mut count = [0; size_of::<u64>()];
        loop {
            match read(&self.0, &mut count) {
                Err(Errno::INTR) => {}
                Ok(_) | Err(Errno::AGAIN) => return,
                Err(error) => {
                    tracing::error!(%error, "cannot clear an eventfd");
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
