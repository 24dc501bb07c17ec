// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations and GPU virtual addresses.

use crate::bench::{BAR, Bench, Client, bytes_with_list, map};
use crate::model::{Call, GUEST_MEMORY};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{AddressSpaceId, PhysicalPage, Pte, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{
    AllocationKind, CreateAllocation, DestroyAllocation, Extent, NOT_IN_BAR,
};
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, GPU_VA_END, GPU_VA_START, MapGpuVirtualAddress,
};
use bellhop_protocol::status::Status;

const MIB: u64 = 1 << 20;

fn space(bench: &Bench, client: Client) -> AddressSpaceId {
    bench.model.state().queues[&client.id].address_space
}

fn new() -> (Bench, Client) {
    let (bench, client) = Bench::with_client(2);
    bench.model.take_log();
    (bench, client)
}

#[test]
fn local_memory_is_zeroed_before_it_is_given_out_and_runs_out() {
    let (mut bench, client) = new();
    let local = |page| PhysicalPage { segment: Segment::Local, address: page * PAGE_SIZE };
    let one = bench.local(client, 2 * PAGE_SIZE).unwrap();
    let two = bench.local(client, PAGE_SIZE).unwrap();
    assert_eq!(one.bar_offset, BAR.local_memory());
    assert_eq!(two.bar_offset, BAR.local_memory() + 2 * PAGE_SIZE);
    assert_eq!(
        bench.model.take_log(),
        [
            Call::FillPage(client.guest, local(0), 0),
            Call::FillPage(client.guest, local(1), 0),
            Call::FillPage(client.guest, local(2), 0),
        ]
    );
    let all = BAR.local_memory;
    let full = (Status::GRAPHICS_NO_VIDEO_MEMORY, all);
    assert_eq!(bench.local(client, all).unwrap_err(), full);
    bench.call(client, &DestroyAllocation { allocation: one.allocation }).unwrap();
    bench.call(client, &DestroyAllocation { allocation: two.allocation }).unwrap();
    bench.local(client, all).unwrap();
}

#[test]
fn a_size_that_is_not_whole_pages_is_refused() {
    let (mut bench, client) = new();
    for size in [0, 1, PAGE_SIZE + 8, u64::MAX] {
        let refused = (Status::INVALID_PARAMETER, size);
        assert_eq!(bench.local(client, size).unwrap_err(), refused);
    }
    let request = CreateAllocation::fixed(client.device, AllocationKind(9), PAGE_SIZE, 0);
    assert_eq!(bench.call(client, &request).unwrap_err(), (Status::INVALID_PARAMETER, 9));
    let extent = Extent { address: 0, length: PAGE_SIZE };
    let request = CreateAllocation { kind: AllocationKind::LOCAL, extent_count: 1, ..request };
    let request = bytes_with_list(client.process, &request, &[extent]);
    assert_eq!(bench.raw(client.guest, request), (Status::INVALID_PARAMETER, 1));
}

#[test]
fn system_memory_must_be_whole_pages_that_the_guest_has() {
    let (mut bench, client) = new();
    let good = [
        Extent { address: 5 * PAGE_SIZE, length: PAGE_SIZE },
        Extent { address: 0, length: 2 * PAGE_SIZE },
    ];
    let reply = bench.system(client, 3 * PAGE_SIZE, &good).unwrap();
    assert_eq!(reply.bar_offset, NOT_IN_BAR);

    for (address, length) in [
        (8, PAGE_SIZE),
        (PAGE_SIZE, 0),
        (PAGE_SIZE, 8),
        (GUEST_MEMORY, PAGE_SIZE),
        (u64::MAX - PAGE_SIZE + 1, PAGE_SIZE),
    ] {
        let extents = [good[0], Extent { address, length }];
        assert_eq!(
            bench.system(client, PAGE_SIZE + length, &extents).unwrap_err().0,
            Status::INVALID_PARAMETER
        );
    }
    // The extents must add up to the size, and be present.
    let refused = (Status::INVALID_PARAMETER, PAGE_SIZE);
    assert_eq!(bench.system(client, PAGE_SIZE, &good).unwrap_err(), refused);
    assert_eq!(bench.system(client, PAGE_SIZE, &[]).unwrap_err(), refused);
    let request =
        CreateAllocation::fixed(client.device, AllocationKind::SYSTEM, PAGE_SIZE, u32::MAX);
    let request = bytes_with_list(client.process, &request, &good);
    assert_eq!(bench.raw(client.guest, request).0, Status::INVALID_BUFFER_SIZE);
}

