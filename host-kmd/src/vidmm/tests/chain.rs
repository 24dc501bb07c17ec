// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memory of a chain: copies of mirrored allocations, and GPUs that are taken away.

use super::*;
use crate::vidmm::PrivateMemory;

const MASTER: GpuOrdinal = GpuOrdinal::MASTER;
const SLAVE: GpuOrdinal = GpuOrdinal(1);

/// The memory of a guest with two GPUs and one process.
fn chain(visible: u64, private: u64) -> VidMm {
    let private = PrivateMemory { size: private * PAGE_SIZE, reserved: 0, gpus: 2 };
    let mut vidmm = VidMm::of_chain(visible * PAGE_SIZE, private, 1 << 30);
    vidmm.add_process(1);
    vidmm
}

fn used(vidmm: &VidMm) -> [u64; 2] {
    [MASTER, SLAVE].map(|gpu| vidmm.used(LocalSegment::Private(gpu)) / PAGE_SIZE)
}

fn private(gpu: GpuOrdinal, pages: u64, supported: SegmentSet) -> Description {
    let supported = supported | SegmentSet::PRIVATE;
    Description { gpu, preferred: SegmentSet::PRIVATE, ..description(1, pages, supported) }
}

fn mirrored(vidmm: &mut VidMm, pages: u64) -> AllocationId {
    let id = vidmm.create_mirrored(&private(MASTER, pages, SegmentSet::empty()));
    vidmm.make_resident(1, device(1), &[id]).unwrap();
    id
}

/// The GPUs that each step of mapping is for, with the first address that it maps.
fn mapped(steps: &[Step]) -> Vec<(GpuSet, u64)> {
    let maps = steps.iter().filter_map(|step| match step {
        Step::Map { memory, mappings } => Some((memory, mappings)),
        _ => None,
    });
    let each = maps.flat_map(|(memory, mappings)| {
        mappings.iter().map(|mapping| (mapping.gpus, memory.extents[0].address))
    });
    each.collect()
}

#[test]
fn each_gpu_maps_its_own_copy_at_the_same_address() {
    let mut vidmm = chain(4, 8);
    let id = mirrored(&mut vidmm, 2);
    assert_eq!(used(&vidmm), [2, 2]);
    vidmm.take_plan();
    let at = mapping(AddressSpaceId(1), 64 * PAGE_SIZE, 2 * PAGE_SIZE);
    vidmm.map(id, at).unwrap();
    // The parts of the GPUs are one behind another, the master's last.
    let expected = [(GpuSet::only(MASTER), 8 * PAGE_SIZE), (GpuSet::only(SLAVE), 0)];
    assert_eq!(mapped(&vidmm.take_plan().steps), expected);
    vidmm.unmap(id, at.space, at.gpu_va).unwrap();
    let unmapped = vidmm.take_plan().steps;
    assert!(matches!(unmapped.as_slice(), [Step::Unmap { .. }, Step::Unmap { .. }]));
    vidmm.evict(1, device(1), id).unwrap();
    vidmm.destroy(id).unwrap();
    vidmm.remove_process(1);
    vidmm.take_plan().freed.into_iter().for_each(|range| vidmm.give_back(range));
    assert!(vidmm.is_unused());
}

#[test]
fn a_mirrored_allocation_is_resident_on_all_gpus_or_on_none() {
    let mut vidmm = chain(4, 8);
    resident(&mut vidmm, private(SLAVE, 7, SegmentSet::empty()));
    let id = vidmm.create_mirrored(&private(MASTER, 2, SegmentSet::empty()));
    assert!(vidmm.make_resident(1, device(1), &[id]).is_err());
    assert!(!vidmm.is_present(id) && !vidmm.is_wanted_by(1, id));
    let again = vidmm.make_resident(1, device(1), &[id]);
    assert!(again.is_err(), "the first try left nothing behind: {again:?}");
}

#[test]
fn an_adapter_that_is_no_chain_has_one_copy() {
    let mut vidmm = vidmm(4, 8, 1);
    let id = mirrored(&mut vidmm, 2);
    assert_eq!(vidmm.used(LocalSegment::Private(MASTER)), 2 * PAGE_SIZE);
    vidmm.take_plan();
    vidmm.map(id, mapping(AddressSpaceId(1), 64 * PAGE_SIZE, 2 * PAGE_SIZE)).unwrap();
    assert_eq!(mapped(&vidmm.take_plan().steps), [(GpuSet::ALL, 0)]);
}

#[test]
fn what_is_in_memory_that_is_taken_away_goes_home_and_returns_if_it_belongs_there() {
    let mut vidmm = chain(4, 8);
    let own = resident(&mut vidmm, private(SLAVE, 2, SegmentSet::empty()));
    let movable = resident(&mut vidmm, private(SLAVE, 2, SegmentSet::SYSTEM));
    let visible = resident(&mut vidmm, private(SLAVE, 2, SegmentSet::LOCAL));
    let of_master = resident(&mut vidmm, private(MASTER, 2, SegmentSet::empty()));
    assert_eq!(used(&vidmm), [2, 6]);
    vidmm.take_plan();
    vidmm.withdraw(SLAVE);
    assert_eq!(used(&vidmm), [2, 0]);
    assert!(!vidmm.is_present(own), "it has no other place");
    assert!(vidmm.is_present(movable) && vidmm.is_present(of_master));
    assert!(vidmm.is_present(visible) && is_local(&vidmm, visible), "it has another place");
    assert!(!vidmm.is_suspended(1), "work elsewhere goes on");
    let copies =
        |plan: Plan| plan.steps.iter().filter(|step| matches!(step, Step::Copy { .. })).count();
    assert!(copies(vidmm.take_plan()) >= 3, "no content is lost");
    let late = vidmm.create(private(SLAVE, 1, SegmentSet::empty()));
    assert_eq!(vidmm.make_resident(1, device(1), &[late]), Err(VidMmError::NoGpu));
    vidmm.withdraw(SLAVE);
    assert!(!vidmm.has_plan(), "it is gone already");
    vidmm.reinstate(SLAVE);
    assert!(vidmm.is_present(own));
    assert_eq!(used(&vidmm), [2, 2]);
    assert_eq!(copies(vidmm.take_plan()), 1);
    vidmm.make_resident(1, device(1), &[late]).unwrap();
}

#[test]
fn memory_that_is_back_goes_first_to_those_who_may_count_on_it() {
    // Eight pages, four for each process.
    let mut vidmm = chain(4, 8);
    vidmm.add_process(2);
    let much = resident(&mut vidmm, private(SLAVE, 6, SegmentSet::empty()));
    let own = vidmm.create(Description { process: 2, ..private(SLAVE, 3, SegmentSet::empty()) });
    vidmm.make_resident(2, device(2), &[own]).unwrap();
    assert!(vidmm.is_suspended(1), "it has more than its part");
    vidmm.take_plan();
    vidmm.withdraw(SLAVE);
    assert!(!vidmm.is_suspended(1));
    vidmm.take_plan();
    vidmm.reinstate(SLAVE);
    assert!(vidmm.is_present(own) && !vidmm.is_present(much) && vidmm.is_suspended(1));
    let copied =
        |step: &Step| matches!(step, Step::Copy { length, .. } if *length == 6 * PAGE_SIZE);
    assert!(!vidmm.take_plan().steps.iter().any(copied), "it came and went again");
}
