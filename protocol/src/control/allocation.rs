// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about allocations.

use super::fence::NtHandle;
use super::{Handle, request};
use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// What an allocation is made of.
    pub struct AllocationKind: u32 {
        /// CPU-visible local memory, zeroed when it is given out. It is created resident and locked,
        /// for good: [`CreateAllocationReply::bar_offset`] holds as long as it lives.
        LOCAL = 0;
        /// The guest's own memory: the request ends with a list of [`Extent`]s. It is created resident,
        /// and stays where it is.
        SYSTEM = 1;
        /// The device decides where it is, and moves it. It is created neither resident nor locked, and
        /// takes no memory before it is one of the two; then it holds zeroes, or what its extents
        /// held, if the request ends with some.
        PAGED = 2;
    }
}

bitflags! {
    /// Segments of a guest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct SegmentSet: u32 {
        /// CPU-visible local memory, in the BAR.
        const LOCAL = 1 << 0;
        /// Local memory that no CPU sees.
        const PRIVATE = 1 << 1;
        /// The implicit system memory segment: the allocation's own pages, or memory of the host's.
        const SYSTEM = 1 << 2;
    }
}

bitflags! {
    /// Properties of a paged allocation (`DXGK_ALLOCATIONINFOFLAGS`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct AllocationFlags: u32 {
        /// It may be locked. It supports the segment `LOCAL`, or has extents.
        const CPU_VISIBLE = 1 << 0;
        /// A copy of it is always kept in system memory, even when it is in a local segment.
        const PERMANENT_SYSTEM_MEM = 1 << 1;
        /// CPUs access it through their caches. All memory of a Bellhop device is such.
        const CACHED = 1 << 2;
        /// Engines access it by physical address: it is contiguous wherever it is resident, in a local
        /// segment, and in system memory through the aperture, which it takes as much of as it is long.
        const ACCESSED_PHYSICALLY = 1 << 3;
        /// Other processes may open it by the name that [`ShareAllocation`] gives it. It has no extents
        /// and is not `ACCESSED_PHYSICALLY`.
        const SHARED = 1 << 4;
    }
}

/// [`CreateAllocation::priority`]: evicted before all others
/// (`D3DDDI_ALLOCATIONPRIORITY_MINIMUM`).
pub const PRIORITY_MINIMUM: u32 = 0x2800_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_LOW`
pub const PRIORITY_LOW: u32 = 0x5000_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_NORMAL`
pub const PRIORITY_NORMAL: u32 = 0x7800_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_HIGH`
pub const PRIORITY_HIGH: u32 = 0xA000_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_MAXIMUM`
pub const PRIORITY_MAXIMUM: u32 = 0xC800_0000;

/// Private driver data of an allocation: engines keep it compressed while it is resident. A block of it
/// is 4 KiB: a writer must be ordered with the other writers of its block.
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

/// `D3DKMTCreateAllocation`. A list of `extent_count` [`Extent`]s follows.
///
/// `INVALID_PARAMETER` when segments or flags do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateAllocation {
    /// The device.
    pub device: Handle,
    /// Size in bytes, a multiple of the page size.
    pub size: u64,
    /// What it is made of.
    pub kind: AllocationKind,
    /// How many extents follow; they add up to `size`. 0 for local memory.
    pub extent_count: u32,
    /// [`SegmentSet`]: where it may be resident. This and what follows is 0 unless it is paged.
    pub supported_segments: u32,
    /// The one of them where it should be; 0 lets the device decide.
    pub preferred_segment: u32,
    /// [`SegmentSet`]: the local ones of them that it may be evicted to before it goes to system
    /// memory.
    pub eviction_segments: u32,
    /// [`AllocationFlags`]
    pub flags: u32,
    /// Its priority: a higher one is evicted later.
    pub priority: u32,
    /// Private driver data: 0, or what the driver defines.
    pub private_data: u32,
}
crate::assert_layout!(
    CreateAllocation, 48,
    device at 0, size at 8, kind at 16, extent_count at 20, supported_segments at 24,
    preferred_segment at 28, eviction_segments at 32, flags at 36, priority at 40,
    private_data at 44,
);
request!(CreateAllocation, CREATE_ALLOCATION -> CreateAllocationReply);

impl CreateAllocation {
    /// For an allocation that stays where it is: `LOCAL` or `SYSTEM`.
    #[must_use]
    pub const fn fixed(device: Handle, kind: AllocationKind, size: u64, extent_count: u32) -> Self {
        Self {
            device,
            size,
            kind,
            extent_count,
            supported_segments: 0,
            preferred_segment: 0,
            eviction_segments: 0,
            flags: 0,
            priority: 0,
            private_data: 0,
        }
    }
}

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

/// `D3DKMTDestroyAllocation2`: unmaps it everywhere in the process, whichever of its devices it is open
/// on; one that other processes have, too, goes with the last of them. The reply comes when no engine can
/// reach it for this process any more. `GRAPHICS_ALLOCATION_BUSY` while a doorbell needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyAllocation {
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(DestroyAllocation, 8, allocation at 0);
request!(DestroyAllocation, DESTROY_ALLOCATION -> ());

/// Most allocations in one [`MakeResident`] or [`Evict`].
pub const MAX_RESIDENCY_LIST: u32 = 64;

