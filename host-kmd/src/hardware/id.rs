// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ids of objects of the GPU.

use super::gpu::GpuOrdinal;
use std::ops::RangeInclusive;

/// A guest attached to the adapter: one vhost-user connection. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestId(pub u64);

/// What guests have together that come by one way: a socket. What one of them takes counts for all. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// A process's GPU address space. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressSpaceId(pub u64);

/// The GPU's id of a HW queue. Ids are never reused. The eight most significant bits are the ordinal of the queue's GPU,
/// so that no id means two queues of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HwQueueId(pub u64);

/// Where an id has the ordinal of its GPU.
const ORDINAL_SHIFT: u32 = u64::BITS - 8;

impl HwQueueId {
    /// The id with this number, less than 2^56, of a queue of this GPU.
    #[must_use]
    pub const fn of(gpu: GpuOrdinal, number: u64) -> Self {
        Self((gpu.0 as u64) << ORDINAL_SHIFT | number)
    }

    /// The ids that queues of a GPU can have.
    #[must_use]
    pub const fn all_of(gpu: GpuOrdinal) -> RangeInclusive<Self> {
        Self::of(gpu, 0)..=Self::of(gpu, (1 << ORDINAL_SHIFT) - 1)
    }

    /// The GPU that has the queue.
    #[must_use]
    pub const fn gpu(self) -> GpuOrdinal {
        GpuOrdinal((self.0 >> ORDINAL_SHIFT) as u8)
    }
}

/// The GPU's id of a context, unique in its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HwContextId(pub u64);

/// One of the GPU's physical doorbells, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalDoorbell(pub u32);

/// A point up to which engines have forgotten objects; see [`Quiescence::quiesce`](super::Quiescence::quiesce).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);
