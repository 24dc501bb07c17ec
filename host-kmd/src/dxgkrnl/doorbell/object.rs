// SPDX-License-Identifier: MIT OR Apache-2.0

//! A doorbell as its process names it.

use crate::dxgkrnl::memory::allocation::HostMapping;
use crate::dxgkrnl::object::resource::Resource;
use crate::hardware::HwQueueId;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::ring::RING_CONTROL_SIZE;

/// A doorbell. Its state is with [`Doorbells`](crate::dxgkrnl::doorbell::table::Doorbells), under its queue.
#[derive(Debug)]
pub(crate) struct Doorbell {
    /// The queue as the GPU knows it.
    pub(crate) queue: HwQueueId,
    /// Where the host has mapped ring buffer and ring buffer control.
    pub(crate) ring: [HostMapping; 2],
    /// What it holds until engines have forgotten it.
    pub(crate) holds: Vec<Resource>,
}

impl Doorbell {
    /// Bytes in its ring buffer.
    pub(crate) fn ring_size(&self) -> u64 {
        let [ring, _] = self.ring;
        ring.range.length
    }
}

// A ring buffer control therefore always fits into an allocation, and into one page.
const _: () = assert!(RING_CONTROL_SIZE <= PAGE_SIZE);
