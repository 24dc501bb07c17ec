// SPDX-License-Identifier: MIT OR Apache-2.0

//! The BAR: one shared-memory region that holds everything the fast path touches.
//!
//! A [`BarHeader`] page at offset 0 names the areas. Each area is *meant* for one direction, but no VMM enforces
//! that: the host decides from its own copies, which the BAR merely publishes.

use crate::PAGE_SIZE;
use crate::features::Version;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First bytes of the BAR, `"BLHP BAR"`. The host writes them last, so a guest that reads them sees a complete
/// header.
pub const BAR_MAGIC: u64 = u64::from_le_bytes(*b"BLHP BAR");

/// Bytes from one doorbell status (or last-queued value) to the next: a cache line, so that no two queues share
/// one.
pub const STATUS_STRIDE: u64 = 64;
/// Bytes from one published CurrentValue to the next.
pub const FENCE_STRIDE: u64 = 64;
/// Number of areas that a header can name.
pub const AREA_SLOTS: usize = 8;

open_enum! {
    /// What an [`Area`] holds.
    pub struct AreaKind: u32 {
        /// An unused slot of the header.
        NONE = 0;
        /// One page for each doorbell; the guest writes.
        DOORBELLS = 1;
        /// Last-queued progress-fence value of each doorbell's HW queue; the guest writes.
        PROGRESS = 2;
        /// Doorbell status storage; the guest reads.
        STATUS = 3;
        /// Published CurrentValues of native fences; the guest reads.
        FENCES = 4;
        /// CPU-visible local memory; both sides read and write.
        LOCAL_MEMORY = 5;
    }
}

/// A part of the BAR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Area {
    /// What the area holds.
    pub kind: AreaKind,
    /// Bytes from one element to the next; 0 for an area without elements.
    pub stride: u32,
    /// Offset in bytes from the BAR's start, a multiple of the page size.
    pub offset: u64,
    /// Length in bytes, a multiple of the page size.
    pub length: u64,
}
crate::assert_layout!(Area, 24, kind at 0, stride at 4, offset at 8, length at 16);

/// The page at offset 0 of the BAR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct BarHeader {
    /// [`BAR_MAGIC`].
    pub magic: u64,
    /// Version of the BAR's layout: the protocol version.
    pub version: Version,
    /// Number of used slots in `areas`.
    pub area_count: u32,
    /// The areas, in the order of their offsets.
    pub areas: [Area; AREA_SLOTS],
}
crate::assert_layout!(BarHeader, 208, magic at 0, version at 8, area_count at 12, areas at 16);

/// Offset of the doorbell word inside the page of doorbell `slot`, in bytes.
///
/// The offset grows by a cache line from slot to slot. The words of neighbouring doorbells therefore fall into
/// different cache sets, and scanning many doorbells does not evict them all.
#[must_use]
pub const fn doorbell_word_offset(slot: u32) -> u64 {
    (slot as u64 * 64) % PAGE_SIZE
}

/// Offsets of the areas of a BAR, computed from its element counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarLayout {
    /// Number of doorbells, statuses and last-queued values.
    pub doorbell_count: u32,
    /// Number of published CurrentValues.
    pub fence_count: u32,
    /// Bytes of CPU-visible local memory, a multiple of the page size.
    pub local_memory: u64,
}

impl BarLayout {
    /// The areas in the order of their offsets.
    #[must_use]
    pub const fn areas(&self) -> [Area; 5] {
        const fn pages(bytes: u64) -> u64 {
            bytes.div_ceil(PAGE_SIZE) * PAGE_SIZE
        }
        let mut offset = PAGE_SIZE;
        let sizes = [
            (AreaKind::DOORBELLS, PAGE_SIZE, self.doorbell_count as u64 * PAGE_SIZE),
            (AreaKind::PROGRESS, STATUS_STRIDE, self.doorbell_count as u64 * STATUS_STRIDE),
            (AreaKind::STATUS, STATUS_STRIDE, self.doorbell_count as u64 * STATUS_STRIDE),
            (AreaKind::FENCES, FENCE_STRIDE, self.fence_count as u64 * FENCE_STRIDE),
            (AreaKind::LOCAL_MEMORY, 0, self.local_memory),
        ];
        let mut areas = [Area { kind: AreaKind::NONE, stride: 0, offset: 0, length: 0 }; 5];
        let mut index = 0;
        while index < sizes.len() {
            let (kind, stride, bytes) = sizes[index];
            areas[index] = Area { kind, stride: stride as u32, offset, length: pages(bytes) };
            offset += pages(bytes);
            index += 1;
        }
        areas
    }

    /// The content of the header page.
    #[must_use]
    pub const fn header(&self) -> BarHeader {
        let used = self.areas();
        let mut areas =
            [Area { kind: AreaKind::NONE, stride: 0, offset: 0, length: 0 }; AREA_SLOTS];
        let mut index = 0;
        while index < used.len() {
            areas[index] = used[index];
            index += 1;
        }
        BarHeader {
            magic: BAR_MAGIC,
            version: Version::CURRENT,
            area_count: used.len() as u32,
            areas,
        }
    }

    /// Offset in bytes of the end of the last area.
    #[must_use]
    pub const fn end(&self) -> u64 {
        let last = self.areas()[4];
        last.offset + last.length
    }

    /// Size of the BAR in bytes: the smallest power of two that holds all areas. QEMU requires a power of two of a
    /// shared-memory region behind a PCI BAR.
    #[must_use]
    pub const fn bar_size(&self) -> u64 {
        self.end().next_power_of_two()
    }

    const fn area_offset(&self, index: usize) -> u64 {
        self.areas()[index].offset
    }

    /// Offset in the BAR of the word of doorbell `slot`.
    #[must_use]
    pub const fn doorbell(&self, slot: u32) -> u64 {
        self.area_offset(0) + slot as u64 * PAGE_SIZE + doorbell_word_offset(slot)
    }

    /// Offset in the BAR of the last-queued value of doorbell `slot`.
    #[must_use]
    pub const fn last_queued(&self, slot: u32) -> u64 {
        self.area_offset(1) + slot as u64 * STATUS_STRIDE
    }

    /// Offset in the BAR of the status storage of doorbell `slot`.
    #[must_use]
    pub const fn status(&self, slot: u32) -> u64 {
        self.area_offset(2) + slot as u64 * STATUS_STRIDE
    }

    /// Offset in the BAR of the published CurrentValue of fence `slot`.
    #[must_use]
    pub const fn fence(&self, slot: u32) -> u64 {
        self.area_offset(3) + slot as u64 * FENCE_STRIDE
    }

    /// Offset in the BAR of the first byte of local memory.
    #[must_use]
    pub const fn local_memory(&self) -> u64 {
        self.area_offset(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_follow_each_other_and_fill_a_power_of_two() {
        let layout = BarLayout { doorbell_count: 100, fence_count: 70, local_memory: 1 << 20 };
        let mut end = PAGE_SIZE;
        for area in layout.areas() {
            assert_eq!(area.offset, end);
            assert_eq!(area.length % PAGE_SIZE, 0);
            end += area.length;
        }
        assert!(layout.bar_size().is_power_of_two());
        assert!(layout.bar_size() >= end);
    }

    #[test]
    fn doorbell_words_of_neighbours_fall_into_different_cache_sets() {
        let set = |slot| (doorbell_word_offset(slot) / 64) % 64;
        for slot in 0..63 {
            assert_ne!(set(slot), set(slot + 1));
        }
        assert_eq!(doorbell_word_offset(64), 0);
    }
}
