// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ids of objects of the GPU.

/// A guest attached to the adapter: one vhost-user connection. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestId(pub u64);

/// A process's GPU address space. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressSpaceId(pub u64);

/// The GPU's id of a HW queue. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HwQueueId(pub u64);

/// The GPU's id of a context, unique in its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HwContextId(pub u64);

/// One of the GPU's physical doorbells, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalDoorbell(pub u32);

/// A point up to which engines have forgotten objects; see [`Engines::quiesce`](super::Engines::quiesce).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);
