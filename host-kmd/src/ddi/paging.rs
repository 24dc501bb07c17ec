// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paging: what dxgkrnl asks a driver to do to memory (`DxgkDdiBuildPagingBuffer`).
//!
//! Dxgkrnl decides what moves where and when; only the driver knows the GPU's commands for it. So
//! each operation becomes packets in a *paging buffer*, which runs on a copy engine in the guest's
//! system context, ordered after everything that was submitted there before.
//!
//! The system context has an address space of its own, in which four things are:
//!
//! - at [`PAGING_VA_START`] the *paging process's GPU VA space*, where dxgkrnl maps what a virtual
//!   operation or a notification is about, in chunks if it must;
//! - behind that the values of native fences, where the driver asks for them
//!   ([`map_to_gpu_system_process`]);
//! - from [`LOCAL_START`] and [`PRIVATE_START`] the two local segments, whole: a physical address of
//!   theirs is their offset there;
//! - from [`APERTURE_START`] the aperture segment: its pages show system memory as long as they are
//!   mapped to it.
//!
//! A *physical* operation names addresses of the segments, a *virtual* one of the first.
//!
//! An operation is at most [`MAX_LENGTH`] bytes and, where it has a list, [`MAX_PAGES`] pages long:
//! such a one fits into an empty paging buffer.
//!
//! [`map_to_gpu_system_process`]: super::feature::NativeFenceCaps::map_to_gpu_system_process
//!
//! Source: "BuildPagingBuffer" of the Windows KMD overview; "Allocation notification".

pub use crate::hardware::PageSize;
use crate::hardware::{AddressSpaceId, HardwareError, PhysicalPage, Pte};
use bellhop_protocol::control::allocation::Extent;

/// Where the paging process's GPU VA space begins in the system context's address space.
pub const PAGING_VA_START: u64 = 1 << 30;
/// Most bytes that it can have: the values of fences are behind it.
pub const PAGING_VA_SIZE: u64 = (1 << 41) - PAGING_VA_START;
/// Where the CPU-visible local segment begins there.
pub const LOCAL_START: u64 = 1 << 44;
/// Where the local segment begins there that no CPU sees.
pub const PRIVATE_START: u64 = 2 << 44;
/// Where the aperture segment begins there.
pub const APERTURE_START: u64 = 3 << 44;

/// What the driver knows an allocation by (`hAllocation` of `DxgkDdiCreateAllocation`). Ids are not
/// used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationId(pub u64);

/// Why the driver is notified (`DXGK_OPERATION_NOTIFY_ALLOC`); one reason a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocationNotification {
    /// `NotifyEviction`: the range is mapped at `gpu_va` and is about to be evicted.
    Eviction,
    /// `NotifyIoMmuUnmap`: the range is about to be unmapped from the IOMMU. Only drivers of one of the
    /// IOMMU models are told; see [`VirtualAddressingModel`].
    ///
    /// [`VirtualAddressingModel`]: super::VirtualAddressingModel
    IoMmuUnmap,
}

/// One operation of `DxgkDdiBuildPagingBuffer` (`DXGK_BUILDPAGINGBUFFER_OPERATION`). Addresses and
/// lengths are multiples of the page size and lie where they have to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagingOperation<'a> {
    /// `FILL`: repeats a pattern over physical addresses.
    Fill {
        /// First byte.
        destination: u64,
        /// Bytes.
        length: u64,
        /// What is repeated.
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
    /// `DISCARD`: the content of physical addresses is not needed any more.
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
        /// What is repeated.
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
    /// `MAP_APERTURE_SEGMENT`: makes pages of the aperture show these.
    MapApertureSegment {
        /// First byte, from the aperture's start.
        offset: u64,
        /// What each page shows.
        pages: &'a [PhysicalPage],
    },
    /// `UNMAP_APERTURE_SEGMENT`: makes pages of the aperture show nothing. What comes after it in the
    /// system context begins when no engine sees them any more.
    UnmapApertureSegment {
        /// First byte, from the aperture's start.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// `UPDATE_PAGE_TABLE`: writes the entries of consecutive pages, when its turn comes.
    UpdatePageTable {
        /// The address space.
        space: AddressSpaceId,
        /// GPU virtual address of the first page.
        gpu_va: u64,
        /// What each entry maps.
        page_size: PageSize,
        /// The entries.
        entries: &'a [Pte],
    },
    /// `FLUSH_TLB`: no engine uses an entry of this address space that was changed before. What comes
    /// after it in the system context begins when none does.
    FlushTlb {
        /// The address space.
        space: AddressSpaceId,
    },
    /// `NOTIFY_RESIDENCY`: an allocation that is accessed physically is at another address, or at
    /// none.
    NotifyResidency {
        /// The allocation.
        allocation: AllocationId,
        /// Its physical address now.
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
        /// Where the range is mapped in the paging process's GPU VA space; 0 when it is not.
        gpu_va: u64,
        /// The guest's own pages that are unmapped from the IOMMU; empty on eviction. Drivers of the
        /// reference know them by `hAllocation`; ours keeps nothing about allocations.
        pages: &'a [Extent],
    },
}

/// Most bytes in an operation.
pub const MAX_LENGTH: u64 = 64 << 30;
/// Most pages, or runs of pages, in an operation's list.
pub const MAX_PAGES: usize = 1024;

/// Packets that the driver built (`DXGKARG_BUILDPAGINGBUFFER`), bounded: when an operation does not
/// fit any more the buffer is submitted and the operation is built into the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PagingBuffer {
    packets: Vec<u8>,
}

/// Most bytes in a paging buffer.
pub const PAGING_BUFFER_SIZE: usize = 64 << 10;

/// The operation does not fit into what is left of the paging buffer
/// (`STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the paging buffer has no room for the operation")]
pub struct InsufficientDmaBuffer;

/// Why an operation was not built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BuildPagingBufferError {
    /// Submit the buffer and build into an empty one.
    #[error(transparent)]
    InsufficientDmaBuffer(#[from] InsufficientDmaBuffer),
    /// There is no page-table memory left for what is to be mapped, or no such address space.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
}

impl PagingBuffer {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What is in it.
    #[must_use]
    pub fn packets(&self) -> &[u8] {
        &self.packets
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Driver: appends packets, all or none.
    ///
    /// # Errors
    /// When there is not that much room left.
    pub fn append(&mut self, packets: &[u8]) -> Result<(), InsufficientDmaBuffer> {
        if packets.len() > PAGING_BUFFER_SIZE - self.packets.len() {
            return Err(InsufficientDmaBuffer);
        }
        self.packets.extend_from_slice(packets);
        Ok(())
    }
}