#[test]
fn extents_are_counted_and_come_back() {
    let mut bench = Bench::with_limits(2, Limits { extents: 2, ..Limits::default() });
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let extents = [Extent { address: 0, length: PAGE_SIZE }; 2];
    let allocation = bench.system(client, 2 * PAGE_SIZE, &extents).unwrap().allocation;
    let full = (Status::QUOTA_EXCEEDED, 2);
    assert_eq!(bench.system(client, PAGE_SIZE, &extents[..1]).unwrap_err(), full);
    bench.call(client, &DestroyAllocation { allocation }).unwrap();
    bench.system(client, PAGE_SIZE, &extents[..1]).unwrap();
}

#[test]
fn a_mapping_leads_to_the_allocations_pages() {
    let (mut bench, client) = new();
    let space = space(&bench, client);
    let extents = [
        Extent { address: 7 * PAGE_SIZE, length: 2 * PAGE_SIZE },
        Extent { address: 3 * PAGE_SIZE, length: PAGE_SIZE },
    ];
    let allocation = bench.system(client, 3 * PAGE_SIZE, &extents).unwrap().allocation;
    let request = MapGpuVirtualAddress {
        offset: PAGE_SIZE,
        protection: 0,
        ..map(allocation, 0, 2 * PAGE_SIZE)
    };
    let va = bench.call(client, &request).unwrap().gpu_va;
    assert_eq!(va, GPU_VA_START);
    let page = |address| Some(Pte::new(PhysicalPage { segment: Segment::System, address }, false));
    assert_eq!(bench.model.state().mapped(space, va), page(8 * PAGE_SIZE));
    assert_eq!(bench.model.state().mapped(space, va + PAGE_SIZE), page(3 * PAGE_SIZE));

    let local = bench.local(client, PAGE_SIZE).unwrap().allocation;
    let va = bench.call(client, &map(local, GPU_VA_END - PAGE_SIZE, PAGE_SIZE)).unwrap().gpu_va;
    assert_eq!(
        bench.model.state().mapped(space, va),
        Some(Pte::new(PhysicalPage { segment: Segment::Local, address: 0 }, true))
    );
}

#[test]
fn a_mapping_must_be_inside_the_allocation_and_the_guests_addresses() {
    let (mut bench, client) = new();
    let allocation = bench.local(client, 2 * PAGE_SIZE).unwrap().allocation;
    let good = map(allocation, MIB, 2 * PAGE_SIZE);
    let bad = [
        MapGpuVirtualAddress { base: 8, ..good },
        MapGpuVirtualAddress { base: PAGE_SIZE, ..good },
        MapGpuVirtualAddress { base: GPU_VA_END - PAGE_SIZE, ..good },
        MapGpuVirtualAddress { base: GPU_VA_END, ..good },
        MapGpuVirtualAddress { base: u64::MAX - PAGE_SIZE + 1, ..good },
        MapGpuVirtualAddress { offset: 8, ..good },
        MapGpuVirtualAddress { offset: PAGE_SIZE, ..good },
        MapGpuVirtualAddress { offset: u64::MAX - PAGE_SIZE + 1, ..good },
        MapGpuVirtualAddress { size: 0, ..good },
        MapGpuVirtualAddress { size: 8, ..good },
        MapGpuVirtualAddress { size: 3 * PAGE_SIZE, ..good },
        MapGpuVirtualAddress { protection: 2, ..good },
        MapGpuVirtualAddress { reserved: 1, ..good },
    ];
    for request in bad {
        let refused = bench.call(client, &request).unwrap_err();
        assert_eq!(refused.0, Status::INVALID_PARAMETER, "{request:?}");
    }
    bench.call(client, &good).unwrap();
    let refused = (Status::CONFLICTING_ADDRESSES, MIB + PAGE_SIZE);
    let overlapping = map(allocation, MIB + PAGE_SIZE, PAGE_SIZE);
    assert_eq!(bench.call(client, &overlapping).unwrap_err(), refused);
}

#[test]
fn freed_addresses_are_given_out_again_only_when_engines_have_forgotten_them() {
    let (mut bench, client) = new();
    let space = space(&bench, client);
    let allocation = bench.local(client, 2 * PAGE_SIZE).unwrap().allocation;
    bench.call(client, &map(allocation, MIB, 2 * PAGE_SIZE)).unwrap();
    let free = |gpu_va, size| FreeGpuVirtualAddress { gpu_va, size };
    for wrong in [free(MIB, PAGE_SIZE), free(MIB + PAGE_SIZE, PAGE_SIZE), free(0, 0)] {
        let refused = (Status::CONFLICTING_ADDRESSES, wrong.gpu_va);
        assert_eq!(bench.call(client, &wrong).unwrap_err(), refused);
    }

    bench.model.state().prompt = false;
    bench.model.take_log();
    let token = bench.begin(client, &free(MIB, 2 * PAGE_SIZE));
    assert_eq!(
        bench.model.take_log(),
        [Call::Invalidate(MIB), Call::Invalidate(MIB + PAGE_SIZE), Call::Quiesce]
    );
    assert_eq!(bench.model.state().mapped(space, MIB), None);
    assert_eq!(bench.outcome(client, token), None);
    let again = map(allocation, MIB, PAGE_SIZE);
    let refused = (Status::CONFLICTING_ADDRESSES, MIB);
    assert_eq!(bench.call(client, &again).unwrap_err(), refused);
    let twice = free(MIB, 2 * PAGE_SIZE);
    assert_eq!(bench.call(client, &twice).unwrap_err(), refused);
    bench.pass_tickets();
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    bench.call(client, &again).unwrap();
}

