// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where allocations are, and which may have no place.

use super::{ANYWHERE, PAGES, create, description, exchange, map, new, page, segment};
use crate::bench::{BAR, Bench, Client};
use bellhop_host_kmd::hardware::{PhysicalPage, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CloseAllocation, CreateAllocation, DestroyAllocation, Extent,
    Lock, MAX_RESIDENCY_LIST, NOT_IN_BAR, OpenAllocation, PRIORITY_HIGH, PRIORITY_LOW, SegmentSet,
    SetAllocationPriority, Unlock,
};
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::status::Status;

#[test]
fn contents_survive_when_more_is_resident_than_local_memory_holds() {
    let (mut bench, client) = new();
    // Six times the size of local memory.
    let allocations: Vec<_> = (0..12).map(|_| create(&mut bench, client, PAGES / 2)).collect();
    let vas: Vec<_> = allocations
        .iter()
        .map(|allocation| map(&mut bench, client, *allocation, PAGES / 2 * PAGE_SIZE))
        .collect();
    assert!(vas.iter().all(|va| page(&bench, client, *va).is_none()), "none is resident");
    for round in 0..4 {
        for (index, (allocation, va)) in allocations.iter().zip(&vas).enumerate() {
            bench.make_resident(client, &[*allocation]).unwrap();
            let last = va + (PAGES / 2 - 1) * PAGE_SIZE;
            let content = round * 1000 + index as u64;
            let expected = if round == 0 { 0 } else { content - 1000 };
            assert_eq!(exchange(&bench, client, *va, content), expected);
            assert_eq!(exchange(&bench, client, last, content), expected);
            // Half of them are in system memory once the last are resident.
            if index % 2 == 0 {
                bench.evict(client, &[*allocation]).unwrap();
                assert_eq!(page(&bench, client, *va), None);
            }
        }
        for (allocation, va) in allocations.iter().zip(&vas).skip(1).step_by(2) {
            assert!(page(&bench, client, *va).is_some(), "it is resident somewhere");
            bench.evict(client, &[*allocation]).unwrap();
        }
    }
}

#[test]
fn a_locked_allocation_is_in_the_bar_and_stays_there() {
    let (mut bench, client) = new();
    let allocation = create(&mut bench, client, 2);
    let va = map(&mut bench, client, allocation, 2 * PAGE_SIZE);
    let offset = bench.call(client, &Lock { allocation }).unwrap().bar_offset;
    assert_eq!(offset, BAR.local_memory());
    assert_eq!(page(&bench, client, va), None, "no engine reaches it");
    bench.make_resident(client, &[allocation]).unwrap();
    let all = create(&mut bench, client, PAGES);
    bench.make_resident(client, &[all]).unwrap();
    assert_eq!(
        page(&bench, client, va),
        Some(PhysicalPage { segment: Segment::Local, address: 0 })
    );
    bench.call(client, &Unlock { allocation }).unwrap();
    let refused = (Status::INVALID_PARAMETER, 0);
    assert_eq!(bench.call(client, &Unlock { allocation }).unwrap_err(), refused);
    // An allocation of the guest's own pages stays in those.
    let extents = [Extent { address: 3 * PAGE_SIZE, length: PAGE_SIZE }];
    let request = CreateAllocation { extent_count: 1, ..description(client, 1) };
    let own = bench.call_with_list(client, &request, &extents).unwrap().allocation;
    assert_eq!(bench.call(client, &Lock { allocation: own }).unwrap().bar_offset, NOT_IN_BAR);
    // An allocation that never moves is locked where it is.
    let fixed = bench.local(client, PAGE_SIZE).unwrap();
    let lock = Lock { allocation: fixed.allocation };
    assert_eq!(bench.call(client, &lock).unwrap().bar_offset, fixed.bar_offset);
}

