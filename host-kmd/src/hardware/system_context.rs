// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' system contexts, which execute paging buffers.

use super::{AddressSpaceId, GuestId, HardwareError, HwQueueId, UnknownId};

/// A guest's system context, which executes paging buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemContext {
    /// Its address space, which belongs to no process. Layout: [`crate::ddi::paging`].
    pub address_space: AddressSpaceId,
    /// Its queue. It takes only paging buffers, comes before all other queues of its guest on its engine, uses its
    /// guest's time, and is destroyed like them.
    pub hw_queue: HwQueueId,
    /// The queue's node.
    pub node: u32,
}

/// Guests' system contexts.
pub trait SystemContexts {
    /// Creates a guest's system context. It maps the segments [`Segment::Local`](super::Segment::Local) and
    /// [`Segment::Private`](super::Segment::Private) whole; the aperture and the paging process's GPU VA space are
    /// empty.
    ///
    /// # Errors
    /// Fails if no page-table memory is left. Fails for a guest that does not exist.
    fn create_system_context(&self, guest: GuestId) -> Result<SystemContext, HardwareError>;

    /// Queues packets in a guest's system context, which executes them after those queued before. `fence` is greater
    /// than any before; an interrupt tells when it is reached.
    ///
    /// # Errors
    /// Fails if too much is queued already. Fails for a guest without a system context.
    fn submit_paging(
        &self,
        guest: GuestId,
        packets: &[u8],
        fence: u64,
    ) -> Result<(), HardwareError>;

    /// Abandons the paging buffer with this `fence`, if the guest's system context has begun it and not finished:
    /// [`Interrupt::PagingFaulted`](super::Interrupt::PagingFaulted) with `ENGINE_TIMEOUT` follows. Also puts the
    /// system context's queue back on its engine's run list, from which
    /// [`Queues::preempt_hw_queue`](super::Queues::preempt_hw_queue) took it.
    ///
    /// # Errors
    /// Fails for a guest without a system context.
    fn abandon_paging(&self, guest: GuestId, fence: u64) -> Result<(), UnknownId>;
}
