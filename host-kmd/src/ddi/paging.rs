// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paging: what dxgkrnl asks a driver to do to memory (`DxgkDdiBuildPagingBuffer`).
//!
//! Dxgkrnl decides what moves where and when; only the driver knows the GPU's commands for it. So each operation
//! becomes packets in a *paging buffer*, which runs on a copy engine in the guest's system context, after everything
//! that was submitted to that context before.
//!
//! The address space of the system context has four parts:
//!
//! - at [`PAGING_VA_START`] the *paging process's GPU VA space*, where dxgkrnl maps the range of a virtual operation
//!   or a notification, in chunks if necessary;
//! - behind it the values of native fences, if the driver asks for them ([`map_to_gpu_system_process`]);
//! - from [`LOCAL_START`] and [`PRIVATE_START`] the two local segments, whole: a physical address in a segment is an
//!   offset from its start;
//! - from [`APERTURE_START`] the aperture segment: its pages show system memory while it is mapped to them.
//!
//! A *physical* operation names addresses of the segments, a *virtual* operation those of the paging process.
//!
//! An operation is at most [`MAX_LENGTH`] bytes long, and its list, if any, at most [`MAX_PAGES`] pages. Such an
//! operation fits into an empty paging buffer.
//!
//! [`map_to_gpu_system_process`]: super::feature::NativeFenceCaps::map_to_gpu_system_process
//!
//! Source: "BuildPagingBuffer" of the Windows KMD overview; "Allocation notification".

pub use crate::hardware::PageSize;
use crate::hardware::{AddressSpaceId, GpuSet, HardwareError, PhysicalPage, Pte};
use bellhop_protocol::control::allocation::Extent;

/// Start of the paging process's GPU VA space in the system context's address space.
pub const PAGING_VA_START: u64 = 1 << 30;
/// Its maximum size in bytes: the values of fences are behind it.
pub const PAGING_VA_SIZE: u64 = (1 << 41) - PAGING_VA_START;
/// Start of the CPU-visible local segment in the system context's address space.
pub const LOCAL_START: u64 = 1 << 44;
/// Start of the local segment that the CPU does not see.
pub const PRIVATE_START: u64 = 2 << 44;
/// Start of the aperture segment.
pub const APERTURE_START: u64 = 3 << 44;

/// The driver's name for an allocation (`hAllocation` of `DxgkDdiCreateAllocation`). Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationId(pub u64);

/// Why the driver is notified (`DXGK_OPERATION_NOTIFY_ALLOC`); one reason per call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocationNotification {
    /// `NotifyEviction`: the range is mapped at `gpu_va` and is about to be evicted.
    Eviction,
    /// `NotifyIoMmuUnmap`: the range is about to be unmapped from the IOMMU. Only drivers that use an IOMMU model are
    /// told; see [`VirtualAddressingModel`].
    ///
    /// [`VirtualAddressingModel`]: super::VirtualAddressingModel
    IoMmuUnmap,
}

