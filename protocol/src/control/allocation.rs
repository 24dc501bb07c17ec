// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about allocations.

use super::fence::NtHandle;
use super::{Handle, request};
use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// The memory behind an allocation.
    pub struct AllocationKind: u32 {
        /// CPU-visible local memory, zeroed on allocation. It is created resident and locked and never moves:
        /// [`CreateAllocationReply::bar_offset`] holds as long as the allocation lives.
        LOCAL = 0;
        /// The guest's own memory: the request ends with a list of [`Extent`]s. It is created resident and never
        /// moves.
        SYSTEM = 1;
        /// Memory that the device places and moves. It is created neither resident nor locked, and takes no memory
        /// until it is one of the two. It then holds zeroes, or the content of its extents if the request ends with
        /// some.
        PAGED = 2;
    }
}

bitflags! {
    /// Segments of a guest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct SegmentSet: u32 {
        /// CPU-visible local memory, in the BAR.
        const LOCAL = 1 << 0;
        /// Local memory that no CPU can access.
        const PRIVATE = 1 << 1;
        /// The implicit system memory segment: the allocation's own pages, or host memory.
        const SYSTEM = 1 << 2;
    }
}

/// Where [`CreateAllocation::flags`] have the ordinal of the GPU that has the allocation.
pub const ALLOCATION_GPU_SHIFT: u32 = 28;

bitflags! {
    /// Properties of a paged allocation (`DXGK_ALLOCATIONINFOFLAGS`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct AllocationFlags: u32 {
        /// It may be locked. It supports the segment `LOCAL`, or has extents.
        const CPU_VISIBLE = 1 << 0;
        /// A copy is always kept in system memory, even while it is in a local segment.
        const PERMANENT_SYSTEM_MEM = 1 << 1;
        /// CPUs access it through their caches, as all memory of a Bellhop device.
        const CACHED = 1 << 2;
        /// Engines access it by physical address: it is contiguous wherever it is resident, in a local segment or,
        /// through the aperture, in system memory. It occupies its full length of the aperture.
        const ACCESSED_PHYSICALLY = 1 << 3;
        /// Other processes may open it by the name that [`ShareAllocation`] returns. It has no extents and is not
        /// `ACCESSED_PHYSICALLY`.
        const SHARED = 1 << 4;
        /// A display may show it (`DXGK_ALLOCATIONINFOFLAGS`, `Primary`): it supports local segments only, where it is
        /// contiguous, and stays resident and in its place while it is shown or a flip to it waits.
        const PRIMARY = 1 << 5;
        /// No CPU reads it: it lies in `PRIVATE`, or in the host's memory where that has no room, and engines copy
        /// from it to protected allocations only. It has no extents, supports `PRIVATE` and perhaps `SYSTEM`, has no
        /// private data, and of the other flags at most `SHARED`. `NOT_SUPPORTED` without a security node.
        const PROTECTED = 1 << 6;
        /// "Replicated across all adapters in LDA chain" (`DXGK_ALLOCATIONINFOFLAGS`, `LinkedMirrored`): each GPU of the
        /// chain has a copy in memory of its own, at the same addresses. An engine reads and writes the copy of its GPU, and
        /// all are zeroes at first. It excludes `CPU_VISIBLE`, `SHARED`, `PRIMARY`, `PROTECTED`, extents and the ordinal of a GPU.
        const LINKED_MIRRORED = 1 << 7;
    }
}

/// [`CreateAllocation::priority`]: evicted first (`D3DDDI_ALLOCATIONPRIORITY_MINIMUM`).
pub const PRIORITY_MINIMUM: u32 = 0x2800_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_LOW`
pub const PRIORITY_LOW: u32 = 0x5000_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_NORMAL`
pub const PRIORITY_NORMAL: u32 = 0x7800_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_HIGH`
pub const PRIORITY_HIGH: u32 = 0xA000_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_MAXIMUM`
pub const PRIORITY_MAXIMUM: u32 = 0xC800_0000;

/// Private driver data of an allocation: engines keep it compressed while it is resident, in blocks of 4 KiB.
/// Writers of one block must be ordered with each other.
pub const COMPRESSED: u32 = 1;

/// A run of guest-physical memory. Both fields are multiples of the page size.
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
/// `INVALID_PARAMETER` if segments or flags contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateAllocation {
    /// The device.
    pub device: Handle,
    /// Size in bytes, a multiple of the page size.
    pub size: u64,
    /// The memory behind it.
    pub kind: AllocationKind,
    /// Number of extents that follow; they add up to `size`. 0 for local memory.
    pub extent_count: u32,
    /// [`SegmentSet`]: where it may be resident. This field and the following ones are 0 unless it is paged.
    pub supported_segments: u32,
    /// The preferred one of these segments; 0 lets the device decide.
    pub preferred_segment: u32,
    /// [`SegmentSet`]: the local ones of these segments that it may be evicted to before it goes to system memory.
    pub eviction_segments: u32,
    /// [`AllocationFlags`], and in the four most significant bits the ordinal of the GPU in whose `PRIVATE` segment it may
    /// be: 0 is the master's.
    pub flags: u32,
    /// Its priority: higher priorities are evicted later.
    pub priority: u32,
    /// Private driver data: 0, or a value that the driver defines.
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
    /// A request for an allocation that never moves: `LOCAL` or `SYSTEM`.
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

/// `D3DKMTDestroyAllocation2`: unmaps it everywhere in the process, on all devices that have it open. A shared
/// allocation lives until its last process destroys it. The reply comes when no engine can access it for this
/// process any more. `GRAPHICS_ALLOCATION_BUSY` while a doorbell uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyAllocation {
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(DestroyAllocation, 8, allocation at 0);
request!(DestroyAllocation, DESTROY_ALLOCATION -> ());

