// SPDX-License-Identifier: MIT OR Apache-2.0

//! Waiting for a descriptor: with a deadline, and by looking before sleeping.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::{self, Errno};
use rustix::thread::sched_yield;
use std::time::{Duration, Instant};

/// Waits until a descriptor is readable or closed at its other end. Returns `false` if the deadline passes first.
///
/// # Errors
/// When the kernel refuses, or the deadline is too far away for it.
#[expect(clippy::disallowed_methods, reason = "until the caller's deadline")]
pub fn is_readable(descriptor: impl AsFd, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            result => return Ok(result? > 0),
        }
    }
}

/// Waits for the same thing again and again. To be woken takes longer than to look, where the thing takes microseconds.
/// So a thread looks for a moment before it sleeps, as long as that would have been enough the last time. Before each
/// look it yields its processor, which the awaited thread may need.
#[derive(Debug)]
pub struct Looking {
    /// For how long a thread looks from the beginning of a wait on.
    limit: Duration,
    /// When the wait began, if one did.
    began: Option<Instant>,
    /// Whether the last wait was shorter than the limit.
    pays: bool,
}

impl Looking {
    /// Looks for so long.
    pub fn new(limit: Duration) -> Self {
        Self { limit, began: None, pays: true }
    }

    /// A wait begins.
    pub fn begin(&mut self) {
        self.began = Some(Instant::now());
    }

    /// The wait is over.
    pub fn end(&mut self) {
        if let Some(began) = self.began.take() {
            self.pays = began.elapsed() < self.limit;
        }
    }

    /// Looks until there is something. Returns `None` when looking does not pay, or no longer.
    ///
    /// # Errors
    /// The error of a look; `AGAIN` means that there is nothing yet.
    pub fn look<T>(&self, mut look: impl FnMut() -> io::Result<T>) -> io::Result<Option<T>> {
        let Some(began) = self.began.filter(|_| self.pays) else { return Ok(None) };
        while began.elapsed() < self.limit {
            sched_yield();
            match look() {
                Err(Errno::AGAIN) => {}
                result => return result.map(Some),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// The number of the look that finds something; `None` if there are no more.
    fn found(looking: &Looking) -> Option<u32> {
        let mut looks = 0;
        let look = || {
            looks += 1;
            if looks < 3 { Err(Errno::AGAIN) } else { Ok(looks) }
        };
        looking.look(look).unwrap()
    }

    #[test]
    fn a_thread_looks_as_long_as_its_last_wait_was_short() {
        let mut looking = Looking::new(LONG);
        for _ in 0..3 {
            // No wait has begun.
            assert_eq!(found(&looking), None);
            looking.begin();
            assert_eq!(found(&looking), Some(3));
            looking.end();
        }
        // Every wait is too long for this.
        let looking = Looking { limit: Duration::ZERO, ..looking };
        assert!(looking.pays);
        let mut looking = Looking { began: Some(Instant::now()), ..looking };
        looking.end();
        let mut looking = Looking { limit: LONG, ..looking };
        looking.begin();
        assert_eq!(found(&looking), None);
        // It was short after all, so the next wait begins with looks again.
        looking.end();
        looking.begin();
        assert_eq!(found(&looking), Some(3));
    }

    #[test]
    fn an_error_ends_a_look() {
        let mut looking = Looking::new(LONG);
        looking.begin();
        assert_eq!(looking.look(|| Err::<(), _>(Errno::PIPE)), Err(Errno::PIPE));
    }
}
