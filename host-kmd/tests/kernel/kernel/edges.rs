// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sizes at the edge of 64 bits, overlapping ranges, and far too many objects: each is refused with its own status,
//! and leaves nothing behind.

use crate::bench::{Bench, Client};
use crate::model::GUEST_MEMORY;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::ListObjects;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{DestroyAllocation, Extent};
use bellhop_protocol::control::escape::ObjectList;
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, GPU_VA_END, GPU_VA_START, MapGpuVirtualAddress, Protection,
};
use bellhop_protocol::control::hw_queue::{
    CreateHwQueue, DestroyHwQueue, HwQueueFlags, SubmitCommand,
};
use bellhop_protocol::snapshot::{Guest, Quota};
use bellhop_protocol::status::Status;

/// Lengths and addresses, whole pages where possible, with which no sum may overflow.
const EDGES: [u64; 8] = [
    1 << 40,
    1 << 52,
    (1 << 63) - PAGE_SIZE,
    1 << 63,
    (1 << 63) + PAGE_SIZE,
    u64::MAX - 2 * PAGE_SIZE + 1,
    u64::MAX - PAGE_SIZE + 1,
    u64::MAX,
];

fn new() -> (Bench, Client) {
    let (bench, client) = Bench::with_client(2);
    (bench, client)
}

/// The guest's use of all its quotas.
fn quotas(bench: &Bench) -> Vec<Quota> {
    let wanted = ListObjects {
        list: ObjectList::GUESTS,
        guest: GuestId(0),
        process: 0,
        parent: Handle(0),
        after: 0,
    };
    let page = bench.list(wanted, 1 << 16).unwrap();
    let guests: Vec<Guest> = serde_json::from_slice(&page.objects).unwrap();
    guests[0].quotas.clone()
}

fn quota(bench: &Bench, what: &str) -> Quota {
    quotas(bench).into_iter().find(|quota| quota.what == what).unwrap()
}

fn map(allocation: Handle, base: u64, offset: u64, size: u64) -> MapGpuVirtualAddress {
    let protection = Protection::WRITE.bits();
    MapGpuVirtualAddress { allocation, base, offset, size, protection, reserved: 0 }
}

#[test]
fn sizes_at_the_edge_of_64_bits_are_refused_and_cost_nothing() {
    let (mut bench, client) = new();
    let allocation = bench.local(client, 8 * PAGE_SIZE).unwrap().allocation;
    let before = quotas(&bench);
    for edge in EDGES {
        assert!(bench.local(client, edge).is_err(), "{edge:#x} of local memory");
        let parameter = Status::INVALID_PARAMETER;
        for extent in [
            Extent { address: 0, length: edge },
            Extent { address: edge, length: PAGE_SIZE },
            Extent { address: edge, length: edge },
            Extent { address: GUEST_MEMORY - PAGE_SIZE, length: edge },
        ] {
            // Where lengths wrap, both together are one page long.
            let rest = Extent { address: 0, length: PAGE_SIZE.wrapping_sub(extent.length) };
            for extents in [&[extent][..], &[extent, rest], &[extent, extent]] {
                for size in [PAGE_SIZE, edge, extent.length.wrapping_mul(2)] {
                    let refused = bench.system(client, size, extents).unwrap_err();
                    assert_eq!(refused.0, parameter, "{extents:x?} of {size:#x}");
                }
            }
        }
        for request in [
            map(allocation, 0, 0, edge),
            map(allocation, 0, edge, PAGE_SIZE),
            map(allocation, 0, edge, edge),
            map(allocation, 0, edge, 0u64.wrapping_sub(edge)),
            map(allocation, edge, 0, PAGE_SIZE),
            map(allocation, GPU_VA_END - PAGE_SIZE, 0, 2 * PAGE_SIZE),
            map(allocation, GPU_VA_START, 0, edge),
        ] {
            assert_eq!(bench.call(client, &request).unwrap_err().0, parameter, "{request:x?}");
        }
        for free in [
            FreeGpuVirtualAddress { gpu_va: edge, size: PAGE_SIZE },
            FreeGpuVirtualAddress { gpu_va: GPU_VA_START, size: edge },
            FreeGpuVirtualAddress { gpu_va: edge, size: edge },
        ] {
            let refused = bench.call(client, &free).unwrap_err();
            assert_eq!(refused.0, Status::CONFLICTING_ADDRESSES, "{free:x?}");
        }
        let submit = SubmitCommand {
            hw_queue: client.queue,
            gpu_va: edge,
            progress_fence_value: edge,
            size: u32::MAX,
            reserved: 0,
        };
        assert!(bench.call(client, &submit).is_err());
    }
    assert_eq!(quotas(&bench), before);
    // The last possible range is accepted.
    let end = GPU_VA_END - 8 * PAGE_SIZE;
    bench.call(client, &map(allocation, end, 0, 8 * PAGE_SIZE)).unwrap();
}

