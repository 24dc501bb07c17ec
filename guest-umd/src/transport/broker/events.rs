// SPDX-License-Identifier: MIT OR Apache-2.0

//! The pipe of events.

use super::channel::{again, failed, gone};
use crate::transport::TransportError;
use bellhop_protocol::event::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use std::os::fd::OwnedFd;
use std::time::Duration;
use zerocopy::{FromZeros as _, IntoBytes as _};

/// A program's end of it.
pub(super) struct Events(OwnedFd);

impl From<OwnedFd> for Events {
    fn from(pipe: OwnedFd) -> Self {
        Self(pipe)
    }
}

impl Events {
    /// Waits for the next event; `None` when the time is over.
    pub(super) fn next(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut pipe = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut pipe, timeout.as_ref()) {
            // An interrupted wait may return early.
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(TransportError::Io("poll", error.into())),
        }
        let mut event = Event::new_zeroed();
        let length = again(|| read(&self.0, event.as_mut_bytes()));
        match length.map_err(failed("cannot read the broker's events"))? {
            0 => Err(gone()),
            length if length == size_of::<Event>() => Ok(Some(event)),
            // The broker writes whole events.
            _ => Err(TransportError::Protocol("a piece of an event came from the broker".into())),
        }
    }

    /// Fails if the broker has closed it.
    pub(super) fn check(&self) -> Result<(), TransportError> {
        let mut pipe = [PollFd::new(&self.0, PollFlags::empty())];
        match poll(&mut pipe, Some(&Timespec::default())) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => Err(gone()),
            Err(error) => Err(TransportError::Io("poll", error.into())),
        }
    }
}
