// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbells: rings, the physical doorbells that watch them, and the status that a guest reads.

use super::{GuestId, HwQueueId, PhysicalDoorbell, SocketId, UnknownId};
use bellhop_protocol::doorbell::ConnectionStatus;

/// Where the ring of a HW queue for user-mode submission is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingBinding {
    /// The guest's logical doorbell: an index into the BAR's doorbell, progress and status areas.
    pub slot: u32,
    /// GPU virtual address of the ring buffer in the queue's address space.
    pub ring_va: u64,
    /// Size of the ring buffer in bytes; valid per [`bellhop_protocol::ring`].
    pub ring_size: u64,
    /// GPU virtual address of the ring buffer control.
    pub control_va: u64,
    /// Whether the doorbell is `CONNECTED_NOTIFY` all the time while connected: the engine does not change the status
    /// as it falls asleep and wakes.
    pub notify_each: bool,
    /// Whether the guest copies packets into the doorbell's line.
    pub has_line: bool,
}

/// Progress of rotating a doorbell's page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RotationProgress {
    /// The page is mapped already.
    #[default]
    Done,
    /// The page is not mapped yet; an interrupt tells when it is:
    /// [`Interrupt::DoorbellRotated`](super::Interrupt::DoorbellRotated).
    Pending,
}

/// How rotating a doorbell's page to a physical doorbell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationOutcome {
    /// The page is mapped. For a while rings may still miss it.
    Shown,
    /// Rings no longer miss it.
    Settled,
    /// The VMM did not map the page.
    Refused,
}

/// Doorbells of HW queues.
pub trait Doorbells {
    /// The share of the physical doorbells that the guests of a guest's socket have together, which guests of other
    /// sockets do not take from them.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
    fn doorbell_share(&self, guest: GuestId) -> Result<u32, UnknownId>;

    /// The socket that a guest came by.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
    fn socket(&self, guest: GuestId) -> Result<SocketId, UnknownId>;

    /// When the queue's doorbell was last used, by [`Self::watch`] or by a ring that an engine saw: a greater number
    /// is later. The order of rings that two engines saw is known only if a call of [`Self::watch`] came between
    /// them.
    ///
    /// # Errors
    /// Fails for a queue that does not exist.
    fn last_use(&self, queue: HwQueueId) -> Result<u64, UnknownId>;

    /// Gives a HW queue its ring. The last-queued value and, in the dedicated model, the doorbell word become 0; the
    /// status becomes `DISCONNECTED_RETRY`.
    ///
    /// # Errors
    /// Fails for a queue that does not exist, or a doorbell slot that its guest does not have.
    fn bind_ring(&self, queue: HwQueueId, ring: RingBinding) -> Result<(), UnknownId>;

    /// Takes the ring away. The doorbell must be disconnected.
    ///
    /// # Errors
    /// Fails for a queue that does not exist.
    fn unbind_ring(&self, queue: HwQueueId) -> Result<(), UnknownId>;

    /// Makes a physical doorbell watch the page of the queue's logical doorbell.
    ///
    /// # Errors
    /// Fails for a queue or a physical doorbell that does not exist.
    fn watch(&self, doorbell: PhysicalDoorbell, queue: HwQueueId) -> Result<(), UnknownId>;

    /// Makes a physical doorbell watch nothing.
    ///
    /// # Errors
    /// Fails for a physical doorbell that does not exist.
    fn unwatch(&self, doorbell: PhysicalDoorbell) -> Result<(), UnknownId>;

    /// In the global model: makes engines look at this queue's ring, too, when the guest's one doorbell rings.
    ///
    /// # Errors
    /// Fails for a queue that does not exist.
    fn watch_global(&self, queue: HwQueueId) -> Result<(), UnknownId>;

    /// In the global model: undoes [`Self::watch_global`].
    ///
    /// # Errors
    /// Fails for a queue that is not watched.
    fn unwatch_global(&self, queue: HwQueueId) -> Result<(), UnknownId>;
}

/// The pages of doorbells, as guests see them.
pub trait DoorbellPages {
    /// `HwQueueProgressFenceLastQueuedValue`, as the guest wrote it.
    ///
    /// # Errors
    /// Fails for a queue that does not exist.
    fn last_queued_value(&self, queue: HwQueueId) -> Result<u64, UnknownId>;

    /// Makes the page of the queue's logical doorbell show the physical one that watches it, if pages are rotated at
    /// all. Does not wait for the VMM.
    ///
    /// # Errors
    /// Fails for a queue that does not exist.
    fn rotate_to_physical(&self, _queue: HwQueueId) -> Result<RotationProgress, UnknownId> {
        Ok(RotationProgress::Done)
    }

    /// Makes the page show the dummy page. No interrupt tells when it does. Until then, and for a while after, an
    /// engine sees of stores to the old page only that there were some.
    ///
    /// # Errors
    /// Fails for a queue that does not exist.
    fn rotate_to_dummy(&self, _queue: HwQueueId) -> Result<(), UnknownId> {
        Ok(())
    }

    /// Publishes a connected status for the queue's doorbell.
    ///
    /// # Errors
    /// Fails for a queue that does not exist, or has no ring.
    fn publish_connected(
        &self,
        queue: HwQueueId,
        status: ConnectionStatus,
    ) -> Result<(), UnknownId>;

    /// Publishes a disconnected status for the queue's doorbell; a full fence follows the store.
    ///
    /// # Errors
    /// Fails for a queue that does not exist, or has no ring.
    fn publish_disconnected(
        &self,
        queue: HwQueueId,
        reason: ConnectionStatus,
    ) -> Result<(), UnknownId>;
}