#[test]
fn destroying_an_allocation_unmaps_it_everywhere() {
    let (mut bench, client) = new();
    let space = space(&bench, client);
    let allocation = bench.local(client, 2 * PAGE_SIZE).unwrap().allocation;
    bench.call(client, &map(allocation, MIB, 2 * PAGE_SIZE)).unwrap();
    bench.call(client, &map(allocation, 2 * MIB, PAGE_SIZE)).unwrap();
    bench.model.state().prompt = false;
    let token = bench.begin(client, &DestroyAllocation { allocation });
    assert!(bench.model.state().guest_mappings(space).is_empty());
    // The pages are not free yet.
    assert!(bench.local(client, BAR.local_memory).is_err());
    bench.pass_tickets();
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    bench.local(client, BAR.local_memory).unwrap();
    let free = FreeGpuVirtualAddress { gpu_va: MIB, size: 2 * PAGE_SIZE };
    assert_eq!(bench.call(client, &free).unwrap_err().0, Status::CONFLICTING_ADDRESSES);
}

#[test]
fn a_mapping_that_page_tables_have_no_room_for_leaves_nothing_behind() {
    let (mut bench, client) = new();
    let space = space(&bench, client);
    let pages = 600;
    let extents = [Extent { address: 0, length: pages * PAGE_SIZE }];
    let allocation = bench.system(client, pages * PAGE_SIZE, &extents).unwrap().allocation;
    bench.model.state().page_table_room = 520;
    let request = map(allocation, MIB, pages * PAGE_SIZE);
    assert_eq!(bench.call(client, &request).unwrap_err(), (Status::INSUFFICIENT_RESOURCES, 0));
    assert!(bench.model.state().guest_mappings(space).is_empty());
    bench.model.state().page_table_room = 600;
    bench.call(client, &request).unwrap();
}

#[test]
fn what_page_tables_have_no_room_for_is_not_made_resident_nor_is_the_rest_of_its_list() {
    let (mut bench, client) = new();
    let space = space(&bench, client);
    let mut allocations = Vec::new();
    for (pages, at) in [(2, MIB), (6, 2 * MIB)] {
        let extents = [Extent { address: 0, length: pages * PAGE_SIZE }];
        let allocation = bench.system(client, pages * PAGE_SIZE, &extents).unwrap().allocation;
        bench.call(client, &map(allocation, at, pages * PAGE_SIZE)).unwrap();
        allocations.push(allocation);
    }
    bench.evict(client, &allocations).unwrap();
    assert!(bench.model.state().guest_mappings(space).is_empty());
    let room = std::mem::replace(&mut bench.model.state().page_table_room, 5);
    let refused = bench.make_resident(client, &allocations).unwrap_err();
    assert_eq!(refused.0, Status::INSUFFICIENT_RESOURCES);
    assert!(bench.model.state().guest_mappings(space).is_empty());
    bench.model.state().page_table_room = room;
    bench.make_resident(client, &allocations).unwrap();
    assert_eq!(bench.model.state().guest_mappings(space).len(), 8);
}

#[test]
fn mappings_are_counted_and_come_back() {
    let limits = Limits { mappings: 2, mapped_bytes: 4 * PAGE_SIZE, ..Limits::default() };
    let mut bench = Bench::with_limits(2, limits);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let allocation = bench.local(client, 5 * PAGE_SIZE).unwrap().allocation;
    let bytes = (Status::QUOTA_EXCEEDED, 4 * PAGE_SIZE);
    assert_eq!(bench.call(client, &map(allocation, 0, 5 * PAGE_SIZE)).unwrap_err(), bytes);
    for _ in 0..2 {
        bench.call(client, &map(allocation, 0, PAGE_SIZE)).unwrap();
    }
    let count = (Status::QUOTA_EXCEEDED, 2);
    assert_eq!(bench.call(client, &map(allocation, 0, PAGE_SIZE)).unwrap_err(), count);
    let free = FreeGpuVirtualAddress { gpu_va: GPU_VA_START, size: PAGE_SIZE };
    bench.call(client, &free).unwrap();
    bench.call(client, &map(allocation, 0, 3 * PAGE_SIZE)).unwrap();
}
