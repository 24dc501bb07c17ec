// SPDX-License-Identifier: MIT OR Apache-2.0

//! `memory.*`: allocations and GPU virtual addresses.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::Scene;
use crate::conformance::source;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{
    AllocationKind, CreateAllocation, DestroyAllocation, Extent,
};
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, GPU_VA_END, MapGpuVirtualAddress, Protection,
};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("memory.local.zeroed", source::KMD_ALLOCATIONS, local_zeroed)
        .shows("new local memory holds zeroes, whatever it held for its last owner"),
    Behaviour::new("memory.local.exhausted", source::KMD_ALLOCATIONS, local_exhausted).shows(
        "a request for more local memory than is left is refused, and freed memory can be had \
         again",
    ),
    Behaviour::new("memory.system.scattered", source::KMD_ALLOCATIONS, system_scattered)
        .shows("pages of the guest's own memory in any order are one range to the GPU"),
    Behaviour::new("memory.system.not-the-guests", source::KMD_ALLOCATIONS, system_not_the_guests)
        .shows("pages that the guest does not have are refused"),
    Behaviour::new("memory.process.own-addresses", source::KMD_VIRTUAL, own_addresses)
        .shows("a GPU virtual address names another page in another process"),
    Behaviour::new("memory.map.conflict", source::KMD_VIRTUAL, map_conflict)
        .shows("an address that is taken, or that belongs to the host, cannot be mapped"),
    Behaviour::new("memory.free.takes-effect", source::KMD_PAGING, free_takes_effect).shows(
        "after an address is freed, no engine reaches its page, even with a cached translation",
    ),
];

fn local_zeroed(scene: &Scene) -> Result<(), Mismatch> {
    const SIZE: usize = 1 << 20;
    for process in [scene.bench()?, scene.bench()?] {
        let allocation = process.device.create_allocation(AllocationKind::LOCAL, SIZE as u64)?;
        let mut bytes = vec![1; SIZE];
        allocation.read(0, &mut bytes)?;
        require!(bytes.iter().all(|byte| *byte == 0), "it holds an earlier owner's bytes");
        allocation.write(0, &vec![0xAA; SIZE])?;
    }
    Ok(())
}

fn local_exhausted(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("local memory that CPUs access")?;
    let bench = scene.bench()?;
    let size = scene.adapter().local_memory();
    let process = bench.process.process();
    let device = bench.device.handle();
    let request = |size| CreateAllocation::fixed(device, AllocationKind::LOCAL, size, 0);
    let expected = Status::GRAPHICS_NO_VIDEO_MEMORY;
    raw::expect_status(scene.transport(), process, &request(size + PAGE_SIZE), expected)?;
    for wrong in [0, 1, PAGE_SIZE + 1] {
        let expected = Status::INVALID_PARAMETER;
        raw::expect_status(scene.transport(), process, &request(wrong), expected)?;
    }
    for _ in 0..4 {
        // More than half of local memory, so that two do not fit together.
        let half = (size / 2 + PAGE_SIZE).next_multiple_of(PAGE_SIZE);
        drop(bench.device.create_allocation(AllocationKind::LOCAL, half)?);
    }
    Ok(())
}

fn system_scattered(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("memory of the whole guest")?;
    const PAGES: u64 = 16;
    let mut bench = scene.bench()?;
    let memory = scene.guest().memory(PAGES * PAGE_SIZE).map_err(bellhop_guest_umd::Error::from)?;
    // Backwards, so that no two adjacent pages stay adjacent.
    let pages = (0..PAGES).rev().map(|page| memory.address() + page * PAGE_SIZE);
    let extents: Vec<_> = pages.map(|address| Extent { address, length: PAGE_SIZE }).collect();
    let process = bench.process.process();
    let (kind, count) = (AllocationKind::SYSTEM, extents.len() as u32);
    let request = CreateAllocation::fixed(bench.device.handle(), kind, PAGES * PAGE_SIZE, count);
    let allocation =
        raw::call_with_list(scene.transport(), process, &request, extents.as_bytes())?.allocation;
    let map = MapGpuVirtualAddress {
        allocation,
        base: 0,
        offset: 0,
        size: PAGES * PAGE_SIZE,
        protection: Protection::WRITE.bits(),
        reserved: 0,
    };
    let gpu_va = raw::call(scene.transport(), process, &map)?.gpu_va;
    let source: Vec<u8> = (0..PAGES * PAGE_SIZE).map(|place| (place / 100) as u8).collect();
    bench.write(0, &source)?;
    let length = source.len() as u64;
    let (from, to) = (bench.va(0), bench.va(length));
    bench.commands.copy(from, gpu_va, length)?.copy(gpu_va, to, length)?;
    bench.run()?;
    require!(bench.read(source.len(), source.len())? == source, "the bytes did not come back");
    let mut last_page = vec![0; PAGE_SIZE as usize];
    use vm_memory::Bytes;
    let read = |error| Mismatch::Seen(format!("guest memory: {error}"));
    let bytes = memory.bytes().map_err(bellhop_guest_umd::Error::from)?;
    bytes.read_slice(&mut last_page, (PAGES - 1) as usize * PAGE_SIZE as usize).map_err(read)?;
    require!(last_page == source[..PAGE_SIZE as usize], "the first page is not the last extent");
    raw::call(scene.transport(), process, &DestroyAllocation { allocation })
}

