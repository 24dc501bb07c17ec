// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about a process's GPU virtual addresses.

use super::{Handle, request};
use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First GPU virtual address that a guest can map.
pub const GPU_VA_START: u64 = 1 << 20;
/// End of the GPU virtual addresses that a guest can map; the host owns those above.
pub const GPU_VA_END: u64 = 1 << 40;

bitflags! {
    /// How a GPU virtual address may be used.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Protection: u32 {
        /// Packets may write. Reading is always allowed.
        const WRITE = 1 << 0;
    }
}

/// `D3DKMTMapGpuVirtualAddress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MapGpuVirtualAddress {
    /// The allocation.
    pub allocation: Handle,
    /// The address to map at, a multiple of the page size; 0 lets the host choose.
    pub base: u64,
    /// First byte of the allocation to map, a multiple of the page size.
    pub offset: u64,
    /// Bytes to map, a multiple of the page size.
    pub size: u64,
    /// [`Protection`]; an unknown bit is refused.
    pub protection: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    MapGpuVirtualAddress, 40,
    allocation at 0, base at 8, offset at 16, size at 24, protection at 32, reserved at 36,
);
request!(MapGpuVirtualAddress, MAP_GPU_VIRTUAL_ADDRESS -> MapGpuVirtualAddressReply);

/// The mapped range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MapGpuVirtualAddressReply {
    /// GPU virtual address of the first byte.
    pub gpu_va: u64,
}
crate::assert_layout!(MapGpuVirtualAddressReply, 8, gpu_va at 0);

/// `D3DKMTFreeGpuVirtualAddress`: frees addresses that were mapped or reserved together, whatever is mapped there
/// now. The reply comes when no engine uses them any more. `CONFLICTING_ADDRESSES` if no range has this start and
/// size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct FreeGpuVirtualAddress {
    /// First byte.
    pub gpu_va: u64,
    /// Size in bytes.
    pub size: u64,
}
crate::assert_layout!(FreeGpuVirtualAddress, 16, gpu_va at 0, size at 8);
request!(FreeGpuVirtualAddress, FREE_GPU_VIRTUAL_ADDRESS -> ());

/// `D3DKMTReserveGpuVirtualAddress`: reserves addresses without mapping them. They count as mapped against the
/// guest's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ReserveGpuVirtualAddress {
    /// The first address, a multiple of the page size; 0 lets the host choose.
    pub base: u64,
    /// Bytes, a multiple of the page size.
    pub size: u64,
}
crate::assert_layout!(ReserveGpuVirtualAddress, 16, base at 0, size at 8);
request!(ReserveGpuVirtualAddress, RESERVE_GPU_VIRTUAL_ADDRESS -> MapGpuVirtualAddressReply);

/// `D3DKMTUpdateGpuVirtualAddress`, one operation: maps addresses of an existing mapping or reservation to a paged
/// allocation, or unmaps them. It replaces the previous mapping. The reply comes when no engine uses a stale
/// translation.
///
/// `CONFLICTING_ADDRESSES` if the addresses do not all belong to one mapping or reservation; `NOT_SUPPORTED` if an
/// allocation that is not paged is mapped there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct UpdateGpuVirtualAddress {
    /// The first address, a multiple of the page size.
    pub gpu_va: u64,
    /// Bytes, a multiple of the page size.
    pub size: u64,
    /// The allocation; 0 unmaps.
    pub allocation: Handle,
    /// First byte of the allocation to map, a multiple of the page size. 0 to unmap.
    pub offset: u64,
    /// [`Protection`]; an unknown bit is refused. 0 to unmap.
    pub protection: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    UpdateGpuVirtualAddress, 40,
    gpu_va at 0, size at 8, allocation at 16, offset at 24, protection at 32, reserved at 36,
);
request!(UpdateGpuVirtualAddress, UPDATE_GPU_VIRTUAL_ADDRESS -> ());
