//! An eventfd.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Something that one thread waits for and others signal.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// An event whose [`Self::wait`] blocks until it is signaled.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn blocking() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC)?))
    }

    /// An event to poll for.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn pollable() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Signals.
    pub fn signal(&self) {
        // Fails only when 2^64 - 2 signals were not waited for.
        if let Err(error) = write(&self.0, &1u64.to_ne_bytes()) {
            tracing::error!(%error, "an eventfd was not signaled");
        }
    }

    /// Waits for a signal, but no longer than `limit`; false when none came. Does not clear it.
    pub fn wait_for(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // A time that does not fit is as good as none.
            let left = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], left.as_ref()) {
                Ok(0) => return false,
                Err(Errno::INTR) => {}
                Ok(_) => return true,
                Err(error) => {
                    tracing::error!(%error, "an eventfd was not polled");
                    return true;
                }
            }
        }
    }

    /// Waits for a signal, or takes the one there is, and clears it.
    pub fn wait(&self) {
        let mut count = [0; size_of::<u64>()];
        loop {
            match read(&self.0, &mut count) {
                Err(Errno::INTR) => {}
                Ok(_) | Err(Errno::AGAIN) => return,
                Err(error) => {
                    tracing::error!(%error, "an eventfd was not waited for");
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
