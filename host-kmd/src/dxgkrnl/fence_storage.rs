//! Where values of fences are, and at which GPU virtual addresses processes find them.
//!
//! | type | CurrentValue | MonitoredValue | published |
//! |---|---|---|---|
//! | default | system memory | local memory, or system memory where there is not enough of it | yes |
//! | intra-GPU | local memory, or system memory where there is not enough of it | likewise | no |
//!
//! System memory is the segment `Fence`, local memory the end of the segment that no CPU sees.
//!
//! Source: native GPU fence object, "Physical memory storage for current and monitored fence values" and
//! "D3DDDI_NATIVEFENCE_TYPE".

use super::fence_pages::page_of;
use crate::hardware::{
    FENCES_PER_PAGE, FenceStorage, PhysicalAddress, PhysicalPage, Segment, fence_storage_size,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::FENCE_STRIDE;
use bellhop_protocol::control::fence::NativeFenceType;

/// Where the host maps values in address spaces: behind all that it maps otherwise.
const FENCE_VA_START: u64 = 1 << 41;
/// Pages of values of a page of fences: CurrentValues and MonitoredValues in system memory, and the same in
/// local memory.
const VALUE_PAGES: u64 = 4;
/// Local memory is for values only where that leaves so many times as much for other things.
const LEAVES: u64 = 8;

/// Where the values of one guest's fences are.
#[derive(Debug)]
pub(super) struct ValueStorage {
    slots: u32,
    /// First byte of the local memory for values, in the segment `Private`.
    local: Option<u64>,
}

/// How much of the segment `Private` is for values of fences: its end.
pub(super) fn local_storage_size(slots: u32, private: u64) -> u64 {
    let size = fence_storage_size(slots);
    if private / (LEAVES + 1) >= size { size } else { 0 }
}

impl ValueStorage {
    /// For so many slots, of a guest with so much memory in the segment `Private`.
    pub(super) fn new(slots: u32, private: u64) -> Self {
        let size = local_storage_size(slots, private);
        Self { slots, local: (size > 0).then(|| private - size) }
    }

    /// Whether there is local memory for values.
    pub(super) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// Bytes in the segment `Fence`.
    pub(super) fn size(&self) -> u64 {
        fence_storage_size(self.slots)
    }

    /// The pages of values of a page of fences in the order of their addresses, and which of them packets
    /// may write: CurrentValues.
    pub(super) fn pages(&self, page: u32) -> Vec<(PhysicalPage, bool)> {
        let half = self.size() / 2;
        let local = self.local.map(|start| (Segment::Private, start));
        let starts = std::iter::once((Segment::Fence, 0)).chain(local);
        let pages = starts.flat_map(|(segment, start)| {
            let address = start + u64::from(page) * PAGE_SIZE;
            let current = PhysicalPage { segment, address };
            [(current, true), (PhysicalPage { address: address + half, ..current }, false)]
        });
        pages.collect()
    }

    /// Where the values of a fence are.
    pub(super) fn of(&self, slot: u32, fence_type: NativeFenceType) -> FenceStorage {
        let at = |segment, start| PhysicalAddress {
            segment,
            address: start + u64::from(page_of(slot)) * PAGE_SIZE + offset_in_page(slot),
        };
        let half = self.size() / 2;
        let system = |start| at(Segment::Fence, start);
        let local = |offset| match self.local {
            Some(start) => at(Segment::Private, start + offset),
            None => system(offset),
        };
        let is_default = fence_type == NativeFenceType::DEFAULT;
        FenceStorage {
            current: if is_default { system(0) } else { local(0) },
            monitored: local(half),
            published: is_default,
        }
    }
}

/// Offset of a fence's CurrentValue, and of its MonitoredValue, in its page.
fn offset_in_page(slot: u32) -> u64 {
    u64::from(slot % FENCES_PER_PAGE) * FENCE_STRIDE
}

/// GPU virtual address of the values of a page of fences; each page of them is behind the one before.
pub(super) fn page_va(page: u32) -> u64 {
    FENCE_VA_START + VALUE_PAGES * u64::from(page) * PAGE_SIZE
}

/// GPU virtual addresses of a fence's CurrentValue and MonitoredValue.
pub(super) fn value_vas(slot: u32, storage: &FenceStorage) -> [u64; 2] {
    let va = page_va(page_of(slot)) + offset_in_page(slot);
    [(storage.current, 0), (storage.monitored, 1)].map(|(value, index)| {
        let index = if value.segment == Segment::Fence { index } else { index + 2 };
        va + index * PAGE_SIZE
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const TYPES: [NativeFenceType; 2] = [NativeFenceType::DEFAULT, NativeFenceType::INTRA_GPU];

    #[test]
    fn no_two_values_are_in_one_place_and_each_is_in_a_page_that_is_mapped_where_its_address_says()
    {
        for private in [0, 1 << 20] {
            let storage = ValueStorage::new(130, private);
            for fence_type in TYPES {
                let mut seen = BTreeSet::new();
                for slot in 0..130 {
                    let values = storage.of(slot, fence_type);
                    let pages = storage.pages(page_of(slot));
                    let vas = value_vas(slot, &values);
                    for (value, va, writable) in
                        [(values.current, vas[0], true), (values.monitored, vas[1], false)]
                    {
                        assert!(seen.insert((value.segment as u32, value.address)));
                        let index = (va - page_va(page_of(slot))) / PAGE_SIZE;
                        let (page, is_writable) = pages[index as usize];
                        assert_eq!((page.segment, is_writable), (value.segment, writable));
                        assert_eq!(page.address + va % PAGE_SIZE, value.address);
                    }
                }
            }
        }
    }

    #[test]
    fn values_are_in_local_memory_only_where_there_is_much_more_of_it() {
        let segments = |private, fence_type| {
            let values = ValueStorage::new(64, private).of(0, fence_type);
            (values.current.segment, values.monitored.segment, values.published)
        };
        let (default, intra) = (NativeFenceType::DEFAULT, NativeFenceType::INTRA_GPU);
        let little = 17 * PAGE_SIZE;
        assert_eq!(segments(little, default), (Segment::Fence, Segment::Fence, true));
        assert_eq!(segments(little, intra), (Segment::Fence, Segment::Fence, false));
        let much = 18 * PAGE_SIZE;
        assert_eq!(segments(much, default), (Segment::Fence, Segment::Private, true));
        assert_eq!(segments(much, intra), (Segment::Private, Segment::Private, false));
        assert_eq!(ValueStorage::new(64, much).of(0, intra).current.address, 16 * PAGE_SIZE);
    }
}
