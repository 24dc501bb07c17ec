// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where allocations go, and which allocations make room for them.

use super::*;

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
    vidmm.evict(1, device(1), unwanted).unwrap();
    assert!(is_local(&vidmm, unwanted), "no allocation needs the room");
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
    // Both processes are at their budgets: neither gets more.
    let more = vidmm.create(description(2, 1, LOCAL_ONLY));
    let refused = vidmm.make_resident(2, device(2), &[more]);
    assert_eq!(refused, Err(VidMmError::NoRoom(PAGE_SIZE)));

    vidmm.evict(2, device(2), modest[0]).unwrap();
    assert!(vidmm.is_suspended(1), "one is still missing");
    vidmm.evict(1, device(1), greedy[0]).unwrap();
    let notices = vidmm.take_plan().notices;
    assert!(notices.contains(&Notice::Resume(1)), "{notices:?}");
    assert!(vidmm.is_present(greedy[1]));
}

#[test]
fn a_request_for_more_than_can_ever_fit_says_so() {
    let mut vidmm = vidmm(4, 4, 1);
    let all = vidmm.create(description(1, 5, LOCAL_ONLY));
    let never = VidMmError::NeverFits(5 * PAGE_SIZE);
    assert_eq!(vidmm.make_resident(1, device(1), &[all]), Err(never));
    let parts: Vec<_> = (0..5).map(|_| vidmm.create(description(1, 1, LOCAL_ONLY))).collect();
    assert_eq!(vidmm.make_resident(1, device(1), &parts), Err(never));
    assert!(parts.iter().all(|id| !vidmm.is_present(*id)), "all or none");
    vidmm.make_resident(1, device(1), &parts[1..]).unwrap();
    assert_eq!(vidmm.lock(1, all), Err(never));
    let huge = vidmm.create(description(1, 1 << 40, ANYWHERE));
    let size = PAGE_SIZE << 40;
    assert_eq!(vidmm.make_resident(1, device(1), &[huge]), Err(VidMmError::NoBacking(size)));
}

#[test]
fn what_is_locked_stays_until_it_is_unlocked_as_often() {
    let mut vidmm = vidmm(2, 2, 1);
    let supported = SegmentSet::LOCAL | SegmentSet::PRIVATE | SegmentSet::SYSTEM;
    let preferred = SegmentSet::PRIVATE;
    let id = resident(&mut vidmm, Description { preferred, ..description(1, 1, supported) });
    assert!(is_private(&vidmm, id));
    let place = vidmm.lock(1, id).unwrap();
    assert!(is_local(&vidmm, id), "where a CPU reaches it");
    assert_eq!(vidmm.lock(1, id), Ok(place));
    for _ in 0..6 {
        resident(&mut vidmm, description(1, 1, ANYWHERE));
    }
    vidmm.unlock(1, id).unwrap();
    resident(&mut vidmm, description(1, 1, ANYWHERE));
    assert_eq!(vidmm.allocations[&id].place, place);
    vidmm.unlock(1, id).unwrap();
    assert_eq!(vidmm.unlock(1, id), Err(VidMmError::Unbalanced));
    resident(&mut vidmm, description(1, 2, LOCAL_ONLY));
    assert!(!is_local(&vidmm, id));

    let invisible = Description { cpu_visible: false, ..description(1, 1, supported) };
    let invisible = vidmm.create(invisible);
    assert_eq!(vidmm.lock(1, invisible), Err(VidMmError::NotLockable));
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
    assert!(
        vidmm.make_resident(1, device(1), &[more]).is_err(),
        "there is no more than was donated"
    );
}

/// Source: "Allocations" of the Windows KMD overview, "PermanentSystemMem: Always keep a copy of the
/// allocation in system memory, even when in a FB segment".
#[test]
fn what_keeps_a_copy_leaves_local_memory_without_a_transfer_unless_it_was_written() {
    let transfers = |vidmm: &mut VidMm| {
        let log = operations(vidmm, 1 << 20);
        log.iter().filter(|o| matches!(o, Operation::VirtualTransfer { .. })).count()
    };
    for keeps_copy in [true, false] {
        for writable in [false, true] {
            let mut vidmm = vidmm(4, 0, 1);
            let description = Description { keeps_copy, ..description(1, 3, LOCAL_ONLY) };
            let id = vidmm.create(description);
            let whole = mapping(AddressSpaceId(1), 1 << 20, 3 * PAGE_SIZE);
            vidmm.map(id, Mapping { writable, ..whole }).unwrap();
            vidmm.make_resident(1, device(1), &[id]).unwrap();
            assert!(is_local(&vidmm, id));
            // The copy is made at the beginning.
            assert_eq!(transfers(&mut vidmm), usize::from(keeps_copy));
            vidmm.evict(1, device(1), id).unwrap();
            let other = resident(&mut vidmm, super::description(1, 3, LOCAL_ONLY));
            assert_eq!(vidmm.allocations[&id].place, Place::Home);
            let is_copied = keeps_copy && !writable;
            assert_eq!(transfers(&mut vidmm), usize::from(!is_copied));
            vidmm.evict(1, device(1), other).unwrap();
            vidmm.make_resident(1, device(1), &[id]).unwrap();
            assert!(is_local(&vidmm, id));
        }
    }
}

proptest! {
    /// In whatever order it was taken away, and so whatever holes there were.
    #[test]
    fn what_was_taken_away_comes_back_when_its_taker_lets_go(
        sizes in proptest::collection::vec(500..3000u64, 64),
        used in proptest::collection::vec(any::<proptest::sample::Index>(), 0..64),
        share in 1..=5461u64,
        used_meanwhile in proptest::collection::vec(any::<proptest::sample::Index>(), 0..32),
    ) {
        let mut vidmm = vidmm(16 << 10, 0, 3);
        let mut greedy = Vec::new();
        for pages in sizes {
            let id = vidmm.create(description(1, pages, LOCAL_ONLY));
            if vidmm.make_resident(1, device(1), &[id]).is_ok() {
                greedy.push(id);
            }
        }
        for index in used {
            vidmm.touch(*index.get(&greedy)).unwrap();
        }
        // It may find no hole that is large enough, after it has taken away what it may.
        let share = vidmm.create(description(2, share, LOCAL_ONLY));
        let fits = vidmm.make_resident(2, device(2), &[share]).is_ok();
        for index in used_meanwhile {
            vidmm.touch(*index.get(&greedy)).unwrap();
        }
        if fits {
            vidmm.evict(2, device(2), share).unwrap();
        }
        vidmm.take_plan();
        prop_assert!(!vidmm.is_suspended(1));
        prop_assert!(greedy.iter().all(|id| is_local(&vidmm, *id)));
    }
}
