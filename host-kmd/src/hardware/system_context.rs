// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' system contexts, in which paging buffers are executed.

use super::{AddressSpaceId, GuestId, HardwareError, HwQueueId, UnknownId};

/// A guest's system context: what paging buffers are executed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemContext {
    /// Its address space, which is no process's. What lies where: [`crate::ddi::paging`].
    pub address_space: AddressSpaceId,
    /// Its queue. It takes paging buffers only, comes before all other queues of its guest on its engine,
    /// takes its guest's time, and is destroyed as they are.
    pub hw_queue: HwQueueId,
    /// The queue's node.
    pub node: u32,
}

/// Guests' system contexts.
pub trait SystemContexts {
    /// Makes a guest's system context. The segments [`Segment::Local`](super::Segment::Local) and
    /// [`Segment::Private`](super::Segment::Private) are mapped in it whole, the aperture and the paging process's
    /// GPU VA space are empty.
    ///
    /// # Errors
    /// When there is no page-table memory left.
    /// For a guest that does not exist.
    fn create_system_context(&self, guest: GuestId) -> Result<SystemContext, HardwareError>;

    /// Queues packets in a guest's system context, which executes them after what was queued before.
    /// `fence` is greater than any before; an interrupt tells when it is reached.
    ///
    /// # Errors
    /// When too much is queued already.
    /// For a guest without a system context.
    fn submit_paging(
        &self,
        guest: GuestId,
        packets: &[u8],
        fence: u64,
    ) -> Result<(), HardwareError>;

    /// Gives up the paging buffer that was queued with `fence`, if the guest's system context has begun it and is not
    /// done: [`Interrupt::PagingFaulted`](super::Interrupt::PagingFaulted) with `ENGINE_TIMEOUT` follows. And puts
    /// the system context's queue back on its engine's run list, from which it was taken by
    /// [`Queues::preempt_hw_queue`](super::Queues::preempt_hw_queue).
    ///
    /// # Errors
    /// For a guest without a system context.
    fn abandon_paging(&self, guest: GuestId, fence: u64) -> Result<(), UnknownId>;
}
