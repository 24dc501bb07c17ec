// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations that engines use come back to local memory.

use super::*;

/// Maps a whole allocation at an address that identifies it.
fn map_whole(vidmm: &mut VidMm, id: AllocationId) {
    let Description { process, size, .. } = vidmm.allocations[&id].description.clone();
    vidmm.map(id, mapping(AddressSpaceId(process.into()), id.0 << 32, size)).unwrap();
}

/// Checks all mappings once; engines have used the allocations in `used`.
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
    // The first pass only learns, and newly resident allocations count as used.
    pass(&mut vidmm, &[ids[0], ids[2]]);
    pass(&mut vidmm, &[ids[0], ids[2]]);
    assert_eq!(are_local(&vidmm), [false, true, true]);
    vidmm.take_plan();
    pass(&mut vidmm, &[ids[0], ids[2]]);
    assert_eq!(are_local(&vidmm), [true, false, true], "the one that is not used made room");
    let plan = vidmm.take_plan();
    assert!(plan.held.contains(&1) && plan.notices.is_empty(), "{plan:?}");
    assert!(ids.iter().all(|id| vidmm.is_present(*id)));
    // All allocations are used now: none moves back and forth.
    for _ in 0..5 {
        pass(&mut vidmm, &ids);
        assert_eq!(vidmm.take_plan(), Plan::default());
    }
    // An allocation used in only one of two passes does not count as used.
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
    vidmm.evict(1, device(1), high).unwrap();
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
fn a_look_is_bounded_and_the_next_continues_where_it_ended() {
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
