// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where the values and logs of fences are, and at which GPU virtual addresses processes find them.
//!
//! | type | CurrentValue | MonitoredValue | published |
//! |---|---|---|---|
//! | default | system memory | system memory | yes |
//! | default, optimised | system memory | local memory, or system memory where there is not enough of it | yes |
//! | intra-GPU | local memory, or system memory where there is not enough of it | likewise | no |
//!
//! If other guests may have a fence, its CurrentValue is in memory that all adapters share, in place of the page of
//! system memory that its page of fences has.
//!
//! System memory is the segment `Fence`; local memory is the end of the segment that no CPU sees. Default fences are
//! optimised if the OS supports that. The values of a fence have one address in every process that has the fence, and
//! in the GPU's system process if the driver wants them there.
//!
//! Source: native GPU fence object, "Physical memory storage for current and monitored fence values" and
//! "D3DDDI_NATIVEFENCE_TYPE".

use crate::ddi::paging::LOCAL_START;
use crate::dxgkrnl::fence::features::NativeFences;
use crate::dxgkrnl::fence::pages::page_of;
use crate::hardware::{
    FENCE_LOGS_SIZE, FENCES_PER_PAGE, FenceStorage, PhysicalAddress, PhysicalPage, Segment,
    fence_log_address, fence_storage_size,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::FENCE_STRIDE;
use bellhop_protocol::control::allocation::SegmentSet;
use bellhop_protocol::control::fence::NativeFenceType;
use bellhop_protocol::fence_log::FenceLogType;
use bellhop_protocol::handoff::fence::SignalRule;

/// Where the host maps values in address spaces, unless a driver asks for a higher address: behind everything else
/// that the host maps.
const VALUES_START: u64 = 1 << 41;

/// Values are mapped below this address, at which the next mapping of the system process begins.
pub(crate) const VALUES_END: u64 = LOCAL_START;

/// Maximum distance in bytes between MonitoredValues: that between CurrentValues, so that the values of a page of
/// fences fill at most one page.
pub(crate) const MAX_STRIDE: u32 = FENCE_STRIDE as u32;

/// Pages of values for one page of fences: CurrentValues and MonitoredValues, each in system memory and in local
/// memory.
const VALUE_PAGES: u64 = 4;

/// Local memory holds values only if it has this many times as much for other uses.
const LEAVES: u64 = 8;

/// The kind of a fence that has values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FenceKind {
    /// A native fence of this type.
    Native(NativeFenceType),
    /// A monitored fence: each signal of the GPU interrupts, and no packet waits for it.
    Monitored,
}

/// Where the values of one guest's fences are.
#[derive(Debug)]
pub(crate) struct ValueStorage {
    slots: u32,
    /// First byte of the local memory for values, in the segment `Private`.
    local: Option<u64>,
    /// Whether MonitoredValues of default fences are in local memory.
    optimized: bool,
    /// Bytes between MonitoredValues.
    stride: u64,
    /// GPU virtual address of the first page of values.
    start: u64,
}

/// Bytes at the end of the segment `Private` that hold values of fences.
pub(crate) fn local_storage_size(slots: u32, private: u64, native: Option<NativeFences>) -> u64 {
    let is_used = native.is_some_and(|native| {
        let os = native.os.optimized_default_fence_type || native.os.intra_gpu_fence_type;
        os && native.driver.preferred_segments.contains(SegmentSet::PRIVATE)
    });
    let size = fence_storage_size(slots);
    if is_used && private / (LEAVES + 1) >= size { size } else { 0 }
}

/// The first GPU virtual address for the values of `pages` pages of fences, between `minimum` and `maximum`. Returns
/// `None` if there is no room.
pub(crate) fn values_start(pages: u32, minimum: u64, maximum: u64) -> Option<u64> {
    let start = minimum.max(VALUES_START).checked_next_multiple_of(PAGE_SIZE)?;
    let end = start.checked_add(VALUE_PAGES * u64::from(pages) * PAGE_SIZE)?;
    (end <= VALUES_END && end <= maximum.saturating_add(1)).then_some(start)
}

