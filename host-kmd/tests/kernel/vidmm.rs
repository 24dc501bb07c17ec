//! Paged allocations: requests, and what the system context is given to do for them.

use crate::bench::{BAR, Bench, Client, RESOURCES};
use crate::model::Call;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, Fault, GuestId, PhysicalPage, Segment, SegmentSizes,
};
use bellhop_host_kmd::port::{Command, GuestResources, Input};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CloseAllocation, CreateAllocation, CreateAllocationReply,
    DestroyAllocation, Extent, Lock, MAX_RESIDENCY_LIST, NOT_IN_BAR, OpenAllocation, PRIORITY_HIGH,
    PRIORITY_LOW, PRIORITY_NORMAL, QueryVideoMemoryInfo, SegmentSet, SetAllocationPriority, Unlock,
};
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, MapGpuVirtualAddress, Protection, ReserveGpuVirtualAddress,
    UpdateGpuVirtualAddress,
};
use bellhop_protocol::control::hw_queue::HwQueueFlags;
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::event::{EventKind, FaultReason};
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;
use zerocopy::FromBytes;

const MIB: u64 = 1 << 20;
/// Pages of CPU-visible local memory.
const PAGES: u64 = BAR.local_memory / PAGE_SIZE;
const ANYWHERE: SegmentSet = SegmentSet::LOCAL.union(SegmentSet::SYSTEM);

fn new() -> (Bench, Client) {
    with_limits(Limits::default())
}

fn with_limits(limits: Limits) -> (Bench, Client) {
    let mut bench = Bench::with_limits(2, limits);
    let guest = GuestId(1);
    let segments = SegmentSizes { private: 8 * PAGE_SIZE, backing: 16 * MIB, aperture: 0 };
    let resources = GuestResources { segments, ..RESOURCES };
    bench.input(Input::Attach { guest, resources });
    bench.open(guest).unwrap();
    let client = bench.client(guest);
    (bench, client)
}

fn description(client: Client, pages: u64) -> CreateAllocation {
    CreateAllocation {
        supported_segments: ANYWHERE.bits(),
        priority: PRIORITY_NORMAL,
        flags: AllocationFlags::CPU_VISIBLE.bits(),
        ..CreateAllocation::fixed(client.device, AllocationKind::PAGED, pages * PAGE_SIZE, 0)
    }
}

fn create(bench: &mut Bench, client: Client, pages: u64) -> Handle {
    let reply = bench.call(client, &description(client, pages)).unwrap();
    assert_eq!(reply.bar_offset, NOT_IN_BAR);
    reply.allocation
}

fn space(bench: &Bench, client: Client) -> AddressSpaceId {
    bench.model.state().queues[&client.id].address_space
}

fn map(bench: &mut Bench, client: Client, allocation: Handle, size: u64) -> u64 {
    let (offset, base, reserved) = (0, 0, 0);
    let protection = Protection::WRITE.bits();
    let request = MapGpuVirtualAddress { allocation, base, offset, size, protection, reserved };
    bench.call(client, &request).unwrap().gpu_va
}

/// Where an address of the client's leads.
fn page(bench: &Bench, client: Client, gpu_va: u64) -> Option<PhysicalPage> {
    let space = space(bench, client);
    bench.model.state().page(space, gpu_va)
}

fn segment(bench: &Bench, client: Client, gpu_va: u64) -> Option<Segment> {
    page(bench, client, gpu_va).map(|page| page.segment)
}

/// What an engine reads, and what it writes there then.
fn exchange(bench: &Bench, client: Client, gpu_va: u64, content: u64) -> u64 {
    let page = page(bench, client, gpu_va).expect("a mapped page");
    let mut state = bench.model.state();
    state.contents.insert((client.guest, page), content).unwrap_or(0)
}

fn trims(bench: &Bench) -> Vec<(u32, u64)> {
    let trims = bench.events.iter().filter(|(_, event)| event.kind == EventKind::TRIM_RESIDENCY);
    trims.map(|(_, event)| (event.process, event.value)).collect()
}

