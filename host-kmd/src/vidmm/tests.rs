//! VidMm against a simple model: memory as pages with a content each, page tables as maps, engines
//! that remember every translation until they are told to forget it.

use super::operations::{Operation, Operations, Window};
use super::pool::PageRange;
use super::segment::{EvictionOrder, Group, LocalSegment, Memory, Place};
use super::step::{Mapping, Notice, Plan, Step};
use super::{Description, VidMm, VidMmError};
use crate::ddi::paging::{
    APERTURE_START, AllocationId, AllocationNotification, LOCAL_START, PRIVATE_START, PageSize,
};
use crate::hardware::{AddressSpaceId, DriverProtection, PhysicalPage, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{Extent, SegmentSet};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

const SYSTEM: AddressSpaceId = AddressSpaceId(1000);
const LOCAL_ONLY: SegmentSet = SegmentSet::LOCAL;
const ANYWHERE: SegmentSet = SegmentSet::all();

/// A content of a page; 0 is zeroes.
type Content = u64;

#[derive(Default)]
struct Machine {
    pages: HashMap<PhysicalPage, Content>,
    tables: HashMap<(AddressSpaceId, u64), (PhysicalPage, bool, PageSize)>,
    tlb: HashMap<(AddressSpaceId, u64), PhysicalPage>,
    steps: VecDeque<Step>,
    freed: Vec<PageRange>,
    /// What the driver was told of allocations that are accessed physically.
    residency: HashMap<AllocationId, Option<u64>>,
    log: Vec<Operation>,
}

impl Machine {
    /// Where an engine accesses a page: where it remembers, or else where the page tables say.
    fn translate(&mut self, space: AddressSpaceId, gpu_va: u64) -> Option<PhysicalPage> {
        let walked = self.tables.get(&(space, gpu_va)).map(|(page, ..)| *page);
        match self.tlb.get(&(space, gpu_va)) {
            Some(page) => Some(*page),
            None => {
                self.tlb.insert((space, gpu_va), walked?);
                walked
            }
        }
    }

    /// The page that an engine accesses by a physical address.
    fn physical_page(&mut self, address: u64) -> PhysicalPage {
        match address {
            APERTURE_START.. => self.translate(SYSTEM, address).expect("a page of the aperture"),
            PRIVATE_START.. => {
                PhysicalPage { segment: Segment::Private, address: address - PRIVATE_START }
            }
            _ => PhysicalPage { segment: Segment::Local, address: address - LOCAL_START },
        }
    }

    fn perform(&mut self, operation: &Operation) {
        match operation {
            Operation::UpdatePageTable { space, gpu_va, page_size, entries } => {
                assert_eq!(gpu_va % page_size.bytes(), 0);
                for (index, entry) in entries.iter().enumerate() {
                    let at = gpu_va + index as u64 * page_size.bytes();
                    for page in (0..page_size.bytes()).step_by(PAGE_SIZE as usize) {
                        let key = (*space, at + page);
                        let before = self.tables.remove(&key);
                        if let Some(PhysicalPage { segment, address }) = entry.page() {
                            assert_eq!(address % page_size.bytes(), 0);
                            let to = PhysicalPage { segment, address: address + page };
                            let value = (to, entry.is_writable(), *page_size);
                            assert!(before.is_none_or(|before| before == value), "{key:x?}");
                            self.tables.insert(key, value);
                        } else if let Some((.., size)) = before {
                            assert_eq!(size, *page_size, "divided otherwise: {key:x?}");
                        }
                    }
                }
            }
            Operation::FlushTlb(space) => self.tlb.retain(|(of, _), _| of != space),
            Operation::VirtualFill { destination, length } => {
                for at in (0..*length).step_by(PAGE_SIZE as usize) {
                    let page = self.translate(SYSTEM, destination + at).expect("a mapped window");
                    self.pages.remove(&page);
                }
            }
            Operation::VirtualTransfer { source, destination, length } => {
                for at in (0..*length).step_by(PAGE_SIZE as usize) {
                    let from = self.translate(SYSTEM, source + at).expect("a mapped source");
                    let to = self.translate(SYSTEM, destination + at).expect("a mapped target");
                    let content = self.pages.get(&from).copied().unwrap_or(0);
                    self.pages.insert(to, content);
                }
            }
            Operation::NotifyAlloc { notification, gpu_va, length, .. } => {
                if *notification == AllocationNotification::Eviction {
                    for at in (0..*length).step_by(PAGE_SIZE as usize) {
                        assert!(self.translate(SYSTEM, gpu_va + at).is_some());
                    }
                }
            }
            Operation::Discard { address, length } => {
                // Whoever still needed it would see that.
                for at in (0..*length).step_by(PAGE_SIZE as usize) {
                    let page = self.physical_page(address + at);
                    self.pages.insert(page, Content::MAX);
                }
            }
            Operation::NotifyResidency { allocation, address } => {
                self.residency.insert(*allocation, *address);
            }
            Operation::Wait => {}
        }
        self.log.push(operation.clone());
    }

    /// Performs up to so many operations.
    fn run(&mut self, operations: &mut Operations, mut most: usize) {
        loop {
            while let Some(operation) = operations.peek().cloned() {
                if most == 0 {
                    return;
                }
                most -= 1;
                operations.pop();
                self.perform(&operation);
            }
            match self.steps.pop_front() {
                Some(step) => operations.begin(step),
                None => return,
            }
        }
    }
}

fn description(process: u32, pages: u64, supported: SegmentSet) -> Description {
    Description {
        process,
        size: pages * PAGE_SIZE,
        supported,
        preferred: SegmentSet::LOCAL,
        eviction: SegmentSet::empty(),
        cpu_visible: true,
        priority: 100,
        accessed_physically: false,
        notify_eviction: false,
        notify_io_mmu_unmap: false,
        system: None,
    }
}

fn own_pages(first: u64, pages: u64) -> Memory {
    // Backwards: no two neighbours are neighbours.
    let extents = (first..first + pages)
        .rev()
        .map(|page| Extent { address: page * PAGE_SIZE, length: PAGE_SIZE })
        .collect();
    Memory { segment: Segment::System, extents }
}

fn vidmm(visible: u64, private: u64, processes: u32) -> VidMm {
    let mut vidmm = VidMm::new(visible * PAGE_SIZE, private * PAGE_SIZE, 1 << 30);
    for process in 1..=processes {
        vidmm.add_process(process);
    }
    vidmm
}

fn device(process: u32) -> Handle {
    Handle(process.into())
}

fn is_local(vidmm: &VidMm, id: AllocationId) -> bool {
    matches!(vidmm.allocations[&id].place, Place::Local(LocalSegment::Visible, _))
}

fn is_private(vidmm: &VidMm, id: AllocationId) -> bool {
    matches!(vidmm.allocations[&id].place, Place::Local(LocalSegment::Private, _))
}

fn resident(vidmm: &mut VidMm, description: Description) -> AllocationId {
    let process = description.process;
    let id = vidmm.create(description);
    vidmm.make_resident(device(process), &[id]).unwrap();
    id
}

#[test]
fn creating_an_allocation_takes_no_memory() {
    let mut vidmm = vidmm(4, 0, 1);
    for _ in 0..1000 {
        vidmm.create(description(1, 4, ANYWHERE));
    }
    assert_eq!(vidmm.take_plan(), Plan::default());
    assert!(vidmm.local[0].pool.is_unused() && vidmm.backing.is_unused());
}

#[test]
fn new_memory_is_zeroed_and_what_is_unwanted_goes_first_then_what_matters_least_then_what_is_oldest()
 {
    let mut vidmm = vidmm(4, 0, 1);
    let important =
        resident(&mut vidmm, Description { priority: 200, ..description(1, 1, ANYWHERE) });
    let old = resident(&mut vidmm, description(1, 1, ANYWHERE));
    let new = resident(&mut vidmm, description(1, 1, ANYWHERE));
    let unwanted =
        resident(&mut vidmm, Description { priority: 200, ..description(1, 1, ANYWHERE) });
    let steps = vidmm.take_plan().steps;
    assert!(steps.iter().all(|step| matches!(step, Step::Zero { .. })), "{steps:?}");
    vidmm.evict(device(1), unwanted).unwrap();
    assert!(is_local(&vidmm, unwanted), "nobody needs the room");
    let place = |vidmm: &mut VidMm| resident(vidmm, description(1, 1, ANYWHERE));
    place(&mut vidmm);
    assert!(!is_local(&vidmm, unwanted));
    assert!([important, old, new].iter().all(|id| is_local(&vidmm, *id)));
    place(&mut vidmm);
    assert!(!is_local(&vidmm, old) && vidmm.is_present(old), "it is demoted");
    vidmm.touch(new).unwrap();
    vidmm.set_priority(new, 50).unwrap();
    place(&mut vidmm);
    assert!(!is_local(&vidmm, new), "it matters least now");
    for _ in 0..8 {
        place(&mut vidmm);
    }
    assert!(is_local(&vidmm, important), "it is more important than what came");
}

#[test]
fn what_may_be_evicted_to_the_private_segment_goes_there_before_it_goes_home() {
    let mut vidmm = vidmm(1, 1, 1);
    let supported = ANYWHERE;
    let movable = Description { eviction: SegmentSet::PRIVATE, ..description(1, 1, supported) };
    let first = resident(&mut vidmm, movable);
    let other = Description { supported: SegmentSet::LOCAL, ..description(1, 1, supported) };
    let second = resident(&mut vidmm, other);
    assert!(is_private(&vidmm, first) && is_local(&vidmm, second));
}

#[test]
fn a_process_within_its_budget_takes_from_one_that_is_over_and_gives_back() {
    let mut vidmm = vidmm(4, 0, 1);
    let greedy: Vec<_> =
        (0..4).map(|_| resident(&mut vidmm, description(1, 1, LOCAL_ONLY))).collect();
    vidmm.take_plan();
    vidmm.add_process(2);
    let trim = Notice::Trim { process: 1, bytes: 2 * PAGE_SIZE };
    assert_eq!(vidmm.take_plan().notices, [trim]);

    let modest: Vec<_> =
        (0..2).map(|_| resident(&mut vidmm, description(2, 1, LOCAL_ONLY))).collect();
    let plan = vidmm.take_plan();
    assert!(plan.notices.contains(&Notice::Suspend(1)));
    assert!(plan.held.contains(&1));
    assert!(vidmm.is_suspended(1) && !vidmm.is_suspended(2));
    assert!(greedy[..2].iter().all(|id| !vidmm.is_present(*id)), "the oldest went");
    // Both are at their budgets: neither gets more.
    let more = vidmm.create(description(2, 1, LOCAL_ONLY));
    let refused = vidmm.make_resident(device(2), &[more]);
    assert_eq!(refused, Err(VidMmError::NoRoom(PAGE_SIZE)));

    vidmm.evict(device(2), modest[0]).unwrap();
    assert!(vidmm.is_suspended(1), "one is still missing");
    vidmm.evict(device(1), greedy[0]).unwrap();
    let notices = vidmm.take_plan().notices;
    assert!(notices.contains(&Notice::Resume(1)), "{notices:?}");
    assert!(vidmm.is_present(greedy[1]));
}

#[test]
fn more_than_can_ever_fit_is_said_to_be_that() {
    let mut vidmm = vidmm(4, 4, 1);
    let all = vidmm.create(description(1, 5, LOCAL_ONLY));
    let never = VidMmError::NeverFits(5 * PAGE_SIZE);
    assert_eq!(vidmm.make_resident(device(1), &[all]), Err(never));
    let parts: Vec<_> = (0..5).map(|_| vidmm.create(description(1, 1, LOCAL_ONLY))).collect();
    assert_eq!(vidmm.make_resident(device(1), &parts), Err(never));
    assert!(parts.iter().all(|id| !vidmm.is_present(*id)), "all or none");
    vidmm.make_resident(device(1), &parts[1..]).unwrap();
    assert_eq!(vidmm.lock(all), Err(never));
    let huge = vidmm.create(description(1, 1 << 40, ANYWHERE));
    let size = PAGE_SIZE << 40;
    assert_eq!(vidmm.make_resident(device(1), &[huge]), Err(VidMmError::NoBacking(size)));
}

#[test]
fn what_is_locked_stays_until_it_is_unlocked_as_often() {
    let mut vidmm = vidmm(2, 2, 1);
    let supported = SegmentSet::LOCAL | SegmentSet::PRIVATE | SegmentSet::SYSTEM;
    let preferred = SegmentSet::PRIVATE;
    let id = resident(&mut vidmm, Description { preferred, ..description(1, 1, supported) });
    assert!(is_private(&vidmm, id));
    let place = vidmm.lock(id).unwrap();
    assert!(is_local(&vidmm, id), "where a CPU reaches it");
    assert_eq!(vidmm.lock(id), Ok(place));
    for _ in 0..6 {
        resident(&mut vidmm, description(1, 1, ANYWHERE));
    }
    vidmm.unlock(id).unwrap();
    resident(&mut vidmm, description(1, 1, ANYWHERE));
    assert_eq!(vidmm.allocations[&id].place, place);
    vidmm.unlock(id).unwrap();
    assert_eq!(vidmm.unlock(id), Err(VidMmError::Unbalanced));
    resident(&mut vidmm, description(1, 2, LOCAL_ONLY));
    assert!(!is_local(&vidmm, id));

    let invisible = Description { cpu_visible: false, ..description(1, 1, supported) };
    let invisible = vidmm.create(invisible);
    assert_eq!(vidmm.lock(invisible), Err(VidMmError::NotLockable));
}

/// Operations of all steps so far.
fn operations(vidmm: &mut VidMm, window: u64) -> Vec<Operation> {
    let mut operations = Operations::new(Window::new(SYSTEM, window));
    let mut machine = Machine::default();
    machine.steps.extend(vidmm.take_plan().steps);
    machine.run(&mut operations, usize::MAX);
    machine.log
}

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
        let mapping = Mapping {
            space: SYSTEM,
            gpu_va: APERTURE_START + 8 * PAGE_SIZE,
            length: 3 * PAGE_SIZE,
            offset: 0,
            writable: true,
            driver: DriverProtection::default(),
        };
        vidmm.map(allocation, mapping).unwrap();
        // What is behind the last change that it follows from, and what the driver is told.
        let told = |vidmm: &mut VidMm, is_change: fn(&Operation) -> bool| {
            let log = operations(vidmm, 1 << 20);
            let change = log.iter().rposition(is_change).expect("a change");
            let notices = log.iter().filter(|operation| is_notice(operation)).cloned();
            assert_eq!(log[change..].iter().any(is_notice), accessed_physically, "{log:?}");
            notices.collect::<Vec<_>>()
        };
        let at = |address| match accessed_physically {
            true => vec![Operation::NotifyResidency { allocation, address }],
            false => Vec::new(),
        };
        vidmm.make_resident(device(1), &[allocation]).unwrap();
        let is_mapping = |operation: &Operation| match operation {
            Operation::UpdatePageTable { entries, .. } => entries[0].page().is_some(),
            _ => false,
        };
        // The guest's own pages are not in a row; the aperture's are.
        assert_eq!(told(&mut vidmm, is_mapping), at(Some(mapping.gpu_va)));
        let range = vidmm.local[0].pool.take_at(PAGE_SIZE, 3 * PAGE_SIZE).unwrap();
        vidmm.move_to(allocation, Place::Local(LocalSegment::Visible, range)).unwrap();
        let is_transfer =
            |operation: &Operation| matches!(operation, Operation::VirtualTransfer { .. });
        assert_eq!(told(&mut vidmm, is_transfer), at(Some(LOCAL_START + PAGE_SIZE)));
        vidmm.evict(device(1), allocation).unwrap();
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
    let mapping = Mapping {
        space: AddressSpaceId(1),
        gpu_va: 1 << 20,
        length: 5 * PAGE_SIZE,
        offset: 0,
        writable: true,
        driver: DriverProtection::default(),
    };
    vidmm.map(id, mapping).unwrap();
    assert!(notifications(&operations(&mut vidmm, 2 * PAGE_SIZE)).is_empty());
    vidmm.evict(device(1), id).unwrap();
    let log = operations(&mut vidmm, 2 * PAGE_SIZE);
    let eviction = AllocationNotification::Eviction;
    let (page, two) = (PAGE_SIZE, 2 * PAGE_SIZE);
    assert_eq!(
        notifications(&log),
        [(eviction, 0, two), (eviction, two, two), (eviction, 2 * two, page)]
    );
    // The process's page tables lead there no more before the driver is notified the first time.
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
    vidmm.evict(device(1), id).unwrap();
    operations(&mut vidmm, 1 << 20);
    assert!(is_local(&vidmm, id), "nobody needed the room");
    vidmm.lock(id).unwrap();
    let log = operations(&mut vidmm, 1 << 20);
    assert!(is_local(&vidmm, id));
    assert_eq!(notifications(&log).len(), 1, "it went through system memory");
    vidmm.lock(id).unwrap();
    assert_eq!(vidmm.make_resident(device(1), &[id]), Err(VidMmError::InUse));
    vidmm.unlock(id).unwrap();
    vidmm.unlock(id).unwrap();
    vidmm.make_resident(device(1), &[id]).unwrap();
}