#[test]
fn segments_and_flags_that_do_not_go_together_are_refused() {
    let (mut bench, client) = new();
    let good = description(client, 1);
    let (local, private, system) = (1, 2, 4);
    let flags = |flags: AllocationFlags| CreateAllocation { flags: flags.bits(), ..good };
    let bad = [
        (CreateAllocation { supported_segments: 0, ..good }, 0),
        (CreateAllocation { supported_segments: 8, ..good }, 8),
        (CreateAllocation { supported_segments: private, ..good }, private),
        (CreateAllocation { preferred_segment: private, ..good }, private),
        (CreateAllocation { preferred_segment: local | system, ..good }, local | system),
        (CreateAllocation { eviction_segments: private, ..good }, private),
        (CreateAllocation { eviction_segments: system, ..good }, system),
        (flags(AllocationFlags::from_bits_retain(1 << 9)), 1 << 9),
        (CreateAllocation { private_data: 77, ..good }, 77),
        (CreateAllocation { kind: AllocationKind::LOCAL, ..good }, ANYWHERE.bits()),
    ];
    for (request, value) in bad {
        let refused = (Status::INVALID_PARAMETER, value.into());
        assert_eq!(bench.call(client, &request).unwrap_err(), refused, "{request:?}");
    }
    let extents = [Extent { address: 0, length: PAGE_SIZE }];
    let own = CreateAllocation { supported_segments: local, extent_count: 1, ..good };
    let refused = (Status::INVALID_PARAMETER, local.into());
    assert_eq!(bench.call_with_list(client, &own, &extents).unwrap_err(), refused);
    bench.call(client, &good).unwrap();
}

#[test]
fn more_than_can_ever_fit_or_fits_now_is_refused_precisely() {
    let (mut bench, client) = new();
    let local = |pages| CreateAllocation {
        supported_segments: SegmentSet::LOCAL.bits(),
        ..description(client, pages)
    };
    let huge = bench.call(client, &local(PAGES + 1)).unwrap().allocation;
    let never = (Status::GRAPHICS_NO_VIDEO_MEMORY, (PAGES + 1) * PAGE_SIZE);
    assert_eq!(bench.make_resident(client, &[huge]).unwrap_err(), never);
    assert_eq!(bench.call(client, &Lock { allocation: huge }).unwrap_err(), never);

    let half = bench.call(client, &local(PAGES / 2)).unwrap().allocation;
    bench.local(client, PAGE_SIZE).unwrap();
    let rest = bench.call(client, &local(PAGES / 2)).unwrap().allocation;
    bench.make_resident(client, &[half]).unwrap();
    let now = (Status::INSUFFICIENT_RESOURCES, PAGES / 2 * PAGE_SIZE);
    assert_eq!(bench.make_resident(client, &[rest]).unwrap_err(), now, "one page is locked");

    // At the edge of 64 bits, creating succeeds because it takes no memory.
    for size in [1 << 63, u64::MAX - PAGE_SIZE + 1] {
        let edge = bench.call(client, &CreateAllocation { size, ..description(client, 1) });
        let edge = edge.unwrap().allocation;
        let full = (Status::NO_MEMORY, size);
        assert_eq!(bench.make_resident(client, &[edge, half]).unwrap_err(), full);
        assert_eq!(bench.make_resident(client, &[half, edge]).unwrap_err(), full);
    }
    for size in [0, 1, u64::MAX] {
        let refused = bench.call(client, &CreateAllocation { size, ..description(client, 1) });
        assert_eq!(refused.unwrap_err(), (Status::INVALID_PARAMETER, size));
    }
}

#[test]
fn a_list_is_made_resident_whole_or_not_at_all_and_counted_for_each_device() {
    let (mut bench, client) = new();
    let list: Vec<_> = (0..3).map(|_| create(&mut bench, client, 1)).collect();
    let va = map(&mut bench, client, list[0], PAGE_SIZE);
    let other = bench.ask(client.guest, client.process, &CreateDevice { reserved: 0 }).unwrap();
    let on_other = Client { device: other, ..client };
    let refused = (Status::INVALID_PARAMETER, other.0);
    let not_open = (Status::INVALID_PARAMETER, list[0].0);
    assert_eq!(bench.make_resident(on_other, &list).unwrap_err(), not_open, "not open there");
    let open = OpenAllocation { device: other, allocation: list[0] };
    bench.call(client, &open).unwrap();
    assert_eq!(bench.call(client, &open).unwrap_err(), refused);

    let stale = Handle(u64::MAX);
    let refused = (Status::INVALID_HANDLE, stale.0);
    assert_eq!(bench.make_resident(client, &[list[0], stale]).unwrap_err(), refused);
    assert_eq!(page(&bench, client, va), None);
    let long = vec![list[0]; MAX_RESIDENCY_LIST as usize + 1];
    let refused = (Status::INVALID_PARAMETER, long.len() as u64);
    assert_eq!(bench.make_resident(client, &long).unwrap_err(), refused);
    assert_eq!(bench.make_resident(client, &[]).unwrap_err(), (Status::INVALID_PARAMETER, 0));

    bench.make_resident(client, &list).unwrap();
    bench.make_resident(client, &list[..1]).unwrap();
    bench.make_resident(on_other, &list[..1]).unwrap();
    bench.evict(client, &list[..1]).unwrap();
    bench.evict(client, &list[..1]).unwrap();
    let unbalanced = (Status::INVALID_PARAMETER, 0);
    assert_eq!(bench.evict(client, &list[..1]).unwrap_err(), unbalanced);
    assert!(page(&bench, client, va).is_some(), "the other device needs it");
    bench.call(client, &CloseAllocation { device: other, allocation: list[0] }).unwrap();
    assert_eq!(page(&bench, client, va), None);
    // It is destroyed with the last device that has it open.
    bench.call(client, &open).unwrap();
    let close = CloseAllocation { device: client.device, allocation: list[0] };
    bench.call(client, &close).unwrap();
    bench.make_resident(on_other, &list[..1]).unwrap();
    bench.call(client, &DestroyDevice { device: other }).unwrap();
    let gone = (Status::INVALID_HANDLE, list[0].0);
    assert_eq!(bench.call(client, &Lock { allocation: list[0] }).unwrap_err(), gone);
}

