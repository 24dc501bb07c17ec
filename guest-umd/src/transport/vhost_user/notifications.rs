// SPDX-License-Identifier: MIT OR Apache-2.0

//! Eventfds for one virtqueue.

use crate::transport::{Notifications, Polling, TransportError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

/// How a device notifies its guest.
#[derive(Debug, Clone, Copy)]
pub struct Manners {
    /// Whether the device can interrupt, that is, gets the call.
    pub has_interrupts: bool,
    /// Whether the end of the connection ends all waits.
    pub tells_of_ends: bool,
}

/// The kick and the call of a virtqueue, and the connection whose end may end all waits.
pub struct EventFds {
    manners: Manners,
    kick: EventFd,
    call: EventFd,
    /// Polling, in place of the call, if the device cannot interrupt.
    polling: Polling,
    socket: Mutex<Arc<UnixStream>>,
}

impl EventFds {
    /// The notifications of a queue behind this connection.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new(socket: &UnixStream, manners: Manners) -> Result<Self, TransportError> {
        let event = || {
            EventFd::new(EFD_CLOEXEC | EFD_NONBLOCK)
                .map_err(|error| TransportError::Io("eventfd", error))
        };
        let (kick, call, polling) = (event()?, event()?, Polling::default());
        Ok(Self { manners, kick, call, polling, socket: Mutex::new(share(socket)?) })
    }

    /// Ends waits when this connection ends.
    ///
    /// # Errors
    /// If there are no descriptors left.
    #[cfg(feature = "raw")]
    pub fn watch(&self, socket: &UnixStream) -> Result<(), TransportError> {
        *self.socket() = share(socket)?;
        Ok(())
    }

    /// Locks the connection. No code panics while it holds the lock, so it is whole.
    fn socket(&self) -> MutexGuard<'_, Arc<UnixStream>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if the connection has ended, where the guest learns of that.
    ///
    /// # Errors
    /// [`TransportError::Disconnected`].
    pub fn check(&self) -> Result<(), TransportError> {
        if !self.manners.tells_of_ends {
            return Ok(());
        }
        let socket = Arc::clone(&self.socket());
        let mut descriptors = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::RDHUP)];
        match poll(&mut descriptors, Some(&Timespec::default())) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => Err(hung_up()),
            Err(error) => Err(TransportError::Io("poll", error.into())),
        }
    }

    /// What the driver signals.
    #[must_use]
    pub fn kick_fd(&self) -> &EventFd {
        &self.kick
    }

    /// What the device signals.
    #[must_use]
    pub fn call_fd(&self) -> &EventFd {
        &self.call
    }

    /// What the device signals, to wait for.
    pub(super) fn call(&self) -> BorrowedFd<'_> {
        borrow(&self.call)
    }
}

fn share(socket: &UnixStream) -> Result<Arc<UnixStream>, TransportError> {
    let socket = socket.try_clone().map_err(|error| TransportError::Io("the connection", error))?;
    Ok(Arc::new(socket))
}

fn hung_up() -> TransportError {
    TransportError::Disconnected("it closed the connection".into())
}

fn borrow(event: &EventFd) -> BorrowedFd<'_> {
    // SAFETY: the descriptor is open as long as the `EventFd` lives, to which the returned lifetime is
    // bound; `EventFd` itself offers only the raw number.
    #[expect(unsafe_code, reason = "EventFd does not implement AsFd")]
    unsafe {
        BorrowedFd::borrow_raw(event.as_raw_fd())
    }
}

impl Notifications for EventFds {
    fn kick(&self) -> Result<(), TransportError> {
        self.kick.write(1).map_err(|error| TransportError::Io("kick", error))
    }

    fn wake(&self) -> Result<(), TransportError> {
        self.polling.wake();
        self.call.write(1).map_err(|error| TransportError::Io("eventfd", error))
    }

    fn wait(
        &self,
        timeout: Option<Duration>,
        has_come: &dyn Fn() -> bool,
    ) -> Result<bool, TransportError> {
        if !self.manners.has_interrupts {
            let come = self.polling.wait(timeout, || has_come() || self.check().is_err());
            // Replies come first: the device may have answered before the connection ended.
            return if come && !has_come() { self.check().map(|()| true) } else { Ok(come) };
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let socket = Arc::clone(&self.socket());
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let timespec = left.map(|left| Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            });
            let mut descriptors = [
                PollFd::from_borrowed_fd(borrow(&self.call), PollFlags::IN),
                PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::RDHUP),
            ];
            match poll(&mut descriptors, timespec.as_ref()) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(TransportError::Io("poll", error.into())),
            }
            let is_hung_up = self.manners.tells_of_ends && !descriptors[1].revents().is_empty();
            match self.call.read() {
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(TransportError::Io("eventfd", error)),
            }
            if is_hung_up {
                return Err(hung_up());
            }
        }
    }
}