fn system_not_the_guests(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let end = scene.guest().end_of_memory();
    let extents = [
        Extent { address: end, length: PAGE_SIZE },
        Extent { address: end - PAGE_SIZE, length: 2 * PAGE_SIZE },
        Extent { address: u64::MAX - PAGE_SIZE + 1, length: PAGE_SIZE },
        Extent { address: end - PAGE_SIZE + 1, length: PAGE_SIZE },
        Extent { address: end - PAGE_SIZE, length: 0 },
        Extent { address: end - PAGE_SIZE, length: u64::MAX - PAGE_SIZE + 1 },
    ];
    for extent in extents {
        let (device, kind) = (bench.device.handle(), AllocationKind::SYSTEM);
        // The allocation's own size if it has one, so that nothing else is wrong.
        let size = extent.length.clamp(PAGE_SIZE, 2 * PAGE_SIZE);
        let request = CreateAllocation::fixed(device, kind, size, 1);
        let bytes = raw::encode(bench.process.process(), &request, extent.as_bytes());
        let status = raw::send(scene.transport(), &bytes)?.status;
        require!(status == Status::INVALID_PARAMETER, "{extent:x?} ended with {status}");
    }
    Ok(())
}

fn own_addresses(scene: &Scene) -> Result<(), Mismatch> {
    const BASE: u64 = 1 << 32;
    let mut benches = [scene.bench()?, scene.bench()?];
    let mut pages = Vec::new();
    for (bench, mark) in benches.iter_mut().zip([0x11, 0x22]) {
        let page = bench.device.create_allocation(AllocationKind::LOCAL, PAGE_SIZE)?;
        page.write(0, &[mark; 8])?;
        pages.push(page.map_at(BASE, 0, PAGE_SIZE, Protection::WRITE)?);
    }
    for (bench, mark) in benches.iter_mut().zip([0x11, 0x22]) {
        bench.commands.copy(BASE, bench.va(0), 8)?;
        bench.run()?;
        let seen = bench.read(0, 8)?;
        require!(seen == [mark; 8], "process with {mark:#x} read {seen:x?}");
    }
    Ok(())
}

fn map_conflict(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let allocation = bench.device.create_allocation(AllocationKind::LOCAL, 4 * PAGE_SIZE)?;
    let first = allocation.map(Protection::WRITE)?;
    let map = |base, offset, size, protection| MapGpuVirtualAddress {
        allocation: allocation.handle(),
        base,
        offset,
        size,
        protection,
        reserved: 0,
    };
    let process = bench.process.process();
    let cases = [
        (map(first.gpu_va() + PAGE_SIZE, 0, PAGE_SIZE, 0), Status::CONFLICTING_ADDRESSES),
        (map(GPU_VA_END, 0, PAGE_SIZE, 0), Status::INVALID_PARAMETER),
        (map(u64::MAX - PAGE_SIZE + 1, 0, PAGE_SIZE, 0), Status::INVALID_PARAMETER),
        (map(0, 0, 0, 0), Status::INVALID_PARAMETER),
        (map(1, 0, PAGE_SIZE, 0), Status::INVALID_PARAMETER),
        (map(0, 3 * PAGE_SIZE, 2 * PAGE_SIZE, 0), Status::INVALID_PARAMETER),
        (map(0, u64::MAX - PAGE_SIZE + 1, PAGE_SIZE, 0), Status::INVALID_PARAMETER),
        (map(0, 0, PAGE_SIZE, 1 << 7), Status::INVALID_PARAMETER),
    ];
    for (request, expected) in cases {
        let (status, _) = raw::status(scene.transport(), process, &request)?;
        require!(status == expected, "{request:x?} ended with {status}, not {expected}");
    }
    let request = FreeGpuVirtualAddress { gpu_va: first.gpu_va(), size: PAGE_SIZE };
    raw::expect_status(scene.transport(), process, &request, Status::CONFLICTING_ADDRESSES)
}

fn free_takes_effect(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let page = bench.device.create_allocation(AllocationKind::LOCAL, PAGE_SIZE)?;
    let mapping = page.map(Protection::WRITE)?;
    let gpu_va = mapping.gpu_va();
    // From here on, the engine caches the translation.
    bench.commands.fill(gpu_va, PAGE_SIZE, 1)?;
    bench.run()?;
    drop(mapping);
    bench.commands.fill(gpu_va, PAGE_SIZE, 2)?;
    bench.expect_fault(FaultReason::WRITE_PAGE_FAULT, gpu_va)?;
    let mut bytes = [0; 4];
    page.read(0, &mut bytes)?;
    require!(bytes == [1, 0, 0, 0], "the page was written after it was freed: {bytes:?}");
    Ok(())
}
