// SPDX-License-Identifier: MIT OR Apache-2.0

//! Waiting for a descriptor, with a deadline.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::{self, Errno};
use std::time::Instant;

/// Waits until a descriptor is readable or closed at its other end. Returns `false` if the deadline passes first.
///
/// # Errors
/// When the kernel refuses, or the deadline is too far away for it.
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