#[test]
fn a_range_that_overlaps_a_mapping_in_any_way_is_taken() {
    let (mut bench, client) = new();
    let allocation = bench.local(client, 16 * PAGE_SIZE).unwrap().allocation;
    let at = |page: u64| GPU_VA_START + page * PAGE_SIZE;
    bench.call(client, &map(allocation, at(8), 0, 4 * PAGE_SIZE)).unwrap();
    let before = quotas(&bench);
    for (first, pages) in [(8, 4), (8, 1), (11, 1), (9, 2), (7, 2), (11, 2), (7, 6), (0, 16)] {
        let request = map(allocation, at(first), 0, pages * PAGE_SIZE);
        let refused = bench.call(client, &request).unwrap_err();
        assert_eq!(refused, (Status::CONFLICTING_ADDRESSES, at(first)), "{pages} from {first}");
    }
    // A part of a mapping cannot be freed, nor can a range that exceeds it.
    for (first, pages) in [(8, 1), (9, 3), (8, 5), (7, 5)] {
        let free = FreeGpuVirtualAddress { gpu_va: at(first), size: pages * PAGE_SIZE };
        let refused = bench.call(client, &free).unwrap_err();
        assert_eq!(refused, (Status::CONFLICTING_ADDRESSES, at(first)));
    }
    assert_eq!(quotas(&bench), before);
    // Beside it there is room, and two addresses may map the bytes.
    bench.call(client, &map(allocation, at(7), 0, PAGE_SIZE)).unwrap();
    bench.call(client, &map(allocation, at(12), 0, PAGE_SIZE)).unwrap();
}

#[test]
fn of_a_million_small_allocations_the_guest_gets_as_many_as_it_may_have() {
    const WANTED: u64 = 1_000_000;
    let (mut bench, client) = new();
    let before = quotas(&bench);
    let Quota { used, limit, .. } = quota(&bench, "allocations");
    let free = limit - used;
    let full = (Status::QUOTA_EXCEEDED, limit);
    let mut allocations = Vec::new();
    for wanted in 0..WANTED {
        let page = wanted % (GUEST_MEMORY / PAGE_SIZE);
        let extent = Extent { address: page * PAGE_SIZE, length: PAGE_SIZE };
        match bench.system(client, PAGE_SIZE, &[extent]) {
            Ok(reply) => allocations.push(reply.allocation),
            Err(refused) => assert_eq!(refused, full),
        }
    }
    assert_eq!(allocations.len() as u64, free);
    for allocation in allocations {
        bench.call(client, &DestroyAllocation { allocation }).unwrap();
    }
    assert_eq!(quotas(&bench), before);
}

#[test]
fn allocations_and_queues_have_limits_of_their_own() {
    let limits = Limits { allocations: 2, hw_queues: 2, ..Limits::default() };
    let mut bench = Bench::with_limits(2, limits);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let queue = bench.queue(client, HwQueueFlags::empty()).queue;
    let another = CreateHwQueue { context: client.context, flags: 0, reserved: 0 };
    let allocation = bench.local(client, PAGE_SIZE).unwrap().allocation;
    bench.local(client, PAGE_SIZE).unwrap();
    let before = quotas(&bench);
    for _ in 0..3 {
        assert_eq!(bench.call(client, &another).unwrap_err(), (Status::QUOTA_EXCEEDED, 2));
        let refused = bench.local(client, PAGE_SIZE).unwrap_err();
        assert_eq!(refused, (Status::QUOTA_EXCEEDED, 2));
    }
    assert_eq!(quotas(&bench), before, "what was refused counts too");
    for what in ["allocations", "hardware queues"] {
        let Quota { used, limit, .. } = quota(&bench, what);
        assert_eq!((used, limit), (2, 2), "{what}");
    }
    bench.call(client, &DestroyAllocation { allocation }).unwrap();
    bench.local(client, PAGE_SIZE).unwrap();
    bench.call(client, &DestroyHwQueue { hw_queue: queue }).unwrap();
    bench.call(client, &another).unwrap();
    assert_eq!(quotas(&bench), before);
    // Another guest has its own quota.
    let other = bench.guest(2);
    let other = bench.client(other);
    bench.local(other, PAGE_SIZE).unwrap();
    bench.queue(other, HwQueueFlags::empty());
}