impl ValueStorage {
    /// Moves what is in the `private` bytes of the segment `Private` to where those end.
    pub(crate) fn ending_at(self, private: u64, end: u64) -> Self {
        Self { local: self.local.map(|local| local + (end - private)), ..self }
    }

    /// Creates the storage for `slots` fences of a guest that has `private` bytes in the segment `Private`.
    pub(crate) fn new(slots: u32, private: u64, native: Option<NativeFences>) -> Self {
        let size = local_storage_size(slots, private, native);
        Self {
            slots,
            local: (size > 0).then(|| private - size),
            optimized: native.is_some_and(|native| native.os.optimized_default_fence_type),
            stride: native.map_or(FENCE_STRIDE, |native| native.monitored_value_stride()),
            start: native.map_or(VALUES_START, |native| native.start),
        }
    }

    /// Whether local memory holds values.
    pub(crate) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// Bytes of values in each segment.
    fn size(&self) -> u64 {
        fence_storage_size(self.slots)
    }

    /// The pages of values of a page of fences, in the order of their addresses, and which of them packets may write:
    /// CurrentValues. `current` is the address of the CurrentValue of a fence that is alone in its page.
    pub(crate) fn pages(
        &self,
        page: u32,
        current: Option<PhysicalAddress>,
    ) -> Vec<(PhysicalPage, bool)> {
        let half = self.size() / 2;
        let local = self.local.map(|start| (Segment::Private, start));
        let starts = std::iter::once((Segment::Fence, 0)).chain(local);
        let pages = starts.flat_map(|(segment, start)| {
            let address = start + u64::from(page) * PAGE_SIZE;
            let current = PhysicalPage { segment, address };
            [(current, true), (PhysicalPage { address: address + half, ..current }, false)]
        });
        let mut pages: Vec<_> = pages.collect();
        if let (Some(PhysicalAddress { segment: Segment::CrossAdapter, address }), Some(first)) =
            (current, pages.first_mut())
        {
            first.0 = PhysicalPage { segment: Segment::CrossAdapter, address };
        }
        pages
    }

    /// Where a queue's log is; `slot` is that of the queue's progress fence.
    pub(crate) fn log(&self, slot: u32, log_type: FenceLogType) -> PhysicalAddress {
        fence_log_address(self.slots, slot, log_type)
    }

    /// GPU virtual address of both logs, that of waits first: behind the addresses of all values.
    pub(crate) fn logs_va(&self, slot: u32) -> u64 {
        let values = self.page_va(self.slots.div_ceil(FENCES_PER_PAGE));
        values + u64::from(slot) * FENCE_LOGS_SIZE
    }

    /// Where the values of a fence are.
    pub(crate) fn of(&self, slot: u32, kind: FenceKind) -> FenceStorage {
        let [current_offset, monitored_offset] = self.offsets_in_page(slot);
        let at = |local: bool, half, offset| {
            let (segment, start) = match self.local {
                Some(start) if local => (Segment::Private, start),
                _ => (Segment::Fence, 0),
            };
            let page = u64::from(page_of(slot)) * PAGE_SIZE;
            PhysicalAddress { segment, address: start + half + page + offset }
        };
        let is_intra_gpu = kind == FenceKind::Native(NativeFenceType::INTRA_GPU);
        let is_default = kind == FenceKind::Native(NativeFenceType::DEFAULT);
        FenceStorage {
            current: at(is_intra_gpu, 0, current_offset),
            monitored: at(
                is_intra_gpu || (is_default && self.optimized),
                self.size() / 2,
                monitored_offset,
            ),
            published: !is_intra_gpu,
            native: kind != FenceKind::Monitored,
            rule: SignalRule::Monotonic,
        }
    }

    /// Offsets of a fence's CurrentValue and MonitoredValue in their pages.
    fn offsets_in_page(&self, slot: u32) -> [u64; 2] {
        let index = u64::from(slot % FENCES_PER_PAGE);
        [index * FENCE_STRIDE, index * self.stride]
    }

