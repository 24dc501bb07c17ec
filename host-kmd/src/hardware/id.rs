// SPDX-License-Identifier: MIT OR Apache-2.0

//! What names a thing of the GPU.

/// A guest attached to the adapter: one vhost-user connection. Ids are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestId(pub u64);

/// A process's GPU address space. Ids are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressSpaceId(pub u64);

/// A HW queue as the GPU knows it. Ids are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HwQueueId(pub u64);

/// A context as the GPU knows it, among its guest's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HwContextId(pub u64);

/// One of the GPU's physical doorbells, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalDoorbell(pub u32);

/// A point in time up to which engines have forgotten; see [`Engines::quiesce`](super::Engines::quiesce).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);
