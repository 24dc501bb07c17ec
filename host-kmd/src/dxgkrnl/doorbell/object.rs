// SPDX-License-Identifier: MIT OR Apache-2.0

//! A doorbell as its process names it.

use crate::dxgkrnl::memory::allocation::HostMapping;
use crate::dxgkrnl::object::resource::Resource;
use crate::hardware::HwQueueId;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::ring::RING_CONTROL_SIZE;

/// A doorbell. [`Doorbells`](crate::dxgkrnl::doorbell::table::Doorbells) keeps its state, under its queue.
#[derive(Debug)]
pub(crate) struct Doorbell {
    queue: HwQueueId,
    /// Where the host has mapped the ring buffer and the ring buffer control.
    ring: [HostMapping; 2],
    /// Resources that it holds until the engines have forgotten it.
    holds: Vec<Resource>,
}

impl Doorbell {
    /// Creates a queue's doorbell with this ring and these resources.
    pub(crate) fn new(queue: HwQueueId, ring: [HostMapping; 2], holds: Vec<Resource>) -> Self {
        Self { queue, ring, holds }
    }

    /// The GPU's id of the queue.
    pub(crate) fn queue(&self) -> HwQueueId {
        self.queue
    }

    /// The allocations of ring buffer and ring buffer control.
    pub(crate) fn allocations(&self) -> [Handle; 2] {
        self.ring.map(|mapping| mapping.allocation)
    }

    /// Bytes in its ring buffer.
    pub(crate) fn ring_size(&self) -> u64 {
        let [ring, _] = self.ring;
        ring.range.length
    }

    /// Resources that it holds until the engines have forgotten it.
    pub(crate) fn holds(&self) -> &[Resource] {
        &self.holds
    }

    /// Destroys the doorbell and returns the resources that it holds.
    pub(crate) fn into_holds(self) -> Vec<Resource> {
        self.holds
    }
}

// This ensures that a ring buffer control fits into any allocation, and into one page.
const _: () = assert!(RING_CONTROL_SIZE <= PAGE_SIZE);
