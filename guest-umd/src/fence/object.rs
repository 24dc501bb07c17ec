// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fence itself: its values, and the loss of the queue that owns it.

use crate::device::Device;
use crate::error::Error;
use crate::link::areas::OUTSIDE;
use crate::link::words::Word;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{
    DestroyNativeFence, NOT_PUBLISHED, NativeFenceMapping, OpenedFence,
};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus};
use bellhop_protocol::handoff::publication;
use std::sync::atomic::AtomicU64;

/// A fence: a 64-bit value that only grows, unless the fence is rewindable.
///
/// Packets and CPUs signal it; a CPU polls it ([`Self::poll`]) or blocks until it is reached ([`Self::wait`]).
/// Packets wait for a native fence themselves. For a monitored fence, the host holds a queue for kernel-mode
/// submission until the fence is reached.
///
/// Source: native GPU fence object.
pub struct Fence {
    device: Device,
    handle: Handle,
    slot: u32,
    mapping: NativeFenceMapping,
    /// `None` if the driver cannot access the area that holds the published value.
    published: Option<Word>,
    kind: Kind,
}

enum Kind {
    /// Created or opened by a program; destroyed on drop.
    Own,
    /// The progress fence of a HW queue, or of a context without HW queues, with its owner's lifetime. Once the
    /// queue is lost, the fence never moves again, or is always signaled.
    Progress { queue: Handle, status: Option<Word> },
}

impl Fence {
    /// CurrentValue of the progress fence of a lost queue after the host released every wait for it. The value says
    /// nothing about what was executed.
    ///
    /// Source: native GPU fence object, "AlwaysSignaled".
    pub const ALWAYS_SIGNALED: u64 = u64::MAX;

    /// A fence that was created or opened on its own.
    pub(super) fn own(device: Device, opened: OpenedFence) -> Self {
        Self::new(device, opened, Kind::Own)
    }

    /// The progress fence of a HW queue, or of a context that submits to its node.
    pub(crate) fn progress(device: Device, queue: Handle, opened: OpenedFence) -> Self {
        Self::new(device, opened, Kind::Progress { queue, status: None })
    }

    fn new(device: Device, opened: OpenedFence, kind: Kind) -> Self {
        let OpenedFence { fence, mapping, slot, .. } = opened;
        let published = published(&device, mapping.current_value_offset);
        Self { device, handle: fence, slot, mapping, published, kind }
    }

    /// Another view of the progress fence of a HW queue, with the status of its doorbell.
    pub(crate) fn another(&self, queue: Handle, status: &Word) -> Self {
        Self {
            device: self.device.clone(),
            handle: self.handle,
            slot: self.slot,
            mapping: self.mapping,
            published: self.published.clone(),
            kind: Kind::Progress { queue, status: Some(status.clone()) },
        }
    }

    /// Watches the status of the queue's doorbell, which reveals the loss of the queue.
    pub(crate) fn watch_status(&mut self, word: &Word) {
        if let Kind::Progress { status, .. } = &mut self.kind {
            *status = Some(word.clone());
        }
    }

    /// The device that the fence was created or opened on.
    pub(super) fn device(&self) -> &Device {
        &self.device
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

    /// Names the fence for people, as [`Device::set_name`](crate::Device::set_name) names a device.
    ///
    /// # Errors
    /// As [`Device::set_name`](crate::Device::set_name).
    pub fn set_name(&self, name: &str) -> Result<(), Error> {
        self.device.session().set_name(self.handle, name)
    }

    /// The places of the fence's values. Packets may read both by GPU virtual address, and write CurrentValue.
    #[must_use]
    pub fn mapping(&self) -> NativeFenceMapping {
        self.mapping
    }

    /// The published CurrentValue, read from memory.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] if no CPU of this process can read the value: of an intra-GPU fence, of another program's where
    /// a broker keeps programs apart, or if driver and device share no memory. [`Self::wait`] works for all of them.
    #[inline]
    pub fn current_value(&self) -> Result<u64, Error> {
        Ok(publication::read(self.word()?))
    }

    #[inline]
    pub(super) fn word(&self) -> Result<&AtomicU64, Error> {
        match &self.published {
            Some(word) => Ok(word.get()),
            None if self.mapping.current_value_offset == NOT_PUBLISHED
                && self.queue().is_none() =>
            {
                Err(Error::NotAvailable(
                    "a CPU's view of an intra-GPU fence, or of another program's",
                ))
            }
            // If the driver can access areas at all, the device gave an offset outside all of them.
            None => self.device.session().areas().and(Err(OUTSIDE)),
        }
    }

    pub(super) fn has_reached(&self, value: u64) -> bool {
        self.current_value().is_ok_and(|current| current >= value)
    }

    /// Succeeds unless the value was reached only because the queue that owns this fence, or its process, was lost.
    #[inline]
    pub(super) fn reached(&self, current: u64) -> Result<(), Error> {
        if current == Self::ALWAYS_SIGNALED { self.check_owner() } else { Ok(()) }
    }

    /// The queue that owns this progress fence.
    pub(super) fn queue(&self) -> Option<Handle> {
        match &self.kind {
            Kind::Progress { queue, .. } => Some(*queue),
            Kind::Own => None,
        }
    }

    /// Fails if this fence, which is always signaled, is so because its owner was lost. Any process may have signaled a fence
    /// that no queue owns with that value; the end of its own process does, and may be seen here before the end of the
    /// connection.
    #[cold]
    fn check_owner(&self) -> Result<(), Error> {
        match self.kind {
            Kind::Progress { queue, .. } => self.lost(queue),
            Kind::Own => self.device.session().check_process(),
        }
    }

    #[cold]
    fn lost(&self, queue: Handle) -> Result<(), Error> {
        let session = self.device.session();
        Err(session.link.queue_lost(session.process(), queue))
    }

    /// Fails if the device is gone or was replaced.
    #[cold]
    pub(super) fn check_device(&self) -> Result<(), Error> {
        Ok(self.device.session().link.transport.check()?)
    }

    /// Fails if the queue that owns this progress fence was lost.
    pub(super) fn check_queue(&self) -> Result<(), Error> {
        let Kind::Progress { queue, status: Some(word) } = &self.kind else {
            return Ok(());
        };
        let status = DoorbellStatus(publication::read(word.get()));
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
            // An unreachable device has already forgotten it.
            let _ = self.device.session().call(&DestroyNativeFence { fence: self.handle });
        }
    }
}
