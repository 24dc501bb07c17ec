// SPDX-License-Identifier: MIT OR Apache-2.0

//! One interrupt for all queues, and the threads that wait for each.
//!
//! A thread that waits for a queue also waits for the interrupt. The interrupt does not identify its queue, so the
//! thread that takes it wakes the waiters of every queue. If the device has no interrupt, each waiter polls its
//! queue.

use super::TransportError;
use super::access::Access;
use super::address::Attachment;
use super::registers::Registers;
use crate::transport::{Notifications, Polling};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `VIRTIO_MSI_NO_VECTOR`.
pub(super) const NO_VECTOR: u16 = 0xffff;

/// The device's interrupt.
pub(super) struct Interrupts {
    access: Access,
    status: Registers,
    queues: Box<[Waiters]>,
}

/// The waiters of one queue.
struct Waiters {
    /// Readable when the device may have returned something.
    told: OwnedFd,
    /// Used for waiting if the device has no interrupt.
    polling: Polling,
}

impl Interrupts {
    pub(super) fn new(
        access: Access,
        status: Registers,
        queues: usize,
    ) -> Result<Arc<Self>, TransportError> {
        let waiters = |_| {
            let told = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io)?;
            Ok(Waiters { told, polling: Polling::default() })
        };
        let queues = (0..queues).map(waiters).collect::<Result<_, TransportError>>()?;
        Ok(Arc::new(Self { access, status, queues }))
    }

    /// Returns whether the device interrupts.
    pub(super) fn come(&self) -> bool {
        self.access.interrupt().is_some()
    }

    /// What the interrupt makes readable for whoever watches it: VFIO's eventfd.
    pub(super) fn shared(&self) -> Option<BorrowedFd<'_>> {
        match self.access.attachment() {
            Attachment::Vfio => self.access.interrupt(),
            Attachment::Uio => None,
        }
    }

    /// The MSI-X vector of the queues.
    pub(super) fn vector(&self) -> u16 {
        match self.access.attachment() {
            Attachment::Vfio => 0,
            Attachment::Uio => NO_VECTOR,
        }
    }

    fn queue(&self, queue: u16) -> Result<&Waiters, TransportError> {
        let missing = || TransportError::Protocol(format!("there is no queue {queue}"));
        self.queues.get(usize::from(queue)).ok_or_else(missing)
    }

    fn tell(&self, queue: &Waiters) -> Result<(), TransportError> {
        queue.polling.wake();
        match write(&queue.told, &1u64.to_ne_bytes()) {
            // The eventfd is full, so the waiters will wake.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(io(error)),
        }
    }

    fn distribute(&self) -> Result<(), TransportError> {
        let read_status = || self.status.read::<u8>(0).map(|_| ());
        // Another waiter may have taken the interrupt meanwhile, and then wakes this one.
        if self.access.take_interrupt(read_status)? {
            for queue in &self.queues {
                self.tell(queue)?;
            }
        }
        Ok(())
    }

    fn wait(
        &self,
        queue: u16,
        timeout: Option<Duration>,
        has_come: &dyn Fn() -> bool,
    ) -> Result<bool, TransportError> {
        let queue = self.queue(queue)?;
        match self.access.interrupt() {
            Some(interrupt) => self.wait_for_interrupt(&queue.told, interrupt, timeout),
            None => Ok(queue.polling.wait(timeout, has_come)),
        }
    }

    fn wait_for_interrupt(
        &self,
        queue: &OwnedFd,
        interrupt: BorrowedFd<'_>,
        timeout: Option<Duration>,
    ) -> Result<bool, TransportError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            match read(queue, &mut [0; 8]) {
                Ok(_) => return Ok(true),
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(io(error)),
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let timespec = left.map(|left| Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            });
            let mut descriptors = [
                PollFd::from_borrowed_fd(queue.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(interrupt, PollFlags::IN),
            ];
            match poll(&mut descriptors, timespec.as_ref()) {
                Ok(0) => return Ok(false),
                Ok(_) if !descriptors[1].revents().is_empty() => self.distribute()?,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(io(error)),
            }
        }
    }
}

fn io(error: Errno) -> TransportError {
    TransportError::Io("cannot wait for an interrupt", error.into())
}

/// The notifications of one queue.
pub(super) struct QueueNotifications {
    interrupts: Arc<Interrupts>,
    notify: Arc<Registers>,
    offset: usize,
    queue: u16,
}

impl QueueNotifications {
    /// The notifications of the queue at `offset` of the notification structure.
    pub(super) fn new(
        interrupts: &Arc<Interrupts>,
        notify: &Arc<Registers>,
        offset: usize,
        queue: u16,
    ) -> Result<Self, TransportError> {
        interrupts.queue(queue)?;
        let (interrupts, notify) = (Arc::clone(interrupts), Arc::clone(notify));
        Ok(Self { interrupts, notify, offset, queue })
    }
}

impl Notifications for QueueNotifications {
    fn kick(&self) -> Result<(), TransportError> {
        self.notify.write(self.offset, self.queue)
    }

    fn wait(
        &self,
        timeout: Option<Duration>,
        has_come: &dyn Fn() -> bool,
    ) -> Result<bool, TransportError> {
        self.interrupts.wait(self.queue, timeout, has_come)
    }

    fn wake(&self) -> Result<(), TransportError> {
        self.interrupts.tell(self.interrupts.queue(self.queue)?)
    }
}
