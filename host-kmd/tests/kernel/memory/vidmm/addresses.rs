// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reserved addresses.

use super::{create, map, new, page, space, with_limits};
use crate::bench::Bench;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::DestroyAllocation;
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, Protection, ReserveGpuVirtualAddress, UpdateGpuVirtualAddress,
};
use bellhop_protocol::status::Status;

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
    // In the middle: map a part to another part of the allocation, read-only, and unmap a page.
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
    // The allocation is destroyed; the addresses stay taken.
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
        // Each hole adds a mapping.
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
