// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guest memory as the kernel accesses it.

use super::{GuestId, Segment, UnknownId};
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::allocation::Extent;

/// Memory of a guest besides its CPU-visible local memory, in bytes: whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentSizes {
    /// [`Segment::Private`], of each GPU. In a chain the segment has a part of this size for each, the master's last.
    pub private: u64,
    /// [`Segment::Backing`]
    pub backing: u64,
    /// Size of the aperture segment, which is only addresses; at most as many as follow
    /// [`APERTURE_START`](crate::ddi::paging::APERTURE_START).
    pub aperture: u64,
}

/// Guest memory as the kernel accesses it.
pub trait Memory {
    /// Zeroes a range of a segment other than the guest's own memory, and returns its pages to the host.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
    fn zero_memory(
        &self,
        guest: GuestId,
        segment: Segment,
        offset: u64,
        length: u64,
    ) -> Result<(), UnknownId>;

    /// Puts an area of the BAR into the guest's own memory, once: `extents` are together as long as the area. Returns
    /// false if the guest does not have that memory. Local memory may get less than the area has, and only the system
    /// context is told: page-table entries name the guest's own memory directly.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
    fn place_area(
        &self,
        guest: GuestId,
        kind: AreaKind,
        extents: &[Extent],
    ) -> Result<bool, UnknownId>;

    /// Whether the guest currently has memory at all of these guest-physical addresses.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
    fn is_guest_memory(&self, guest: GuestId, address: u64, length: u64)
    -> Result<bool, UnknownId>;

    /// The 64-bit word at `offset` of a guest's local memory, a multiple of 8.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
    fn read_local_word(&self, guest: GuestId, offset: u64) -> Result<u64, UnknownId>;

    /// Writes packets at an offset of a guest's DMA buffers where no engine executes.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
    fn write_dma_buffer(
        &self,
        guest: GuestId,
        offset: u64,
        packets: &[u8],
    ) -> Result<(), UnknownId>;
}