/// One operation of `DxgkDdiBuildPagingBuffer` (`DXGK_BUILDPAGINGBUFFER_OPERATION`). Addresses and lengths are
/// multiples of the page size and within their segments or spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagingOperation<'a> {
    /// `FILL`: repeats a pattern over physical addresses.
    Fill {
        /// First byte.
        destination: u64,
        /// Bytes.
        length: u64,
        /// The pattern.
        pattern: u32,
    },
    /// `TRANSFER`: copies between physical addresses.
    Transfer {
        /// First byte to read.
        source: u64,
        /// First byte to write.
        destination: u64,
        /// Bytes.
        length: u64,
    },
    /// `DISCARD`: the content of physical addresses is no longer needed.
    Discard {
        /// First byte.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// `VIRTUAL_FILL`
    VirtualFill {
        /// First byte.
        destination: u64,
        /// Bytes.
        length: u64,
        /// The pattern.
        pattern: u32,
    },
    /// `VIRTUAL_TRANSFER`
    VirtualTransfer {
        /// First byte to read.
        source: u64,
        /// First byte to write.
        destination: u64,
        /// Bytes.
        length: u64,
    },
    /// `MAP_APERTURE_SEGMENT`: makes pages of the aperture show system memory.
    MapApertureSegment {
        /// First byte, from the aperture's start.
        offset: u64,
        /// The page that each one shows.
        pages: &'a [PhysicalPage],
    },
    /// `UNMAP_APERTURE_SEGMENT`: makes pages of the aperture show nothing. Later work in the system context begins
    /// when no engine sees them any more.
    UnmapApertureSegment {
        /// First byte, from the aperture's start.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// `UPDATE_PAGE_TABLE`: writes the entries of consecutive pages when the buffer executes.
    UpdatePageTable {
        /// The GPUs of the chain that get the entries, each in its own page tables of the address space.
        gpus: GpuSet,
        /// The address space.
        space: AddressSpaceId,
        /// GPU virtual address of the first page.
        gpu_va: u64,
        /// What each entry maps.
        page_size: PageSize,
        /// The entries.
        entries: &'a [Pte],
    },
    /// `FLUSH_TLB`: no engine uses a stale entry of this address space any more. Later work in the system context
    /// begins when that is so.
    FlushTlb {
        /// The address space.
        space: AddressSpaceId,
    },
    /// `NOTIFY_RESIDENCY`: a physically accessed allocation has a new address, or no address.
    NotifyResidency {
        /// The allocation.
        allocation: AllocationId,
        /// Its new physical address.
        address: Option<u64>,
    },
    /// `NOTIFY_ALLOC`
    NotifyAlloc {
        /// The allocation.
        allocation: AllocationId,
        /// The reason.
        notification: AllocationNotification,
        /// First byte of the range, from the allocation's start.
        offset: u64,
        /// Bytes in the range.
        length: u64,
        /// Where the range is mapped in the paging process's GPU VA space; 0 if it is not mapped.
        gpu_va: u64,
        /// The guest's pages that are unmapped from the IOMMU; empty on eviction. Drivers of the reference find them
        /// by `hAllocation`; ours keeps no record of allocations.
        pages: &'a [Extent],
    },
}

/// Maximum bytes of an operation.
pub const MAX_LENGTH: u64 = 64 << 30;
/// Maximum pages, or runs of pages, in an operation's list.
pub const MAX_PAGES: usize = 1024;

/// Packets that the driver built (`DXGKARG_BUILDPAGINGBUFFER`), bounded: when an operation does not fit, dxgkrnl
/// submits the buffer and builds the operation into the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PagingBuffer {
    packets: Vec<u8>,
}

/// Maximum bytes of a paging buffer.
pub const PAGING_BUFFER_SIZE: usize = 64 << 10;

/// The operation does not fit into the rest of the paging buffer (`STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the paging buffer has no room for the operation")]
pub struct InsufficientDmaBuffer;

/// Why an operation was not built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BuildPagingBufferError {
    /// Submit the buffer and build into an empty one.
    #[error(transparent)]
    InsufficientDmaBuffer(#[from] InsufficientDmaBuffer),
    /// No page-table memory is left for the mapping, or there is no such address space.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
}

impl PagingBuffer {
    /// Creates an empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The packets built so far.
    #[must_use]
    pub fn packets(&self) -> &[u8] {
        &self.packets
    }

    /// Whether the buffer is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Appends packets for the driver, all or none.
    ///
    /// # Errors
    /// Fails if the buffer has less room left.
    pub fn append(&mut self, packets: &[u8]) -> Result<(), InsufficientDmaBuffer> {
        if packets.len() > PAGING_BUFFER_SIZE - self.packets.len() {
            return Err(InsufficientDmaBuffer);
        }
        self.packets.extend_from_slice(packets);
        Ok(())
    }
}