#[test]
fn an_eviction_is_notified_only_from_system_memory() {
    let mut vidmm = vidmm(4, 0, 1);
    let description = Description {
        notify_eviction: true,
        ..description(1, 2, SegmentSet::LOCAL | SegmentSet::SYSTEM)
    };
    let id = resident(&mut vidmm, description);
    assert_eq!(vidmm.lock(id), Err(VidMmError::InUse), "its bytes are not plain");
    vidmm.evict(device(1), id).unwrap();
    assert!(notifications(&operations(&mut vidmm, PAGE_SIZE)).is_empty(), "it is in local memory");
    // It goes through system memory out of device access.
    let whole = super::tests::description(1, 4, LOCAL_ONLY);
    resident(&mut vidmm, whole);
    let log = operations(&mut vidmm, 2 * PAGE_SIZE);
    let copied = log.iter().rposition(|o| matches!(o, Operation::VirtualTransfer { .. })).unwrap();
    let notified = log.iter().position(|o| matches!(o, Operation::NotifyAlloc { .. })).unwrap();
    assert!(copied < notified);
}

/// Source: "Allocation notification", "NotifyIoMmuUnmap".
#[test]
fn that_pages_are_unmapped_from_the_iommu_is_notified_and_all_paging_waited_for() {
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
        vidmm.evict(device(1), id).unwrap();
        let log = operations(&mut vidmm, 1 << 20);
        // One reason a call, and this one last.
        let (unmap, length) = (AllocationNotification::IoMmuUnmap, 3 * PAGE_SIZE);
        assert_eq!(notifications(&log).len(), if both { 2 } else { 1 });
        assert_eq!(notifications(&log).last(), Some(&(unmap, 0, length)));
        assert_eq!(log.last(), Some(&Operation::Wait));
    }
}

