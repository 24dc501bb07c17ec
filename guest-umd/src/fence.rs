//! Native fences, and waiting for them.

use crate::areas::{OUTSIDE, Word};
use crate::device::Device;
use crate::error::Error;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{
    CancelWait, CreateNativeFence, DestroyNativeFence, WaitForFence,
};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus};
use bellhop_protocol::status::Status;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Looks at the fence between two looks at anything else.
const LOOKS_PER_CLOCK: u32 = 256;

/// A native fence: a value that only grows, which packets signal and wait for and which the driver
/// polls or waits for.
pub struct Fence {
    device: Device,
    handle: Handle,
    slot: u32,
    /// None where the driver does not reach the area that it would be in.
    published: Option<Word>,
    kind: Kind,
}

enum Kind {
    /// Created by itself, destroyed when dropped.
    Own,
    /// The progress fence of a HW queue, or of a context that has none: comes and goes with it. Once
    /// that is lost it never moves again, or is always signaled.
    Progress { queue: Handle, status: Option<Word> },
}

impl Fence {
    /// CurrentValue of a fence that is always signaled, since what it belongs to is lost. It tells
    /// nothing of what was executed.
    pub const ALWAYS_SIGNALED: u64 = u64::MAX;

    pub(crate) fn create(device: Device, initial_value: u64) -> Result<Self, Error> {
        let request = CreateNativeFence { device: device.handle(), initial_value };
        let reply = device.session().call(&request)?;
        let published = published(&device, reply.current_value_offset);
        Ok(Self { device, handle: reply.fence, slot: reply.slot, published, kind: Kind::Own })
    }

    /// The progress fence of a HW queue, or of a context that submits to its node.
    pub(crate) fn progress(
        device: Device,
        queue: Handle,
        handle: Handle,
        slot: u32,
        offset: u64,
    ) -> Self {
        let published = published(&device, offset);
        Self { device, handle, slot, published, kind: Kind::Progress { queue, status: None } }
    }

    /// The queue got a doorbell, whose status tells when the queue is lost.
    pub(crate) fn watch_status(&mut self, word: &Word) {
        if let Kind::Progress { status, .. } = &mut self.kind {
            *status = Some(word.clone());
        }
    }

    /// The fence's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// The fence's slot, by which packets name it.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The published CurrentValue.
    ///
    /// # Errors
    /// When the driver does not reach it.
    #[inline]
    pub fn current_value(&self) -> Result<u64, Error> {
        Ok(self.word()?.load(Ordering::Acquire))
    }

    #[inline]
    fn word(&self) -> Result<&AtomicU64, Error> {
        match &self.published {
            Some(word) => word.get(),
            // Where the driver reaches areas at all, the device gave an offset that is in none.
            None => self.device.session().areas().and(Err(OUTSIDE)),
        }
    }

    /// Looks at the fence until it reaches `value`: the fastest way, which burns a core.
    ///
    /// # Errors
    /// When the time is over or the queue is lost whose fence it is.
    #[inline]
    pub fn poll(&self, value: u64, timeout: Duration) -> Result<(), Error> {
        let word = self.word()?;
        let mut deadline = None;
        loop {
            for _ in 0..LOOKS_PER_CLOCK {
                let current = word.load(Ordering::Acquire);
                if current >= value {
                    return self.reached(current);
                }
                std::hint::spin_loop();
            }
            self.check_queue()?;
            let now = Instant::now();
            if now >= *deadline.get_or_insert(now + timeout) {
                let current = word.load(Ordering::Acquire);
                return Err(Error::Timeout { value, current });
            }
        }
    }

    /// Waits until the fence reaches `value`, blocked: the device interrupts. Needs no published
    /// value.
    ///
    /// # Errors
    /// When the time is over or the queue is lost whose fence it is.
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<(), Error> {
        if let Ok(current) = self.current_value()
            && current >= value
        {
            return self.reached(current);
        }
        let session = self.device.session();
        let events = &session.link.events;
        let wait = events.begin_wait();
        let request = WaitForFence { fence: self.handle, value, cookie: wait.cookie() };
        if session.start(&request)? == Status::SUCCESS {
            return self.reached_unseen();
        }
        let queue = match &self.kind {
            Kind::Progress { queue, .. } => Some((session.process(), *queue)),
            Kind::Own => None,
        };
        let Err(error) = wait.finish(queue, timeout) else { return self.reached_unseen() };
        let cancel = CancelWait { fence: self.handle, cookie: request.cookie };
        match (error, session.call(&cancel)) {
            // There is nothing to cancel: the value was reached, and its event is on its way.
            (
                Error::Timeout { .. },
                Err(Error::Refused { status: Status::INVALID_PARAMETER, .. }),
            ) => self.reached_unseen(),
            // The fence went meanwhile, or its process did.
            (Error::Timeout { .. }, Err(gone @ Error::Refused { .. })) => Err(gone),
            (Error::Timeout { .. }, _) => {
                Err(Error::Timeout { value, current: self.current_value().unwrap_or_default() })
            }
            (error, _) => Err(error),
        }
    }

    /// The value was reached, though perhaps only because the fence is always signaled: the queue is lost
    /// then whose progress fence it is.
    #[inline]
    fn reached(&self, current: u64) -> Result<(), Error> {
        match (current, &self.kind) {
            (Self::ALWAYS_SIGNALED, Kind::Progress { queue, .. }) => self.lost(*queue),
            _ => Ok(()),
        }
    }

    /// The same where it is not known what CurrentValue is.
    fn reached_unseen(&self) -> Result<(), Error> {
        let Kind::Progress { queue, .. } = &self.kind else { return Ok(()) };
        match self.current_value() {
            Ok(current) => self.reached(current),
            // The driver does not reach it: what it was told by then must do.
            Err(_) => {
                let session = self.device.session();
                match session.link.events.known_fault(session.process(), *queue) {
                    Some(fault) => Err(Error::QueueLost { queue: *queue, fault: Some(fault) }),
                    None => Ok(()),
                }
            }
        }
    }

    #[cold]
    fn lost(&self, queue: Handle) -> Result<(), Error> {
        let session = self.device.session();
        let fault = session.link.events.fault(session.process(), queue);
        Err(Error::QueueLost { queue, fault })
    }

    /// An error when the queue is lost whose progress fence this is.
    fn check_queue(&self) -> Result<(), Error> {
        let Kind::Progress { queue, status: Some(word) } = &self.kind else {
            return Ok(());
        };
        let status = DoorbellStatus(word.get()?.load(Ordering::Acquire));
        if status.connection() != ConnectionStatus::DISCONNECTED_ABORT {
            return Ok(());
        }
        self.lost(*queue)
    }
}

/// The word at the offset that the device gave for a fence's published value.
fn published(device: &Device, offset: u64) -> Option<Word> {
    device.session().areas().ok()?.word(offset).ok()
}

impl Drop for Fence {
    fn drop(&mut self) {
        if let Kind::Own = self.kind {
            // A device that cannot be reached has forgotten it already.
            let _ = self.device.session().call(&DestroyNativeFence { fence: self.handle });
        }
    }
}
