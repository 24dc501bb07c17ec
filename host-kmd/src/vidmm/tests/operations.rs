// SPDX-License-Identifier: MIT OR Apache-2.0

//! The operations of steps: notifications, and page-table entries of either size.

use super::*;

fn notifications(log: &[Operation]) -> Vec<(AllocationNotification, u64, u64)> {
    let notification = |operation: &Operation| match *operation {
        Operation::NotifyAlloc { notification, offset, length, .. } => {
            Some((notification, offset, length))
        }
        _ => None,
    };
    log.iter().filter_map(notification).collect()
}

/// Source: "BuildPagingBuffer" of the Windows KMD overview, "NotifyResidency".
#[test]
fn the_driver_is_told_where_what_is_accessed_physically_is_after_its_bytes_are_there() {
    let is_notice = |operation: &Operation| matches!(operation, Operation::NotifyResidency { .. });
    for accessed_physically in [true, false] {
        let mut vidmm = vidmm(4, 0, 1);
        let description = Description {
            accessed_physically,
            system: Some(own_pages(1, 3)),
            preferred: SegmentSet::SYSTEM,
            ..description(1, 3, LOCAL_ONLY | SegmentSet::SYSTEM)
        };
        let allocation = vidmm.create(description);
        let whole = mapping(SYSTEM, APERTURE_START + 8 * PAGE_SIZE, 3 * PAGE_SIZE);
        vidmm.map(allocation, whole).unwrap();
        // Returns the notices, and checks that one follows the last change if and only if access is physical.
        let told = |vidmm: &mut VidMm, is_change: fn(&Operation) -> bool| {
            let log = operations(vidmm, 1 << 20);
            let change = log.iter().rposition(is_change).expect("a change");
            let notices = log.iter().filter(|operation| is_notice(operation)).cloned();
            assert_eq!(log[change..].iter().any(is_notice), accessed_physically, "{log:?}");
            notices.collect::<Vec<_>>()
        };
        let at = |address| {
            let notice = Operation::NotifyResidency { allocation, address };
            if accessed_physically { vec![notice] } else { Vec::new() }
        };
        vidmm.make_resident(1, device(1), &[allocation]).unwrap();
        let is_mapping = |operation: &Operation| match operation {
            Operation::UpdatePageTable { entries, .. } => entries[0].page().is_some(),
            _ => false,
        };
        // The guest's own pages are not contiguous; those of the aperture are.
        assert_eq!(told(&mut vidmm, is_mapping), at(Some(whole.gpu_va)));
        let range = vidmm.local[0].pool.take_at(PAGE_SIZE, 3 * PAGE_SIZE).unwrap();
        vidmm.move_to(allocation, Place::Local(LocalSegment::Visible, range)).unwrap();
        let is_transfer =
            |operation: &Operation| matches!(operation, Operation::VirtualTransfer { .. });
        assert_eq!(told(&mut vidmm, is_transfer), at(Some(LOCAL_START + PAGE_SIZE)));
        vidmm.evict(1, device(1), allocation).unwrap();
        let is_flush = |operation: &Operation| *operation == Operation::FlushTlb(SYSTEM);
        assert_eq!(told(&mut vidmm, is_flush), at(None));
    }
}

/// Source: "Allocation notification", "NotifyEviction".
#[test]
fn an_eviction_is_notified_in_chunks_of_the_window_each_mapped_for_it() {
    let mut vidmm = vidmm(4, 0, 1);
    let description = Description {
        notify_eviction: true,
        system: Some(own_pages(1, 5)),
        ..description(1, 5, SegmentSet::SYSTEM)
    };
    let id = resident(&mut vidmm, description);
    vidmm.map(id, mapping(AddressSpaceId(1), 1 << 20, 5 * PAGE_SIZE)).unwrap();
    assert!(notifications(&operations(&mut vidmm, 2 * PAGE_SIZE)).is_empty());
    vidmm.evict(1, device(1), id).unwrap();
    let log = operations(&mut vidmm, 2 * PAGE_SIZE);
    let eviction = AllocationNotification::Eviction;
    let (page, two) = (PAGE_SIZE, 2 * PAGE_SIZE);
    assert_eq!(
        notifications(&log),
        [(eviction, 0, two), (eviction, two, two), (eviction, 2 * two, page)]
    );
    // The process's page tables no longer map it when the driver is first notified.
    let first = log.iter().position(|o| matches!(o, Operation::NotifyAlloc { .. })).unwrap();
    let flush = log.iter().position(|o| *o == Operation::FlushTlb(AddressSpaceId(1))).unwrap();
    assert!(flush < first);
    for (index, operation) in log.iter().enumerate() {
        if let Operation::NotifyAlloc { gpu_va, .. } = *operation {
            let maps = |operation: &Operation, valid: bool| match operation {
                Operation::UpdatePageTable { space, gpu_va: at, entries, .. } => {
                    *space == SYSTEM
                        && *at >= gpu_va
                        && entries.iter().all(|entry| entry.page().is_some() == valid)
                }
                _ => false,
            };
            assert!(maps(&log[index - 1], true), "mapped before");
            assert!(maps(&log[index + 1], false), "unmapped after");
        }
    }
}

#[test]
fn what_the_driver_keeps_in_its_own_form_is_plain_before_a_cpu_sees_it() {
    let mut vidmm = vidmm(4, 0, 1);
    let description = Description { notify_eviction: true, ..description(1, 2, ANYWHERE) };
    let id = resident(&mut vidmm, description);
    vidmm.evict(1, device(1), id).unwrap();
    operations(&mut vidmm, 1 << 20);
    assert!(is_local(&vidmm, id), "no allocation needed the room");
    vidmm.lock(1, id).unwrap();
    let log = operations(&mut vidmm, 1 << 20);
    assert!(is_local(&vidmm, id));
    assert_eq!(notifications(&log).len(), 1, "it went through system memory");
    vidmm.lock(1, id).unwrap();
    assert_eq!(vidmm.make_resident(1, device(1), &[id]), Err(VidMmError::InUse));
    vidmm.unlock(1, id).unwrap();
    vidmm.unlock(1, id).unwrap();
    vidmm.make_resident(1, device(1), &[id]).unwrap();
}