/// Maximum number of allocations in one [`MakeResident`] or [`Evict`].
pub const MAX_RESIDENCY_LIST: u32 = 64;

/// `D3DKMTMakeResident`: the device needs these allocations, all or none. A list of `count` handles follows. The
/// reply comes when the GPU can access them with their content.
///
/// Residency is counted: an allocation stays resident until it was evicted an equal number of times, or until the
/// device closes it or is destroyed. `GRAPHICS_NO_VIDEO_MEMORY` if the process can never have that much in the
/// segments that they support (`detail`: the amount it would have there), `NO_MEMORY` if the host has no memory to
/// back them, and `INSUFFICIENT_RESOURCES` if locked allocations, or those of others within their budgets, leave no
/// room now. The first and the last also if the aperture has no room, ever or now, for an allocation that is
/// [`AllocationFlags::ACCESSED_PHYSICALLY`] and supports `SYSTEM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MakeResident {
    /// The device.
    pub device: Handle,
    /// Number of handles that follow, 1 to [`MAX_RESIDENCY_LIST`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(MakeResident, 16, device at 0, count at 8, reserved at 12);
request!(MakeResident, MAKE_RESIDENT -> ());

/// `D3DKMTEvict`: undoes one [`MakeResident`] of each of these allocations by the device. A list of `count` handles
/// follows. The GPU loses access to an allocation that no device needs any more; the reply comes when no engine can
/// access it. `GRAPHICS_ALLOCATION_BUSY` while a doorbell uses one; none is evicted then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Evict {
    /// The device.
    pub device: Handle,
    /// Number of handles that follow, 1 to [`MAX_RESIDENCY_LIST`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(Evict, 16, device at 0, count at 8, reserved at 12);
request!(Evict, EVICT -> ());

/// `D3DKMTLock2`: places the allocation where a CPU can access it, and keeps it there until it was unlocked an
/// equal number of times. An allocation that is not paged is always there.
///
/// `NOT_SUPPORTED` if it is not `CPU_VISIBLE`. `GRAPHICS_ALLOCATION_BUSY` if the driver stores it in a private
/// format while it is resident; evict it first. Errors for lack of room are those of [`MakeResident`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Lock {
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(Lock, 8, allocation at 0);
request!(Lock, LOCK -> LockReply);

/// The place of a locked allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct LockReply {
    /// Offset in the BAR of its first byte, or [`NOT_IN_BAR`] if it lies in its extents.
    pub bar_offset: u64,
}
crate::assert_layout!(LockReply, 8, bar_offset at 0);

/// `D3DKMTUnlock2`: undoes one [`Lock`]. `GRAPHICS_ALLOCATION_BUSY` while a doorbell uses it, `INVALID_PARAMETER`
/// if it is not locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Unlock {
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(Unlock, 8, allocation at 0);
request!(Unlock, UNLOCK -> ());

/// `D3DKMTSetAllocationPriority`, for a paged allocation.
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
    /// The ordinal of the GPU that has the segment; 0 unless the segment is `PRIVATE`.
    pub gpu: u32,
}
crate::assert_layout!(QueryVideoMemoryInfo, 8, segment at 0, gpu at 4);
request!(QueryVideoMemoryInfo, QUERY_VIDEO_MEMORY_INFO -> VideoMemoryInfo);

/// A segment from the process's point of view; all values in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct VideoMemoryInfo {
    /// Size of the segment. For the system segment: the host's part, which backs allocations without extents.
    pub size: u64,
    /// The amount that the process may count on. It may use more while no other process needs it.
    pub budget: u64,
    /// The amount that the process has resident or locked there. For the system segment: the memory that the host
    /// keeps for all of the process's allocations, wherever they are.
    pub usage: u64,
}
crate::assert_layout!(VideoMemoryInfo, 24, size at 0, budget at 8, usage at 16);

/// `D3DKMTOpenResource`: lets another device of the process make the allocation resident. The allocation lives
/// until all devices that have it open have closed it, or until it is destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct OpenAllocation {
    /// The device. `INVALID_PARAMETER` if it has the allocation open.
    pub device: Handle,
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(OpenAllocation, 16, device at 0, allocation at 8);
request!(OpenAllocation, OPEN_ALLOCATION -> ());

/// `DxgkDdiCloseAllocation`: undoes [`OpenAllocation`] or [`CreateAllocation`] for the device. The last close
/// destroys the allocation, as [`DestroyAllocation`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CloseAllocation {
    /// The device. `INVALID_PARAMETER` if it does not have the allocation open.
    pub device: Handle,
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(CloseAllocation, 16, device at 0, allocation at 8);
request!(CloseAllocation, CLOSE_ALLOCATION -> ());

/// `D3DKMTShareObjects`: returns the constant name of an allocation that was created [`AllocationFlags::SHARED`].
/// `NOT_SUPPORTED` for any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ShareAllocation {
    /// The allocation.
    pub allocation: Handle,
}
crate::assert_layout!(ShareAllocation, 8, allocation at 0);
request!(ShareAllocation, SHARE_ALLOCATION -> NtHandle);

/// `D3DKMTOpenResourceFromNtHandle`: gives the process access to the allocation and lets its device make it
/// resident. A process that has it open gets its existing handle, and the device opens it as with
/// [`OpenAllocation`].
///
/// `INVALID_PARAMETER` if no allocation of the guest has this name (`detail`: the name), or if the device has it
/// open (`detail`: the device).
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