/// `D3DKMTMakeResident`: the device needs these allocations, all or none. A list of `count` handles
/// follows. The reply comes when the GPU reaches them, as they were.
///
/// Each is counted: it stays resident until it was evicted as often, the device has closed it or is
/// destroyed. `GRAPHICS_NO_VIDEO_MEMORY` when the process can never have that much in the segments
/// that they support (`detail`: what it would have there), `NO_MEMORY` when the host
/// has no memory to keep for them, and `INSUFFICIENT_RESOURCES` when what others have within their
/// budgets, or what is locked, leaves no room now. The first and the last also when the aperture has no
/// room, at all or now, for one that is [`AllocationFlags::ACCESSED_PHYSICALLY`] and supports `SYSTEM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MakeResident {
    /// The device.
    pub device: Handle,
    /// How many handles follow; 1 to [`MAX_RESIDENCY_LIST`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(MakeResident, 16, device at 0, count at 8, reserved at 12);
request!(MakeResident, MAKE_RESIDENT -> ());

/// `D3DKMTEvict`: the device needs these allocations no more, or once less. A list of `count` handles
/// follows. When nobody needs one any more, the GPU does not reach it; the reply comes when no engine
/// can. `GRAPHICS_ALLOCATION_BUSY` while a doorbell needs one; none is evicted then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Evict {
    /// The device.
    pub device: Handle,
    /// How many handles follow; 1 to [`MAX_RESIDENCY_LIST`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(Evict, 16, device at 0, count at 8, reserved at 12);
request!(Evict, EVICT -> ());

/// `D3DKMTLock2`: the allocation is where a CPU reaches it, and stays there until it is unlocked as
/// often. One that is not paged is there always.
///
/// `NOT_SUPPORTED` when it is not `CPU_VISIBLE`. `GRAPHICS_ALLOCATION_BUSY` when the driver keeps its
/// bytes in a form of its own as long as it is resident; evict it first. Without room, as
/// [`MakeResident`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Lock {
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(Lock, 8, allocation at 0);
request!(Lock, LOCK -> LockReply);

/// Where the allocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct LockReply {
    /// Offset in the BAR of its first byte, or [`NOT_IN_BAR`] when it is in its extents.
    pub bar_offset: u64,
}
crate::assert_layout!(LockReply, 8, bar_offset at 0);

/// `D3DKMTUnlock2`: undoes one [`Lock`]. `GRAPHICS_ALLOCATION_BUSY` while a doorbell needs it,
/// `INVALID_PARAMETER` when it is not locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Unlock {
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(Unlock, 8, allocation at 0);
request!(Unlock, UNLOCK -> ());

/// `D3DKMTSetAllocationPriority`, for one that is paged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetAllocationPriority {
    /// The allocation.
    pub allocation: Handle,
    /// Its priority.
    pub priority: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(SetAllocationPriority, 16, allocation at 0, priority at 8, reserved at 12);
request!(SetAllocationPriority, SET_ALLOCATION_PRIORITY -> ());

/// `D3DKMTQueryVideoMemoryInfo`
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryVideoMemoryInfo {
    /// [`SegmentSet`]: one segment.
    pub segment: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(QueryVideoMemoryInfo, 8, segment at 0, reserved at 4);
request!(QueryVideoMemoryInfo, QUERY_VIDEO_MEMORY_INFO -> VideoMemoryInfo);

/// A segment as the process sees it; all in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct VideoMemoryInfo {
    /// All of the segment. Of the system segment: the host's part, for allocations without extents.
    pub size: u64,
    /// What the process may count on. It may have more while no other process needs it.
    pub budget: u64,
    /// What the process has resident or locked there. Of the system segment: what the host keeps for
    /// all of the process's allocations, wherever they are.
    pub usage: u64,
}
crate::assert_layout!(VideoMemoryInfo, 24, size at 0, budget at 8, usage at 16);

/// `D3DKMTOpenResource`: another device of the process may make the allocation resident. It lives
/// until all devices that it is open on have closed it, or until it is destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct OpenAllocation {
    /// The device. `INVALID_PARAMETER` when the allocation is open on it already.
    pub device: Handle,
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(OpenAllocation, 16, device at 0, allocation at 8);
request!(OpenAllocation, OPEN_ALLOCATION -> ());

/// `DxgkDdiCloseAllocation`: undoes what [`OpenAllocation`] or [`CreateAllocation`] did for the device.
/// The last one destroys the allocation, as [`DestroyAllocation`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CloseAllocation {
    /// The device. `INVALID_PARAMETER` when the allocation is not open on it.
    pub device: Handle,
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(CloseAllocation, 16, device at 0, allocation at 8);
request!(CloseAllocation, CLOSE_ALLOCATION -> ());

/// `D3DKMTShareObjects`: the name of an allocation that was created [`AllocationFlags::SHARED`], always the
/// same. `NOT_SUPPORTED` for any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ShareAllocation {
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(ShareAllocation, 8, allocation at 0);
request!(ShareAllocation, SHARE_ALLOCATION -> NtHandle);

/// `D3DKMTOpenResourceFromNtHandle`: the process has the allocation, too, and its device may make it
/// resident. A process that has it already gets its handle again: the allocation is open on another of
/// its devices then, as [`OpenAllocation`] does it.
///
/// `INVALID_PARAMETER` for a name that no allocation of the guest has (`detail`: the name), and when it
/// is open on the device already (`detail`: the device).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct OpenSharedAllocation {
    /// The device to open it on.
    pub device: Handle,
    /// The allocation's name.
    pub nt_handle: NtHandle,
}
crate::assert_layout!(OpenSharedAllocation, 16, device at 0, nt_handle at 8);
request!(OpenSharedAllocation, OPEN_SHARED_ALLOCATION -> OpenedAllocation);

/// An allocation that a process has opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct OpenedAllocation {
    /// The process's handle to it.
    pub allocation: Handle,
    /// Its size in bytes.
    pub size: u64,
}
crate::assert_layout!(OpenedAllocation, 16, allocation at 0, size at 8);