    /// GPU virtual address of the values of a page of fences; their pages follow each other.
    pub(crate) fn page_va(&self, page: u32) -> u64 {
        self.start + VALUE_PAGES * u64::from(page) * PAGE_SIZE
    }

    /// GPU virtual addresses of a fence's CurrentValue and MonitoredValue.
    pub(crate) fn value_vas(&self, slot: u32, storage: &FenceStorage) -> [u64; 2] {
        let va = self.page_va(page_of(slot));
        let [current_offset, monitored_offset] = self.offsets_in_page(slot);
        let values =
            [(storage.current, 0, current_offset), (storage.monitored, 1, monitored_offset)];
        values.map(|(value, index, offset)| {
            let index = if value.segment == Segment::Private { index + 2 } else { index };
            va + index * PAGE_SIZE + offset
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddi::feature::{NativeFenceCaps, NativeFenceOsCaps};
    use crate::hardware::fence_segment_size;
    use std::collections::BTreeSet;

    const DEFAULT: FenceKind = FenceKind::Native(NativeFenceType::DEFAULT);
    const INTRA_GPU: FenceKind = FenceKind::Native(NativeFenceType::INTRA_GPU);
    const KINDS: [FenceKind; 3] = [DEFAULT, INTRA_GPU, FenceKind::Monitored];

    fn native(optimized: bool, intra_gpu: bool, stride: u32) -> NativeFences {
        let os = NativeFenceOsCaps {
            optimized_default_fence_type: optimized,
            intra_gpu_fence_type: intra_gpu,
        };
        let driver = NativeFenceCaps {
            monitored_value_stride: stride,
            preferred_segments: SegmentSet::PRIVATE,
            map_to_gpu_system_process: true,
            minimum_address: 0,
            maximum_address: u64::MAX,
        };
        let optimized_interrupt = false;
        NativeFences { os, driver, optimized_interrupt, start: VALUES_START + PAGE_SIZE }
    }

    #[test]
    fn no_two_values_are_in_one_place_and_each_is_in_a_page_that_is_mapped_where_its_address_says()
    {
        let natives = [None, Some(native(true, true, 64)), Some(native(false, true, 8))];
        for (private, native) in [0, 1 << 20].into_iter().flat_map(|p| natives.map(|n| (p, n))) {
            let storage = ValueStorage::new(130, private, native);
            for kind in KINDS {
                let mut seen = BTreeSet::new();
                for slot in 0..130 {
                    let values = storage.of(slot, kind);
                    let pages = storage.pages(page_of(slot), None);
                    let vas = storage.value_vas(slot, &values);
                    for (value, va, writable) in
                        [(values.current, vas[0], true), (values.monitored, vas[1], false)]
                    {
                        assert!(seen.insert((value.segment as u32, value.address)));
                        let index = (va - storage.page_va(page_of(slot))) / PAGE_SIZE;
                        let (page, is_writable) = pages[index as usize];
                        assert_eq!((page.segment, is_writable), (value.segment, writable));
                        assert_eq!(page.address + va % PAGE_SIZE, value.address);
                    }
                }
            }
        }
    }

    #[test]
    fn no_two_logs_are_in_one_place_nor_where_values_are() {
        let storage = ValueStorage::new(130, 0, None);
        let (waits, signals) = (FenceLogType::WAITS, FenceLogType::SIGNALS);
        let mut end =
            storage.pages(2, None).iter().map(|(page, _)| page.address).max().unwrap() + PAGE_SIZE;
        let mut va_end = storage.page_va(3);
        for slot in 0..130 {
            for log_type in [waits, signals] {
                let log = storage.log(slot, log_type);
                assert_eq!((log.segment, log.address), (Segment::Fence, end));
                end += PAGE_SIZE;
            }
            assert_eq!(storage.logs_va(slot), va_end);
            va_end += FENCE_LOGS_SIZE;
        }
        assert_eq!(fence_segment_size(130), end);
    }

    #[test]
    fn a_current_value_that_guests_share_is_mapped_in_place_of_its_own_page() {
        for private in [0, 1 << 20] {
            let storage = ValueStorage::new(130, private, Some(native(true, true, 64)));
            let own = storage.pages(1, None);
            let (segment, address) = (Segment::CrossAdapter, 5 * PAGE_SIZE);
            let current = PhysicalAddress { segment, address };
            let pages = storage.pages(1, Some(current));
            let page = PhysicalPage { segment, address };
            assert_eq!((pages[0], &pages[1..]), ((page, true), &own[1..]));
            let values = FenceStorage { current, ..storage.of(64, DEFAULT) };
            assert_eq!(storage.value_vas(64, &values)[0], storage.page_va(1));
        }
    }

    #[test]
    fn values_are_in_local_memory_only_where_there_is_much_more_of_it_and_the_os_does_that() {
        let segments = |private, native, kind| {
            let values = ValueStorage::new(64, private, native).of(0, kind);
            (values.current.segment, values.monitored.segment, values.published)
        };
        let (little, much) = (17 * PAGE_SIZE, 18 * PAGE_SIZE);
        let (fence, private) = (Segment::Fence, Segment::Private);
        let [all, none, intra_gpu, optimized] = [
            native(true, true, 64),
            native(false, false, 64),
            native(false, true, 64),
            native(true, false, 64),
        ]
        .map(Some);
        for (memory, native, kind, expected) in [
            (little, all, DEFAULT, (fence, fence, true)),
            (little, all, INTRA_GPU, (fence, fence, false)),
            (much, all, DEFAULT, (fence, private, true)),
            (much, all, INTRA_GPU, (private, private, false)),
            (much, none, DEFAULT, (fence, fence, true)),
            (much, intra_gpu, DEFAULT, (fence, fence, true)),
            (much, intra_gpu, INTRA_GPU, (private, private, false)),
            (much, optimized, DEFAULT, (fence, private, true)),
            (much, all, FenceKind::Monitored, (fence, fence, true)),
            (much, None, FenceKind::Monitored, (fence, fence, true)),
        ] {
            assert_eq!(segments(memory, native, kind), expected, "{native:?} {kind:?}");
        }
        assert_eq!(
            ValueStorage::new(64, much, all).of(0, INTRA_GPU).current.address,
            16 * PAGE_SIZE
        );
        assert_eq!(local_storage_size(64, much, none), 0);
        assert_eq!(local_storage_size(64, much, None), 0);
    }

    #[test]
    fn monitored_values_are_as_far_apart_as_the_driver_wants_them() {
        for stride in [8, 16, 64] {
            let storage = ValueStorage::new(64, 0, Some(native(true, true, stride)));
            let [first, second] = [0, 1].map(|slot| storage.of(slot, DEFAULT));
            assert_eq!(second.monitored.address - first.monitored.address, u64::from(stride));
            assert_eq!(second.current.address - first.current.address, FENCE_STRIDE);
        }
    }

    #[test]
    fn values_are_mapped_where_driver_and_host_have_room_for_all_of_them() {
        let bytes = VALUE_PAGES * 2 * PAGE_SIZE;
        let start = |minimum, maximum| values_start(2, minimum, maximum);
        assert_eq!(start(0, u64::MAX), Some(VALUES_START));
        assert_eq!(start(VALUES_START + 1, u64::MAX), Some(VALUES_START + PAGE_SIZE));
        assert_eq!(start(0, VALUES_START + bytes - 1), Some(VALUES_START));
        assert_eq!(start(0, VALUES_START + bytes - 2), None);
        assert_eq!(start(VALUES_END - bytes, u64::MAX), Some(VALUES_END - bytes));
        assert_eq!(start(VALUES_END - bytes + 1, u64::MAX), None);
        assert_eq!(start(u64::MAX, u64::MAX), None);
    }
}
