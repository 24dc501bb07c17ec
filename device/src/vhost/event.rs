// SPDX-License-Identifier: MIT OR Apache-2.0

//! The eventfds of a front end: kicks, calls and errors.

use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The kernel's name for an eventfd.
const NAME: &[u8] = b"anon_inode:[eventfd]";
/// The offset for `preadv2` on a file without offsets.
const NO_OFFSET: u64 = u64::MAX;

/// A front end's descriptor that was verified to be an eventfd. A write to any other descriptor could block, and a
/// socket could keep its own connection open.
#[derive(Debug)]
pub struct FrontEndEvent(OwnedFd);

/// A descriptor that is not an eventfd.
#[derive(Debug, thiserror::Error)]
pub enum NotAnEvent {
    /// The descriptor is not an eventfd.
    #[error("the descriptor is {0}; pass an eventfd")]
    SomethingElse(String),
    /// The kernel does not reveal what the descriptor is.
    #[error("cannot read /proc/self/fd to learn what the descriptor is: {0}")]
    Unknown(#[source] io::Error),
}

impl FrontEndEvent {
    /// Takes ownership of a descriptor.
    ///
    /// # Errors
    /// See [`NotAnEvent`]; the descriptor is then closed.
    #[expect(
        clippy::disallowed_methods,
        reason = "the guest's own thread: a link of the kernel in memory"
    )]
    pub fn new(file: File) -> Result<Self, NotAnEvent> {
        let place = format!("/proc/self/fd/{}", file.as_raw_fd());
        let name = std::fs::read_link(place).map_err(NotAnEvent::Unknown)?;
        if name.as_os_str().as_encoded_bytes() != NAME {
            return Err(NotAnEvent::SomethingElse(name.display().to_string()));
        }
        Ok(Self(file.into()))
    }

    /// Resets the counter to 0, or decrements it if the front end made the eventfd a semaphore. Never waits, even
    /// if the front end read the counter first.
    ///
    /// # Errors
    /// If the kernel cannot read an eventfd without waiting, as before version 5.8.
    #[expect(clippy::disallowed_methods, reason = "does not wait: it says so (`NOWAIT`)")]
    pub fn take(&self) -> io::Result<()> {
        let mut count = [0; size_of::<u64>()];
        let mut count = [IoSliceMut::new(&mut count)];
        match preadv2(&self.0, &mut count, NO_OFFSET, ReadWriteFlags::NOWAIT) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for FrontEndEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::unix::net::UnixStream;

    #[test]
    fn nothing_but_an_eventfd_is_one() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let (socket, _other) = UnixStream::pair().unwrap();
        let others: [OwnedFd; 3] =
            [reader.into(), socket.into(), tempfile::tempfile().unwrap().into()];
        for other in others {
            let error = FrontEndEvent::new(other.into()).unwrap_err();
            assert!(matches!(error, NotAnEvent::SomethingElse(_)), "{error}");
        }
        assert!(FrontEndEvent::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap().into()).is_ok());
    }

    #[test]
    fn taking_what_is_not_there_does_not_wait() {
        let event = eventfd(2, EventfdFlags::CLOEXEC).unwrap();
        let taken = FrontEndEvent::new(event.try_clone().unwrap().into()).unwrap();
        taken.take().unwrap();
        taken.take().unwrap();
        rustix::io::write(&event, &1u64.to_ne_bytes()).unwrap();
        taken.take().unwrap();
        taken.take().unwrap();
    }
}