#[test]
fn pages_that_are_aligned_on_both_sides_are_large() {
    let mut vidmm = vidmm(64, 0, 1);
    let id = resident(&mut vidmm, description(1, 40, LOCAL_ONLY));
    operations(&mut vidmm, 1 << 20);
    let large = PageSize::Large.bytes();
    let mapping = |gpu_va, offset| Mapping {
        space: AddressSpaceId(1),
        gpu_va,
        length: 40 * PAGE_SIZE - offset,
        offset,
        writable: true,
        driver: DriverProtection::default(),
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

/// Maps all of an allocation at an address that tells which it is.
fn map_whole(vidmm: &mut VidMm, id: AllocationId) {
    let Description { process, size, .. } = vidmm.allocations[&id].description.clone();
    let mapping = Mapping {
        space: AddressSpaceId(process.into()),
        gpu_va: id.0 << 32,
        length: size,
        offset: 0,
        writable: true,
        driver: DriverProtection::default(),
    };
    vidmm.map(id, mapping).unwrap();
}

/// Everything is looked at once, and engines have used these.
fn pass(vidmm: &mut VidMm, used: &[AllocationId]) {
    let mut seen = BTreeSet::new();
    let was_used = |mapping: &Mapping| {
        assert!(seen.insert(mapping.gpu_va), "looked at twice");
        used.contains(&AllocationId(mapping.gpu_va >> 32))
    };
    assert_eq!(vidmm.look(was_used), Ok(true));
}

#[test]
fn what_is_used_in_two_passes_running_comes_back_for_what_is_not_and_stays() {
    let mut vidmm = vidmm(4, 0, 1);
    let ids: Vec<_> = (0..3)
        .map(|_| {
            let id = resident(&mut vidmm, description(1, 2, ANYWHERE));
            map_whole(&mut vidmm, id);
            id
        })
        .collect();
    let are_local = |vidmm: &VidMm| [0, 1, 2].map(|index| is_local(vidmm, ids[index]));
    assert_eq!(are_local(&vidmm), [false, true, true]);
    // The first pass only learns, and what was just made resident was used.
    pass(&mut vidmm, &[ids[0], ids[2]]);
    pass(&mut vidmm, &[ids[0], ids[2]]);
    assert_eq!(are_local(&vidmm), [false, true, true]);
    vidmm.take_plan();
    pass(&mut vidmm, &[ids[0], ids[2]]);
    assert_eq!(are_local(&vidmm), [true, false, true], "the one that is not used made room");
    let plan = vidmm.take_plan();
    assert!(plan.held.contains(&1) && plan.notices.is_empty(), "{plan:?}");
    assert!(ids.iter().all(|id| vidmm.is_present(*id)));
    // All are used now: nothing goes back and forth.
    for _ in 0..5 {
        pass(&mut vidmm, &ids);
        assert_eq!(vidmm.take_plan(), Plan::default());
    }
    // What was used once is not used.
    pass(&mut vidmm, &[ids[1]]);
    pass(&mut vidmm, &[]);
    pass(&mut vidmm, &[ids[1]]);
    assert_eq!(vidmm.take_plan(), Plan::default());
}

#[test]
fn nothing_comes_back_for_what_is_more_important_or_to_where_it_should_not_be() {
    let mut vidmm = vidmm(2, 2, 1);
    let high = Description { priority: 200, ..description(1, 2, ANYWHERE) };
    let high = resident(&mut vidmm, high);
    let low = resident(&mut vidmm, description(1, 2, SegmentSet::LOCAL | SegmentSet::SYSTEM));
    let system = Description { preferred: SegmentSet::SYSTEM, ..description(1, 2, ANYWHERE) };
    let system = resident(&mut vidmm, system);
    for id in [high, low, system] {
        map_whole(&mut vidmm, id);
    }
    vidmm.take_plan();
    for _ in 0..4 {
        pass(&mut vidmm, &[low, system]);
        assert_eq!(vidmm.take_plan(), Plan::default());
    }
    vidmm.evict(device(1), high).unwrap();
    vidmm.take_plan();
    pass(&mut vidmm, &[low, system]);
    assert!(is_local(&vidmm, low) && !is_private(&vidmm, system));
}

#[test]
fn what_engines_use_makes_no_room_while_there_is_what_they_do_not_use() {
    let mut vidmm = vidmm(2, 0, 1);
    let ids: Vec<_> = (0..2)
        .map(|_| {
            let id = resident(&mut vidmm, description(1, 1, ANYWHERE));
            map_whole(&mut vidmm, id);
            id
        })
        .collect();
    pass(&mut vidmm, &ids[..1]);
    resident(&mut vidmm, description(1, 1, ANYWHERE));
    assert!(is_local(&vidmm, ids[0]) && !is_local(&vidmm, ids[1]), "the oldest is in use");
}

#[test]
fn a_look_is_bounded_and_the_next_goes_on_where_it_ended() {
    let mut vidmm = vidmm(1 << 18, 0, 1);
    let large: Vec<_> = (0..3)
        .map(|_| {
            let id = resident(&mut vidmm, description(1, 1 << 16, ANYWHERE));
            map_whole(&mut vidmm, id);
            id
        })
        .collect();
    let mut looked = Vec::new();
    for _ in 0..4 {
        let mut bytes = 0;
        let was_used = |mapping: &Mapping| {
            bytes += mapping.length;
            looked.push((mapping.gpu_va, mapping.length));
            true
        };
        vidmm.look(was_used).unwrap();
        assert!(bytes <= 1 << 28, "{bytes} in one look");
    }
    let whole = |id: &AllocationId| {
        let parts = looked.iter().filter(|(gpu_va, _)| gpu_va >> 32 == id.0);
        parts.map(|(_, length)| *length).sum::<u64>()
    };
    assert!(large.iter().all(|id| whole(id) >= 1 << 28), "{looked:x?}");
}

/// What happens to memory.
#[derive(Debug, Clone)]
enum Event {
    Create {
        process: u32,
        pages: u64,
        supported: u8,
        priority: u8,
        own: bool,
        notify: bool,
    },
    MakeResident {
        which: usize,
        count: usize,
    },
    Evict(usize),
    Lock(usize),
    Unlock(usize),
    Map {
        which: usize,
        offset: u64,
        length: u64,
        large: bool,
    },
    Unmap(usize),
    SetPriority(usize, u8),
    Destroy(usize),
    /// An engine and a CPU write to everything that they reach, once paging is done.
    Write(u64),
    Run(usize),
    /// Engines have used about every other mapping, which ones this tells.
    Look(u64),
    Begin,
    End,
}

fn event() -> impl Strategy<Value = Event> {
    let which = 0..64usize;
    prop_oneof![
        3 => (1..4u32, 1..20u64, any::<u8>(), 0..3u8, any::<bool>(), any::<bool>()).prop_map(
            |(process, pages, supported, priority, own, notify)| Event::Create {
                process, pages, supported, priority, own, notify,
            }
        ),
        6 => (which.clone(), 1..4usize)
            .prop_map(|(which, count)| Event::MakeResident { which, count }),
        3 => which.clone().prop_map(Event::Evict),
        2 => which.clone().prop_map(Event::Lock),
        2 => which.clone().prop_map(Event::Unlock),
        4 => (which.clone(), 0..20u64, 1..20u64, any::<bool>()).prop_map(
            |(which, offset, length, large)| Event::Map { which, offset, length, large }
        ),
        2 => which.clone().prop_map(Event::Unmap),
        1 => (which.clone(), 0..3u8).prop_map(|(which, priority)| Event::SetPriority(which, priority)),
        2 => which.prop_map(Event::Destroy),
        3 => any::<u64>().prop_map(Event::Write),
        3 => (0..200usize).prop_map(Event::Run),
        3 => any::<u64>().prop_map(Event::Look),
        1 => Just(Event::Begin),
        1 => Just(Event::End),
    ]
}

/// What the model knows of an allocation.
struct Known {
    description: Description,
    contents: Vec<Content>,
    wanted: u32,
    locks: u32,
    mappings: Vec<Mapping>,
}

/// What was before something was decided.
struct Snapshot {
    places: BTreeMap<AllocationId, (Place, bool)>,
    /// What nobody wants, in each segment in the order that it goes.
    orders: [Vec<EvictionOrder>; 2],
    over: BTreeSet<u32>,
    /// The same in each segment.
    over_in: [BTreeSet<u32>; 2],
    /// Whether something is wanted that was taken away.
    lacking: bool,
}

struct World {
    vidmm: VidMm,
    machine: Machine,
    operations: Operations,
    known: BTreeMap<AllocationId, Known>,
    processes: BTreeSet<u32>,
    next_page: u64,
    next_va: u64,
    next_content: Content,
}

impl World {
    fn new(window: u64) -> Self {
        let processes = BTreeSet::from([1, 2]);
        Self {
            vidmm: vidmm(48, 24, 2),
            machine: Machine::default(),
            operations: Operations::new(Window::new(SYSTEM, window)),
            known: BTreeMap::new(),
            processes,
            next_page: 1,
            next_va: 1 << 20,
            next_content: 0,
        }
    }

    fn pick(&self, which: usize) -> Option<AllocationId> {
        let count = self.known.len();
        self.known.keys().nth(which.checked_rem(count)?).copied()
    }

    /// Does one thing, checks what was decided of it, and hands it to the machine.
    fn decide<R>(&mut self, act: impl FnOnce(&mut VidMm) -> R) -> R {
        let before = self.snapshot();
        let result = act(&mut self.vidmm);
        self.judge(before);
        result
    }

    fn snapshot(&self) -> Snapshot {
        let allocations = self.vidmm.allocations.iter();
        let places = allocations
            .map(|(id, allocation)| (*id, (allocation.place, allocation.present)))
            .collect();
        let orders = [0, 1].map(|index| {
            let unwanted = self.vidmm.local[index].movable.get(&Group::Unwanted);
            unwanted.into_iter().flat_map(|movable| movable.iter()).collect()
        });
        let is_over = |process: &&u32| {
            let fits = |segment| self.vidmm.is_within_budget(**process, segment, 0);
            !LocalSegment::ALL.into_iter().all(fits)
        };
        let over = self.vidmm.processes.keys().filter(is_over).copied().collect();
        let over_in = LocalSegment::ALL.map(|segment| {
            let is_over = |process: &&u32| !self.vidmm.is_within_budget(**process, segment, 0);
            self.vidmm.processes.keys().filter(is_over).copied().collect()
        });
        let lacking = self.vidmm.processes.values().any(|process| !process.missing.is_empty());
        Snapshot { places, orders, over, over_in, lacking }
    }

    /// Checks what was decided since, and hands it to the machine.
    fn judge(&mut self, Snapshot { places: before, orders, over, .. }: Snapshot) {
        let plan = self.vidmm.take_plan();
        for (id, allocation) in &self.vidmm.allocations {
            let Some((place, present)) = before.get(id) else { continue };
            let moved = allocation.place != *place;
            if moved && *present && allocation.is_wanted() && !allocation.mappings.is_empty() {
                let process = allocation.description.process;
                assert!(plan.held.contains(&process), "{id:?} was moved under an engine");
            }
            assert!(!moved || allocation.locks <= 1, "{id:?} is locked and was moved");
        }
        for notice in &plan.notices {
            if let Notice::Suspend(process) = notice {
                assert!(over.contains(process), "{process} was within its budget");
            }
        }
        // Of what nobody wanted, nothing stayed that had to go before something that went.
        for unwanted in orders {
            let went = |id| {
                let place = self.vidmm.allocations.get(&id).map(|allocation| allocation.place);
                place.is_some_and(|place| place != before[&id].0)
            };
            let is_unwanted = |id| {
                self.vidmm
                    .allocations
                    .get(&id)
                    .is_some_and(|allocation| !allocation.is_wanted() && allocation.locks == 0)
            };
            let fates: Vec<_> = unwanted
                .iter()
                .filter(|order| is_unwanted(order.allocation))
                .map(|order| went(order.allocation))
                .collect();
            assert!(fates.is_sorted_by(|before, after| before >= after), "{fates:?}");
        }
        self.machine.steps.extend(plan.steps);
        self.machine.freed.extend(plan.freed);
        self.check();
    }

    /// Of what others want resident, only that of processes over their budgets made room for one that
    /// is over its own.
    fn judge_demotions(&self, asker: u32, before: &Snapshot) {
        // Whoever lacks something asks too.
        if before.lacking {
            return;
        }
        for (id, allocation) in &self.vidmm.allocations {
            let Some((Place::Local(from, _), true)) = before.places.get(id).copied() else {
                continue;
            };
            let other = allocation.description.process;
            if other == asker || !allocation.is_wanted() || allocation.place == before.places[id].0
            {
                continue;
            }
            let is_within = self.vidmm.is_within_budget(asker, from, 0);
            let was_over = before.over_in[from.index()].contains(&other);
            assert!(is_within || was_over, "{id:?} of {other} made room for {asker}");
        }
    }

    /// Migration takes nothing away, and from others only what is over their budgets.
    fn judge_migration(&self, before: &Snapshot) {
        let mut came = BTreeSet::new();
        let mut went = BTreeSet::new();
        for (id, allocation) in &self.vidmm.allocations {
            let (place, present) = before.places[id];
            assert_eq!(allocation.present, present, "{id:?}");
            let process = allocation.description.process;
            match (place, allocation.place) {
                (Place::Home, Place::Local(segment, _)) => {
                    assert!(allocation.locks == 0 && present, "{id:?}");
                    came.insert((process, segment.index()));
                }
                (Place::Local(segment, _), to) if to != place && allocation.is_wanted() => {
                    went.insert((process, segment.index()));
                }
                _ => {}
            }
        }
        for (process, segment) in went {
            let was_over = before.over_in[segment].contains(&process);
            assert!(
                was_over || came.contains(&(process, segment)),
                "{process} made room for others"
            );
        }
    }

    /// What is always true.
    fn check(&self) {
        let mut pages = BTreeSet::new();
        let mut usage: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        for (id, allocation) in &self.vidmm.allocations {
            let known = &self.known[id];
            assert_eq!(allocation.is_wanted(), known.wanted > 0);
            let reachable = allocation.present || allocation.taken;
            assert_eq!(reachable, known.wanted > 0, "{id:?}");
            let supported = known.description.supported;
            match allocation.place {
                Place::Local(segment, _) => {
                    assert!(known.description.supported.contains(segment.bit()));
                    if known.wanted > 0 || allocation.locks > 0 {
                        let process = known.description.process;
                        usage.entry(process).or_default()[segment.index()] +=
                            known.description.size;
                    }
                }
                Place::Home if allocation.present && known.locks == 0 => {
                    assert!(supported.contains(SegmentSet::SYSTEM), "{id:?}");
                }
                _ => {}
            }
            if allocation.place != Place::Nowhere {
                let memory = self.vidmm.memory(*id).unwrap();
                for page in memory.pages(0, known.description.size) {
                    let key = (format!("{:?}", page.segment), page.address);
                    assert!(pages.insert(key), "{page:?} is in two places");
                }
            }
        }
        for (id, process) in &self.vidmm.processes {
            assert_eq!(process.usage, usage.get(id).copied().unwrap_or_default());
            let own = self.vidmm.allocations.iter();
            let own = own.filter(|(_, allocation)| allocation.description.process == *id);
            let taken = own.clone().filter(|(_, allocation)| allocation.taken).map(|(id, _)| *id);
            assert_eq!(process.missing, taken.collect());
            let backing = own.clone().filter_map(|(_, allocation)| allocation.backing);
            assert_eq!(process.backing, backing.map(|range| range.length).sum::<u64>());
            let demanded = own.filter(|(_, allocation)| allocation.is_demanded());
            let demanded: u64 = demanded.map(|(_, allocation)| allocation.description.size).sum();
            assert_eq!(process.demand.values().sum::<u64>(), demanded);
        }
        self.check_groups();
    }

    /// Whoever may have to make room is in one group, and in the right one.
    fn check_groups(&self) {
        let mut groups: BTreeMap<(LocalSegment, Group), (BTreeSet<EvictionOrder>, u64)> =
            BTreeMap::new();
        for (id, allocation) in &self.vidmm.allocations {
            let Place::Local(segment, _) = allocation.place else { continue };
            if allocation.locks > 0 {
                continue;
            }
            let Description { process, priority, supported, size, .. } = allocation.description;
            let group = match self.known[id].wanted {
                0 => Group::Unwanted,
                _ => Group::Wanted { process, demotable: supported.contains(SegmentSet::SYSTEM) },
            };
            let (orders, bytes) = groups.entry((segment, group)).or_default();
            orders.insert(EvictionOrder { priority, used: allocation.used, allocation: *id });
            *bytes += size;
        }
        let there_are: BTreeMap<_, _> = LocalSegment::ALL
            .into_iter()
            .flat_map(|segment| {
                let movable = self.vidmm.local[segment.index()].movable.iter();
                movable.map(move |(group, movable)| {
                    ((segment, *group), (movable.iter().collect(), movable.bytes()))
                })
            })
            .collect();
        assert_eq!(there_are, groups);
    }

    fn destroy(&mut self, id: AllocationId) {
        // Its mappings are freed with it.
        self.known.remove(&id);
        self.decide(|vidmm| vidmm.destroy(id)).unwrap();
    }

    fn event(&mut self, event: &Event) {
        match *event {
            Event::Create { process, pages, supported, priority, own, notify } => {
                if !self.processes.contains(&process) {
                    return;
                }
                let supported = match supported % 6 {
                    0 => SegmentSet::LOCAL,
                    1 => SegmentSet::PRIVATE,
                    2 => SegmentSet::SYSTEM,
                    3 => SegmentSet::LOCAL | SegmentSet::PRIVATE,
                    _ => ANYWHERE,
                };
                let supported = if own { supported | SegmentSet::SYSTEM } else { supported };
                let system = own.then(|| own_pages(self.next_page, pages));
                let description = Description {
                    preferred: SegmentSet::from_bits_truncate(1 << (pages % 4)) & supported,
                    eviction: if notify { SegmentSet::PRIVATE } else { SegmentSet::empty() },
                    priority: priority.into(),
                    notify_eviction: notify && pages > 10,
                    notify_io_mmu_unmap: notify,
                    accessed_physically: pages.is_multiple_of(3),
                    system,
                    ..description(process, pages, supported)
                };
                let mut contents = vec![0; pages as usize];
                if let Some(memory) = &description.system {
                    self.next_page += pages;
                    for (content, page) in
                        contents.iter_mut().zip(memory.pages(0, description.size))
                    {
                        self.next_content += 1;
                        *content = self.next_content;
                        self.machine.pages.insert(page, *content);
                    }
                }
                let id = self.vidmm.create(description.clone());
                if description.accessed_physically && supported.contains(SegmentSet::SYSTEM) {
                    let mapping = Mapping {
                        space: SYSTEM,
                        gpu_va: APERTURE_START + self.next_va,
                        length: description.size,
                        offset: 0,
                        writable: true,
                        driver: DriverProtection::default(),
                    };
                    self.next_va += 32 * PAGE_SIZE;
                    self.vidmm.map(id, mapping).unwrap();
                }
                let known =
                    Known { description, contents, wanted: 0, locks: 0, mappings: Vec::new() };
                self.known.insert(id, known);
            }
            Event::MakeResident { which, count } => {
                let Some(first) = self.pick(which) else { return };
                let process = self.known[&first].description.process;
                let ids: Vec<_> = (which..which + count)
                    .filter_map(|which| self.pick(which))
                    .filter(|id| self.known[id].description.process == process)
                    .collect();
                for id in &ids {
                    self.known.get_mut(id).unwrap().wanted += 1;
                }
                let before = self.snapshot();
                let made = self.vidmm.make_resident(device(process), &ids);
                if made.is_err() {
                    for id in &ids {
                        self.known.get_mut(id).unwrap().wanted -= 1;
                    }
                    let size: u64 = ids.iter().map(|id| self.known[id].description.size).sum();
                    assert!(size > 0);
                }
                // A list may be within the budget at first and over it at last.
                if ids.len() == 1 {
                    self.judge_demotions(process, &before);
                }
                self.judge(before);
            }
            Event::Evict(which) => {
                let Some(id) = self.pick(which) else { return };
                let known = self.known.get_mut(&id).unwrap();
                let process = known.description.process;
                let expected = if known.wanted > 0 { Ok(()) } else { Err(VidMmError::Unbalanced) };
                known.wanted = known.wanted.saturating_sub(1);
                let evicted = self.decide(|vidmm| vidmm.evict(device(process), id));
                assert_eq!(evicted, expected);
            }
            Event::Lock(which) => {
                let Some(id) = self.pick(which) else { return };
                if self.decide(|vidmm| vidmm.lock(id)).is_ok() {
                    self.known.get_mut(&id).unwrap().locks += 1;
                }
            }
            Event::Unlock(which) => {
                let Some(id) = self.pick(which) else { return };
                let known = self.known.get_mut(&id).unwrap();
                let expected = if known.locks > 0 { Ok(()) } else { Err(VidMmError::Unbalanced) };
                known.locks = known.locks.saturating_sub(1);
                assert_eq!(self.decide(|vidmm| vidmm.unlock(id)), expected);
            }
            Event::Map { which, offset, length, large } => {
                let Some(id) = self.pick(which) else { return };
                let known = self.known.get_mut(&id).unwrap();
                let pages = known.contents.len() as u64;
                let offset = if large { 0 } else { offset % pages };
                let length = length.min(pages - offset) * PAGE_SIZE;
                let process = known.description.process;
                let mapping = Mapping {
                    space: AddressSpaceId(process.into()),
                    gpu_va: self.next_va + if large { 0 } else { PAGE_SIZE },
                    length,
                    offset: offset * PAGE_SIZE,
                    writable: true,
                    driver: DriverProtection::default(),
                };
                self.next_va += 32 * PAGE_SIZE;
                known.mappings.push(mapping);
                self.decide(|vidmm| vidmm.map(id, mapping)).unwrap();
            }
            Event::Unmap(which) => {
                let Some(id) = self.pick(which) else { return };
                let Some(mapping) = self.known.get_mut(&id).unwrap().mappings.pop() else { return };
                self.decide(|vidmm| vidmm.unmap(id, mapping.space, mapping.gpu_va)).unwrap();
            }
            Event::SetPriority(which, priority) => {
                let Some(id) = self.pick(which) else { return };
                self.decide(|vidmm| vidmm.set_priority(id, priority.into())).unwrap();
            }
            Event::Destroy(which) => {
                let Some(id) = self.pick(which) else { return };
                self.destroy(id);
            }
            Event::Write(seed) => {
                self.machine.run(&mut self.operations, usize::MAX);
                for range in std::mem::take(&mut self.machine.freed) {
                    self.vidmm.give_back(range);
                }
                self.verify(Some(seed));
            }
            Event::Run(most) => self.machine.run(&mut self.operations, most),
            Event::Look(seed) => {
                let before = self.snapshot();
                let was_used = |mapping: &Mapping| {
                    ((mapping.gpu_va / PAGE_SIZE / 32) ^ seed).count_ones().is_multiple_of(2)
                };
                self.vidmm.look(was_used).unwrap();
                self.judge_migration(&before);
                self.judge(before);
            }
            Event::Begin => {
                if self.processes.insert(3) {
                    self.decide(|vidmm| vidmm.add_process(3));
                }
            }
            Event::End => {
                if self.processes.remove(&3) {
                    let of_3 =
                        |(_, known): &(&AllocationId, &Known)| known.description.process == 3;
                    let ids: Vec<_> = self.known.iter().filter(of_3).map(|(id, _)| *id).collect();
                    for id in ids {
                        self.destroy(id);
                    }
                    self.decide(|vidmm| vidmm.remove_process(3));
                }
            }
        }
    }

    /// All bytes are what they have to be, to engines and to CPUs, and are others afterwards.
    fn verify(&mut self, seed: Option<u64>) {
        for (id, known) in &mut self.known {
            let allocation = &self.vidmm.allocations[id];
            let told = self.machine.residency.get(id).copied().flatten();
            let is_physical = known.description.accessed_physically;
            assert_eq!(told.is_some(), is_physical && allocation.present, "{id:?}");
            for (content, at) in known.contents.iter().zip((0..).step_by(PAGE_SIZE as usize)) {
                let Some(address) = told else { break };
                let page = self.machine.physical_page(address + at);
                let seen = self.machine.pages.get(&page).copied().unwrap_or(0);
                assert_eq!(seen, *content, "{id:?} at physical address {address:#x} + {at:#x}");
            }
            for mapping in &known.mappings {
                for at in (0..mapping.length).step_by(PAGE_SIZE as usize) {
                    let page = self.machine.translate(mapping.space, mapping.gpu_va + at);
                    assert_eq!(page.is_some(), allocation.present, "{id:?} {mapping:x?}");
                    let Some(page) = page else { continue };
                    let content = &mut known.contents[((mapping.offset + at) / PAGE_SIZE) as usize];
                    let seen = self.machine.pages.get(&page).copied().unwrap_or(0);
                    assert_eq!(seen, *content, "{id:?} at {at:#x} in {page:x?}");
                    if seed.is_some() {
                        self.next_content += 1;
                        *content = self.next_content;
                        self.machine.pages.insert(page, *content);
                    }
                }
            }
            if known.locks > 0 {
                let memory = self.vidmm.memory(*id).unwrap();
                let visible = [Segment::Local, Segment::System].contains(&memory.segment);
                assert!(visible, "no CPU reaches {memory:?}");
                for (content, page) in
                    known.contents.iter().zip(memory.pages(0, known.description.size))
                {
                    let seen = self.machine.pages.get(&page).copied().unwrap_or(0);
                    assert_eq!(seen, *content, "{id:?} locked in {page:x?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Contents are always right, budgets are kept, no page is in two places, what is unwanted goes in
    /// order, everything is answered, and nothing is left.
    #[test]
    fn whatever_happens_bytes_are_where_they_have_to_be(
        window in 2..24u64,
        events in proptest::collection::vec(event(), 0..120),
    ) {
        let mut world = World::new(window * PAGE_SIZE);
        for event in &events {
            world.event(event);
        }
        world.machine.run(&mut world.operations, usize::MAX);
        world.verify(None);
        for id in world.known.keys().copied().collect::<Vec<_>>() {
            world.destroy(id);
        }
        for process in world.processes.clone() {
            world.decide(|vidmm| vidmm.remove_process(process));
        }
        world.machine.run(&mut world.operations, usize::MAX);
        for range in std::mem::take(&mut world.machine.freed) {
            world.vidmm.give_back(range);
        }
        prop_assert!(world.vidmm.is_unused());
        prop_assert!(world.machine.tables.is_empty());
    }
}

#[test]
fn donated_local_memory_is_the_guests_own_to_page_tables() {
    let mut vidmm = VidMm::new(1 << 20, 0, 1 << 20);
    let extents = [
        Extent { address: 8 * PAGE_SIZE, length: PAGE_SIZE },
        Extent { address: 2 * PAGE_SIZE, length: 3 * PAGE_SIZE },
    ];
    vidmm.donate(4 * PAGE_SIZE, Arc::from(extents));
    vidmm.add_process(1);
    resident(&mut vidmm, description(1, 1, LOCAL_ONLY));
    let id = resident(&mut vidmm, description(1, 2, LOCAL_ONLY));
    let memory = vidmm.memory(id).unwrap();
    assert_eq!(memory.segment, Segment::System);
    let pages: Vec<_> = memory.pages(0, 2 * PAGE_SIZE).map(|page| page.address).collect();
    assert_eq!(pages, [2 * PAGE_SIZE, 3 * PAGE_SIZE]);
    let more = vidmm.create(description(1, 2, LOCAL_ONLY));
    assert!(vidmm.make_resident(device(1), &[more]).is_err(), "there is no more than was donated");
}
