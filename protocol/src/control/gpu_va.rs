//! Requests about a process's GPU virtual addresses.

use super::{Handle, request};
use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First GPU virtual address that a guest can map.
pub const GPU_VA_START: u64 = 1 << 20;
/// End of the GPU virtual addresses that a guest can map; those above are the host's.
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

/// Where it was mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MapGpuVirtualAddressReply {
    /// GPU virtual address of the first byte.
    pub gpu_va: u64,
}
crate::assert_layout!(MapGpuVirtualAddressReply, 8, gpu_va at 0);

/// `D3DKMTFreeGpuVirtualAddress`: undoes one mapping. The reply comes when no engine uses it any
/// more. `CONFLICTING_ADDRESSES` when no mapping has this start and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct FreeGpuVirtualAddress {
    /// First byte of the mapping.
    pub gpu_va: u64,
    /// Its size in bytes.
    pub size: u64,
}
crate::assert_layout!(FreeGpuVirtualAddress, 16, gpu_va at 0, size at 8);
request!(FreeGpuVirtualAddress, FREE_GPU_VIRTUAL_ADDRESS -> ());
