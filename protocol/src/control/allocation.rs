//! Requests about allocations.

use super::{Handle, request};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// Where an allocation's bytes are.
    pub struct AllocationKind: u32 {
        /// CPU-visible local memory, in the BAR, zeroed when it is given out.
        LOCAL = 0;
        /// The guest's own memory: the request ends with a list of [`Extent`]s.
        SYSTEM = 1;
    }
}

/// Private driver data of an allocation: engines keep it compressed while it is resident. A block of it
/// is 4 KiB: who writes into one must be ordered with whoever writes into the same block.
pub const COMPRESSED: u32 = 1;

/// A run of guest-physical memory: both fields are multiples of the page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Extent {
    /// Guest-physical address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
}
crate::assert_layout!(Extent, 16, address at 0, length at 8);

/// `D3DKMTCreateAllocation`; the allocation is resident. A list of `extent_count` [`Extent`]s follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateAllocation {
    /// The device.
    pub device: Handle,
    /// Size in bytes, a multiple of the page size.
    pub size: u64,
    /// Where the bytes are.
    pub kind: AllocationKind,
    /// How many extents follow; they add up to `size`. 0 for local memory.
    pub extent_count: u32,
}
crate::assert_layout!(
    CreateAllocation, 24, device at 0, size at 8, kind at 16, extent_count at 20,
);
request!(CreateAllocation, CREATE_ALLOCATION -> CreateAllocationReply);

/// [`CreateAllocationReply::bar_offset`] of an allocation that is not in the BAR.
pub const NOT_IN_BAR: u64 = u64::MAX;

/// The new allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateAllocationReply {
    /// The allocation.
    pub allocation: Handle,
    /// Offset in the BAR of its first byte, or [`NOT_IN_BAR`].
    pub bar_offset: u64,
}
crate::assert_layout!(CreateAllocationReply, 16, allocation at 0, bar_offset at 8);

/// `D3DKMTDestroyAllocation2`: unmaps it everywhere. The reply comes when no engine can reach it
/// any more. `GRAPHICS_ALLOCATION_BUSY` while a doorbell needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyAllocation {
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(DestroyAllocation, 8, allocation at 0);
request!(DestroyAllocation, DESTROY_ALLOCATION -> ());

/// `D3DKMTMakeResident`: the GPU reaches an evicted allocation again, as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MakeResident {
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(MakeResident, 8, allocation at 0);
request!(MakeResident, MAKE_RESIDENT -> ());

/// `D3DKMTEvict`: the GPU does not reach the allocation any more; the CPU does. The reply comes when
/// no engine can. `GRAPHICS_ALLOCATION_BUSY` while a doorbell needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Evict {
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(Evict, 8, allocation at 0);
request!(Evict, EVICT -> ());