#[test]
fn an_eviction_is_notified_only_from_system_memory() {
    let mut vidmm = vidmm(4, 0, 1);
    let description = Description {
        notify_eviction: true,
        ..description(1, 2, SegmentSet::LOCAL | SegmentSet::SYSTEM)
    };
    let id = resident(&mut vidmm, description);
    assert_eq!(vidmm.lock(1, id), Err(VidMmError::InUse), "its bytes are not plain");
    vidmm.evict(1, device(1), id).unwrap();
    assert!(notifications(&operations(&mut vidmm, PAGE_SIZE)).is_empty(), "it is in local memory");
    // It leaves device access through system memory.
    let whole = super::description(1, 4, LOCAL_ONLY);
    resident(&mut vidmm, whole);
    let log = operations(&mut vidmm, 2 * PAGE_SIZE);
    let copied = log.iter().rposition(|o| matches!(o, Operation::VirtualTransfer { .. })).unwrap();
    let notified = log.iter().position(|o| matches!(o, Operation::NotifyAlloc { .. })).unwrap();
    assert!(copied < notified);
}

/// Source: "Allocation notification", "NotifyIoMmuUnmap".
#[test]
fn unmapping_pages_from_the_iommu_is_notified_and_waits_for_all_paging() {
    for both in [false, true] {
        let mut vidmm = vidmm(4, 0, 1);
        let description = Description {
            notify_eviction: both,
            notify_io_mmu_unmap: true,
            system: Some(own_pages(1, 3)),
            ..description(1, 3, SegmentSet::SYSTEM)
        };
        let id = resident(&mut vidmm, description);
        operations(&mut vidmm, 1 << 20);
        vidmm.evict(1, device(1), id).unwrap();
        let log = operations(&mut vidmm, 1 << 20);
        // One reason per call, and this one last.
        let (unmap, length) = (AllocationNotification::IoMmuUnmap, 3 * PAGE_SIZE);
        assert_eq!(notifications(&log).len(), if both { 2 } else { 1 });
        assert_eq!(notifications(&log).last(), Some(&(unmap, 0, length)));
        assert_eq!(log.last(), Some(&Operation::Wait));
    }
}

/// Pages that an allocation leaves for local memory leave device access. Source: "Allocation notification",
/// "NotifyIoMmuUnmap".
#[test]
fn pages_that_an_allocation_leaves_for_local_memory_are_unmapped_from_the_iommu() {
    let mut vidmm = vidmm(4, 0, 1);
    let description = Description {
        notify_eviction: true,
        notify_io_mmu_unmap: true,
        system: Some(own_pages(1, 3)),
        preferred: SegmentSet::SYSTEM,
        ..description(1, 3, LOCAL_ONLY | SegmentSet::SYSTEM)
    };
    let id = resident(&mut vidmm, description);
    assert!(notifications(&operations(&mut vidmm, 1 << 20)).is_empty());
    let range = vidmm.local[0].pool.take_at(PAGE_SIZE, 3 * PAGE_SIZE).unwrap();
    vidmm.move_to(id, Place::Local(LocalSegment::Visible, range)).unwrap();
    let log = operations(&mut vidmm, 1 << 20);
    let unmap = (AllocationNotification::IoMmuUnmap, 0, 3 * PAGE_SIZE);
    assert_eq!(notifications(&log), [unmap], "moving it is no eviction");
    let place = |is: fn(&Operation) -> bool| log.iter().position(is).expect("an operation");
    let copied = place(|operation| matches!(operation, Operation::VirtualTransfer { .. }));
    let notified = place(|operation| matches!(operation, Operation::NotifyAlloc { .. }));
    assert!(copied < notified, "the copy is encoded as the pages were");
    assert_eq!(log.get(notified + 1), Some(&Operation::Wait));
    // In local memory, none of the pages remains to be unmapped.
    vidmm.destroy(id).unwrap();
    assert!(notifications(&operations(&mut vidmm, 1 << 20)).is_empty());
}

#[test]
fn pages_that_are_aligned_on_both_sides_are_large() {
    let mut vidmm = vidmm(64, 0, 1);
    let id = resident(&mut vidmm, description(1, 40, LOCAL_ONLY));
    operations(&mut vidmm, 1 << 20);
    let large = PageSize::Large.bytes();
    let mapping = |gpu_va, offset| Mapping {
        offset,
        ..mapping(AddressSpaceId(1), gpu_va, 40 * PAGE_SIZE - offset)
    };
    let mut sizes = |mapping| {
        vidmm.map(id, mapping).unwrap();
        let log = operations(&mut vidmm, 1 << 20);
        log.iter()
            .map(|operation| match operation {
                Operation::UpdatePageTable { page_size, entries, .. } => {
                    (*page_size, entries.len())
                }
                _ => panic!("{operation:?}"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(sizes(mapping(large * 16, 0)), [(PageSize::Large, 2), (PageSize::Small, 8)]);
    let (small, offset) = (PageSize::Small, 4 * PAGE_SIZE);
    assert_eq!(
        sizes(mapping(large * 32 + offset, offset)),
        [(small, 12), (PageSize::Large, 1), (small, 8)]
    );
    assert_eq!(sizes(mapping(large * 48 + PAGE_SIZE, 0)), [(small, 40)]);
}