#[test]
fn what_is_least_important_leaves_local_memory_first() {
    let (mut bench, client) = new();
    let place = |bench: &mut Bench, pages| {
        let allocation = create(bench, client, pages);
        let va = map(bench, client, allocation, PAGE_SIZE);
        bench.make_resident(client, &[allocation]).unwrap();
        (allocation, va)
    };
    let (high, high_va) = place(&mut bench, PAGES / 4);
    let (_, old_va) = place(&mut bench, PAGES / 4);
    let (low, low_va) = place(&mut bench, PAGES / 2);
    for (allocation, priority) in [(high, PRIORITY_HIGH), (low, PRIORITY_LOW)] {
        let request = SetAllocationPriority { allocation, priority, reserved: 0 };
        bench.call(client, &request).unwrap();
    }
    place(&mut bench, PAGES / 4);
    assert_eq!(segment(&bench, client, low_va), Some(Segment::Backing));
    assert_eq!(segment(&bench, client, old_va), Some(Segment::Local));
    place(&mut bench, PAGES / 2);
    assert_eq!(segment(&bench, client, old_va), Some(Segment::Backing));
    assert_eq!(segment(&bench, client, high_va), Some(Segment::Local));
}

#[test]
fn a_ring_in_a_paged_allocation_must_be_locked_and_resident_and_stays_so() {
    let (mut bench, client) = new();
    let ring = create(&mut bench, client, 2);
    let control = create(&mut bench, client, 1);
    let not_resident = |allocation: Handle| (Status::GRAPHICS_ALLOCATION_INVALID, allocation.0);
    bench.make_resident(client, &[ring, control]).unwrap();
    assert_eq!(bench.doorbell_on(client, (ring, control)).unwrap_err(), not_resident(ring));
    for allocation in [ring, control] {
        bench.call(client, &Lock { allocation }).unwrap();
    }
    bench.doorbell_on(client, (ring, control)).unwrap();
    for allocation in [ring, control] {
        let busy = (Status::GRAPHICS_ALLOCATION_BUSY, allocation.0);
        assert_eq!(bench.call(client, &Unlock { allocation }).unwrap_err(), busy);
        assert_eq!(bench.evict(client, &[allocation]).unwrap_err(), busy);
        assert_eq!(bench.call(client, &DestroyAllocation { allocation }).unwrap_err(), busy);
    }
}

#[test]
fn of_a_list_that_is_not_wanted_as_often_as_it_says_nothing_is_evicted() {
    let (mut bench, client) = new();
    let [one, two] = [1, 1].map(|pages| create(&mut bench, client, pages));
    let vas = [one, two].map(|allocation| map(&mut bench, client, allocation, PAGE_SIZE));
    bench.make_resident(client, &[one, two, one]).unwrap();
    for list in [&[two, two][..], &[one, two, one, one], &[one, one, one]] {
        let refused = bench.evict(client, list).unwrap_err();
        assert_eq!(refused.0, Status::INVALID_PARAMETER);
    }
    bench.evict(client, &[two, one]).unwrap();
    assert!(page(&bench, client, vas[0]).is_some(), "it is wanted once more");
    bench.evict(client, &[one]).unwrap();
    assert_eq!(vas.map(|va| page(&bench, client, va)), [None, None]);
}