#[test]
fn contents_survive_when_more_is_resident_than_local_memory_holds() {
    let (mut bench, client) = new();
    // Six times as much.
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
            // Half of them are only reached in system memory when the last have come.
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
fn a_context_is_off_the_run_list_while_what_it_uses_is_moved_and_resumes_when_that_is_done() {
    let (mut bench, client) = new();
    let first = create(&mut bench, client, PAGES);
    let va = map(&mut bench, client, first, PAGES * PAGE_SIZE);
    bench.make_resident(client, &[first]).unwrap();
    assert_eq!(segment(&bench, client, va), Some(Segment::Local));
    exchange(&bench, client, va, 7);

    bench.model.state().prompt = false;
    bench.model.state().prompt_paging = false;
    bench.model.take_log();
    let second = create_later(&mut bench, client);
    let token = bench.make_resident_later(client, &[second]);
    assert!(bench.model.state().suspended.contains(&client.id));
    assert!(bench.model.state().paging[&client.guest].is_empty(), "engines have not left it");
    bench.pass_tickets();
    assert!(!bench.model.state().paging[&client.guest].is_empty());
    while !bench.model.state().paging[&client.guest].is_empty() {
        assert!(bench.model.state().suspended.contains(&client.id));
        assert_eq!(bench.outcome(client, token), None);
        bench.model.complete_paging(client.guest);
        bench.interrupt();
    }
    assert!(!bench.model.state().suspended.contains(&client.id));
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert_eq!(segment(&bench, client, va), Some(Segment::Backing));
    assert_eq!(exchange(&bench, client, va, 8), 7);
}

/// An allocation as large as local memory, created while paging is not prompt.
fn create_later(bench: &mut Bench, client: Client) -> Handle {
    let token = bench.begin(client, &description(client, PAGES));
    bench.pass_tickets();
    let (header, body) = bench.reply(client.guest, token).expect("nothing is moved for it");
    assert_eq!(header.status, Status::SUCCESS);
    CreateAllocationReply::read_from_bytes(body).unwrap().allocation
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
    // Its own pages are where the guest has them.
    let extents = [Extent { address: 3 * PAGE_SIZE, length: PAGE_SIZE }];
    let request = CreateAllocation { extent_count: 1, ..description(client, 1) };
    let own = bench.call_with_list(client, &request, &extents).unwrap().allocation;
    assert_eq!(bench.call(client, &Lock { allocation: own }).unwrap().bar_offset, NOT_IN_BAR);
    // What stays where it is anyhow is locked where it is.
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
        (flags(AllocationFlags::PERMANENT_SYSTEM_MEM), ANYWHERE.bits()),
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

    // At the edge of 64 bits it is only described.
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
    assert_eq!(bench.make_resident(on_other, &list).unwrap_err(), refused, "not open there");
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
    // The last device that has it open takes it along.
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
fn a_process_over_its_budget_is_asked_to_trim_and_suspended_when_another_needs_its_share() {
    let (mut bench, greedy) = new();
    let local = |client, pages| CreateAllocation {
        supported_segments: SegmentSet::LOCAL.bits(),
        ..description(client, pages)
    };
    let quarter = PAGES / 4;
    let mine: Vec<_> =
        (0..4).map(|_| bench.call(greedy, &local(greedy, quarter)).unwrap().allocation).collect();
    bench.make_resident(greedy, &mine).unwrap();
    assert_eq!(trims(&bench), []);
    let modest = bench.client(greedy.guest);
    let over = PAGES / 2 * PAGE_SIZE;
    assert_eq!(trims(&bench), [(greedy.process, over)]);
    let segment = SegmentSet::LOCAL.bits();
    let query = QueryVideoMemoryInfo { segment, reserved: 0 };
    let info = bench.call(greedy, &query).unwrap();
    assert_eq!((info.size, info.budget, info.usage), (2 * over, over, 2 * over));
    let both = QueryVideoMemoryInfo { segment: 5, reserved: 0 };
    assert_eq!(bench.call(greedy, &both).unwrap_err(), (Status::INVALID_PARAMETER, 5));

    let theirs = bench.call(modest, &local(modest, PAGES / 2)).unwrap().allocation;
    bench.make_resident(modest, &[theirs]).unwrap();
    assert!(bench.model.state().suspended.contains(&greedy.id));
    assert!(!bench.model.state().suspended.contains(&modest.id));
    // A context that comes meanwhile waits too.
    let late = {
        let request = CreateContext { device: greedy.device, node: 0, reserved: 0 };
        let context = bench.call(greedy, &request).unwrap();
        bench.queue(Client { context, ..greedy }, HwQueueFlags::USER_MODE_SUBMISSION)
    };
    assert!(bench.model.state().suspended.contains(&late.id));
    bench.evict(greedy, &mine[..2]).unwrap();
    assert!(!bench.model.state().suspended.contains(&greedy.id), "all that it wants is there");
    assert!(!bench.model.state().suspended.contains(&late.id));

    // When it wants it back and the other goes, it goes on.
    let refused = bench.make_resident(greedy, &mine[..1]).unwrap_err();
    assert_eq!(refused, (Status::INSUFFICIENT_RESOURCES, quarter * PAGE_SIZE));
    let destroy = DestroyProcess { flags: TERMINATED_ABNORMALLY };
    bench.call(modest, &destroy).unwrap();
    bench.make_resident(greedy, &mine[..2]).unwrap();
}

#[test]
fn a_process_that_was_suspended_goes_on_when_the_other_has_gone() {
    let (mut bench, greedy) = new();
    let local = |client, pages| CreateAllocation {
        supported_segments: SegmentSet::LOCAL.bits(),
        ..description(client, pages)
    };
    let mine = bench.call(greedy, &local(greedy, PAGES)).unwrap().allocation;
    bench.make_resident(greedy, &[mine]).unwrap();
    let va = map(&mut bench, greedy, mine, PAGE_SIZE);
    exchange(&bench, greedy, va, 5);
    let modest = bench.client(greedy.guest);
    let theirs = bench.call(modest, &local(modest, 1)).unwrap().allocation;
    bench.make_resident(modest, &[theirs]).unwrap();
    assert_eq!(page(&bench, greedy, va), None);
    assert!(bench.model.state().suspended.contains(&greedy.id));
    bench.call(modest, &DestroyProcess { flags: 0 }).unwrap();
    assert!(!bench.model.state().suspended.contains(&greedy.id));
    assert_eq!(exchange(&bench, greedy, va, 5), 5);
}

#[test]
fn reserved_addresses_are_mapped_part_by_part_and_freed_whole() {
    let (mut bench, client) = new();
    let allocation = create(&mut bench, client, 8);
    bench.make_resident(client, &[allocation]).unwrap();
    let size = 16 * PAGE_SIZE;
    let reserve = ReserveGpuVirtualAddress { base: 0, size };
    let va = bench.call(client, &reserve).unwrap().gpu_va;
    let again = ReserveGpuVirtualAddress { base: va + PAGE_SIZE, size };
    let conflict = (Status::CONFLICTING_ADDRESSES, va + PAGE_SIZE);
    assert_eq!(bench.call(client, &again).unwrap_err(), conflict);
    let update = |at: u64, pages: u64, allocation, offset: u64| UpdateGpuVirtualAddress {
        gpu_va: va + at * PAGE_SIZE,
        size: pages * PAGE_SIZE,
        allocation,
        offset: offset * PAGE_SIZE,
        protection: if allocation == Handle(0) { 0 } else { Protection::WRITE.bits() },
        reserved: 0,
    };
    bench.call(client, &update(4, 8, allocation, 0)).unwrap();
    let seen = |bench: &Bench| -> Vec<Option<u64>> {
        let page = |at| page(bench, client, va + at * PAGE_SIZE);
        (0..16).map(|at| page(at).map(|page| page.address / PAGE_SIZE)).collect()
    };
    let first = seen(&bench)[4].unwrap();
    let expect = |bench: &Bench, pages: [Option<u64>; 16]| {
        assert_eq!(seen(bench), pages.map(|page| page.map(|page| first + page)));
    };
    let n = None;
    let s = Some;
    let whole = [n, n, n, n, s(0), s(1), s(2), s(3), s(4), s(5), s(6), s(7), n, n, n, n];
    expect(&bench, whole);
    // In the middle: to another part of it, read-only, and to nothing.
    let other = UpdateGpuVirtualAddress { protection: 0, ..update(6, 2, allocation, 0) };
    bench.call(client, &other).unwrap();
    bench.call(client, &update(9, 1, Handle(0), 0)).unwrap();
    let split = [n, n, n, n, s(0), s(1), s(0), s(1), s(4), n, s(6), s(7), n, n, n, n];
    expect(&bench, split);
    let space = space(&bench, client);
    let writable =
        |at| bench.model.state().mapped(space, va + at * PAGE_SIZE).unwrap().is_writable();
    assert!(writable(5) && !writable(6) && !writable(7) && writable(8));

    let conflict = (Status::CONFLICTING_ADDRESSES, va + 12 * PAGE_SIZE);
    assert_eq!(bench.call(client, &update(12, 5, allocation, 0)).unwrap_err(), conflict);
    let free = |size| FreeGpuVirtualAddress { gpu_va: va, size };
    let conflict = (Status::CONFLICTING_ADDRESSES, va);
    assert_eq!(bench.call(client, &free(PAGE_SIZE)).unwrap_err(), conflict);
    // What it was mapped to goes; the addresses stay taken.
    bench.call(client, &DestroyAllocation { allocation }).unwrap();
    expect(&bench, [n; 16]);
    assert_eq!(
        bench.call(client, &ReserveGpuVirtualAddress { base: va, size }).unwrap_err(),
        conflict
    );
    bench.call(client, &free(size)).unwrap();
    bench.call(client, &ReserveGpuVirtualAddress { base: va, size }).unwrap();
}

#[test]
fn an_update_is_refused_precisely() {
    let (mut bench, client) = new();
    let allocation = create(&mut bench, client, 2);
    let fixed = bench.local(client, 2 * PAGE_SIZE).unwrap().allocation;
    let va = map(&mut bench, client, allocation, 2 * PAGE_SIZE);
    let fixed_va = map(&mut bench, client, fixed, 2 * PAGE_SIZE);
    let good = UpdateGpuVirtualAddress {
        gpu_va: va,
        size: PAGE_SIZE,
        allocation,
        offset: PAGE_SIZE,
        protection: 0,
        reserved: 0,
    };
    let edge = u64::MAX - PAGE_SIZE + 1;
    let unmap = UpdateGpuVirtualAddress { allocation: Handle(0), offset: 0, ..good };
    let bad = [
        (UpdateGpuVirtualAddress { gpu_va: va + 1, ..good }, Status::INVALID_PARAMETER),
        (UpdateGpuVirtualAddress { size: 0, ..good }, Status::INVALID_PARAMETER),
        (UpdateGpuVirtualAddress { size: 2 * PAGE_SIZE, ..good }, Status::INVALID_PARAMETER),
        (UpdateGpuVirtualAddress { offset: 1, ..good }, Status::INVALID_PARAMETER),
        (UpdateGpuVirtualAddress { offset: edge, ..good }, Status::INVALID_PARAMETER),
        (UpdateGpuVirtualAddress { protection: 2, ..good }, Status::INVALID_PARAMETER),
        (UpdateGpuVirtualAddress { reserved: 1, ..good }, Status::INVALID_PARAMETER),
        (UpdateGpuVirtualAddress { offset: PAGE_SIZE, ..unmap }, Status::INVALID_PARAMETER),
        (UpdateGpuVirtualAddress { protection: 1, ..unmap }, Status::INVALID_PARAMETER),
        (UpdateGpuVirtualAddress { gpu_va: edge, ..unmap }, Status::CONFLICTING_ADDRESSES),
        (UpdateGpuVirtualAddress { gpu_va: 0, ..unmap }, Status::CONFLICTING_ADDRESSES),
        (UpdateGpuVirtualAddress { size: edge, ..unmap }, Status::CONFLICTING_ADDRESSES),
        (UpdateGpuVirtualAddress { gpu_va: fixed_va, ..unmap }, Status::NOT_SUPPORTED),
        (UpdateGpuVirtualAddress { allocation: fixed, ..good }, Status::NOT_SUPPORTED),
        (UpdateGpuVirtualAddress { allocation: Handle(1), ..good }, Status::INVALID_HANDLE),
    ];
    for (request, expected) in bad {
        assert_eq!(bench.call(client, &request).unwrap_err().0, expected, "{request:x?}");
    }
    bench.call(client, &good).unwrap();
    bench.call(client, &unmap).unwrap();
}

#[test]
fn mappings_of_an_update_are_counted_and_come_back() {
    let (mut bench, client) = with_limits(Limits { mappings: 4, ..Limits::default() });
    let allocation = create(&mut bench, client, 8);
    let size = 8 * PAGE_SIZE;
    let update = |gpu_va| UpdateGpuVirtualAddress {
        gpu_va,
        size: PAGE_SIZE,
        allocation: Handle(0),
        offset: 0,
        protection: 0,
        reserved: 0,
    };
    for _ in 0..3 {
        let va = map(&mut bench, client, allocation, size);
        // Each hole makes one mapping more.
        for hole in [1, 3, 5] {
            bench.call(client, &update(va + hole * PAGE_SIZE)).unwrap();
        }
        let full = (Status::QUOTA_EXCEEDED, 4);
        let one_more = bench.call(client, &update(va + 6 * PAGE_SIZE + PAGE_SIZE));
        one_more.expect("the end of a mapping makes none");
        let reserve = ReserveGpuVirtualAddress { base: 0, size: PAGE_SIZE };
        assert_eq!(bench.call(client, &reserve).unwrap_err(), full);
        bench.call(client, &FreeGpuVirtualAddress { gpu_va: va, size }).unwrap();
    }
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
fn paging_that_fails_loses_the_contexts_whose_memory_it_was_and_no_others() {
    let (mut bench, client) = new();
    let innocent = bench.client(client.guest);
    let extents = [Extent { address: 3 * PAGE_SIZE, length: PAGE_SIZE }];
    let request = CreateAllocation { extent_count: 1, ..description(client, 1) };
    let allocation = bench.call_with_list(client, &request, &extents).unwrap().allocation;
    bench.model.state().prompt_paging = false;
    let token = bench.make_resident_later(client, &[allocation]);
    let fault = Fault {
        reason: FaultReason::READ_PAGE_FAULT,
        opcode: Opcode::COPY,
        address: 0,
        read_pointer: 0,
    };
    bench.model.fail_paging(client.guest, fault);
    bench.interrupt();
    assert_eq!(bench.outcome(client, token), Some(Status::IO_DEVICE_ERROR));
    let lost: Vec<_> = bench
        .events
        .iter()
        .filter(|(_, event)| event.kind == EventKind::HW_QUEUE_ERROR)
        .map(|(_, event)| (event.process, event.object))
        .collect();
    assert_eq!(lost, [(client.process, client.queue.0)]);
    assert!(!bench.model.state().suspended.contains(&innocent.id));
}

#[test]
fn a_process_that_goes_in_the_middle_of_paging_leaves_its_addresses_until_that_is_done() {
    let (mut bench, client) = new();
    let allocation = create(&mut bench, client, PAGES);
    map(&mut bench, client, allocation, PAGES * PAGE_SIZE);
    let space = space(&bench, client);
    bench.model.state().prompt_paging = false;
    bench.make_resident_later(client, &[allocation]);
    let token = bench.begin(client, &DestroyProcess { flags: TERMINATED_ABNORMALLY });
    assert!(bench.model.state().spaces.contains_key(&space), "packets may still write there");
    while !bench.model.state().paging[&client.guest].is_empty() {
        assert_eq!(bench.outcome(client, token), None);
        bench.model.complete_paging(client.guest);
        bench.interrupt();
    }
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert!(!bench.model.state().spaces.contains_key(&space));
}

#[test]
fn a_guest_that_goes_in_the_middle_of_paging_leaves_nothing() {
    let (mut bench, client) = new();
    let list: Vec<_> = (0..4).map(|_| create(&mut bench, client, PAGES / 2)).collect();
    for allocation in &list {
        map(&mut bench, client, *allocation, PAGE_SIZE);
    }
    bench.model.state().prompt_paging = false;
    bench.make_resident_later(client, &list);
    bench.begin(client, &DestroyAllocation { allocation: list[0] });
    bench.input(Input::Detach { guest: client.guest });
    bench.pass_tickets();
    assert_eq!(bench.detached, [client.guest]);
    assert!(bench.model.is_empty());
}

#[test]
fn paging_gives_the_device_its_power_first_and_d3_waits_for_it() {
    let (mut bench, client) = new();
    let allocation = create(&mut bench, client, 1);
    let d3 = Command::SetDevicePower(DevicePowerState::D3);
    assert_eq!(bench.command(d3), Some(Ok(())));
    bench.model.take_log();
    // The model panics if its engine has no power.
    bench.call(client, &Lock { allocation }).unwrap();
    assert!(bench.model.take_log().contains(&Call::EnginePower(1, EnginePowerState::F0)));

    bench.model.state().prompt_paging = false;
    bench.make_resident_later(client, &[allocation]);
    let other = {
        let token = bench.begin(client, &description(client, 1));
        let (_, body) = bench.reply(client.guest, token).unwrap();
        CreateAllocationReply::read_from_bytes(body).unwrap().allocation
    };
    bench.make_resident_later(client, &[other]);
    assert_eq!(bench.command(d3), None);
    while !bench.model.state().paging[&client.guest].is_empty() {
        bench.model.complete_paging(client.guest);
        bench.interrupt();
    }
    assert!(bench.commands.values().all(Result::is_ok), "it is in D3 now");
}

#[test]
fn a_million_small_allocations_end_at_the_quota() {
    let (mut bench, client) = with_limits(Limits { handles: 5000, ..Limits::default() });
    let mut created = Vec::new();
    let refused = loop {
        match bench.call(client, &description(client, 1)) {
            Ok(reply) => created.push(reply.allocation),
            Err(refused) => break refused,
        }
        assert!(created.len() < 1_000_000);
    };
    assert_eq!(refused, (Status::QUOTA_EXCEEDED, 5000));
    let mut refused = None;
    for list in created.chunks(MAX_RESIDENCY_LIST as usize) {
        if let Err(error) = bench.make_resident(client, list) {
            refused = Some(error);
            break;
        }
    }
    // Backing memory bounds what may ever be resident.
    assert_eq!(refused, Some((Status::NO_MEMORY, PAGE_SIZE)));
    bench.call(client, &DestroyProcess { flags: 0 }).unwrap();
}
