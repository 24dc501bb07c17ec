// SPDX-License-Identifier: MIT OR Apache-2.0

//! `paging.*`, and the behaviours of `memory.*` about allocations that the device places and moves.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::transport::SystemMemory;
use bellhop_guest_umd::{Allocation, Error, RenderBuffer};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, COMPRESSED, CreateAllocation, DestroyAllocation, Lock,
    MakeResident, PRIORITY_HIGH, PRIORITY_LOW, SegmentSet,
};
use bellhop_protocol::control::gpu_va::{MapGpuVirtualAddress, Protection};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::time::Instant;
use vm_memory::VolatileMemory;
use zerocopy::IntoBytes;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("memory.create.describes", source::KMD_ALLOCATIONS, create_describes).shows(
        "creating a paged allocation takes no memory, however large it is; making one resident \
         that can never fit is refused",
    ),
    Behaviour::new("memory.resident.counted", source::KMD_ALLOCATIONS, resident_counted).shows(
        "an allocation is resident until each device has evicted it as often as it made it \
         resident",
    ),
    Behaviour::new("memory.lock.stays", source::KMD_ALLOCATIONS, lock_stays)
        .shows("CPU and GPU reach the bytes of a locked allocation in one place"),
    Behaviour::new("memory.system.permanent", source::KMD_ALLOCATIONS, system_permanent).shows(
        "an allocation with a copy in system memory may be in local memory, and comes back with \
         its bytes, written or not",
    ),
    Behaviour::new("memory.accessed-physically", source::KMD_ALLOCATIONS, accessed_physically)
        .shows(
            "engines reach all of a physically accessed allocation from one physical address, in \
             local memory, in system memory, and after eviction, and its bytes stay",
        ),
    Behaviour::new("memory.budget.trim", source::KMD_ALLOCATIONS, budget_trim)
        .shows("a process over its budget learns how much to evict, and evicts it"),
    Behaviour::new("memory.reserve.update", source::KMD_VIRTUAL, reserve_update).shows(
        "a process maps, changes and unmaps reserved addresses part by part; accesses to \
         read-only or absent parts fault",
    ),
    Behaviour::new("memory.pages.large", source::KMD_VIRTUAL, pages_large).shows(
        "addresses that large pages map and addresses that they cannot map show one allocation's \
         bytes",
    ),
    Behaviour::new("paging.evict.contents", source::KMD_PAGING, evict_contents)
        .shows("three times the local memory is resident, and every byte is right"),
    Behaviour::new("paging.evict.order", source::KMD_PAGING, evict_order)
        .shows("allocations of a lower priority leave local memory before those of a higher one"),
    Behaviour::new("paging.migration.by-use", source::KMD_MIGRATION, migration_by_use).shows(
        "a demoted allocation that is used comes back to local memory, one that is not used makes \
         room, without a request, and every byte is right",
    ),
    Behaviour::new("paging.compressed.plain", source::NOTIFICATION, compressed_plain).shows(
        "a compressed allocation that is larger than the paging process's address space is plain \
         to the CPU after its eviction",
    ),
    Behaviour::new("paging.compressed.own-pages", source::NOTIFICATION, compressed_own_pages)
        .shows(
            "the guest's own pages are plain after the eviction of an allocation that kept them \
             compressed",
        ),
    Behaviour::new("paging.notify.iommu-unmap", source::NOTIFICATION, notify_io_mmu_unmap).shows(
        "when pages are the guest's own again, the GPU reads there what the CPU writes: nothing \
         cached is left",
    ),
];

/// Bytes of local memory.
pub(super) fn local(bench: &Bench) -> Result<u64, Mismatch> {
    Ok(bench.device.video_memory_info(SegmentSet::LOCAL)?.size)
}

/// Bytes of local memory that the process uses.
fn usage(bench: &Bench) -> Result<u64, Mismatch> {
    Ok(bench.device.video_memory_info(SegmentSet::LOCAL)?.usage)
}

/// A part of local memory in whole pages.
pub(super) fn part(bytes: u64, of: u64) -> u64 {
    let part = bytes / of;
    part - part % PAGE_SIZE
}

pub(super) fn refused<T>(result: Result<T, Error>) -> Option<Status> {
    match result {
        Err(Error::Refused { status, .. }) => Some(status),
        _ => None,
    }
}

fn create_describes(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let before = usage(&bench)?;
    let size = local(&bench)? + PAGE_SIZE;
    let only_local = bench.device.allocation(size).segments(SegmentSet::LOCAL).create()?;
    let edge = bench.device.allocation(u64::MAX - PAGE_SIZE + 1).create()?;
    require!(usage(&bench)? == before, "memory was taken");
    for (allocation, expected) in
        [(&only_local, Status::GRAPHICS_NO_VIDEO_MEMORY), (&edge, Status::NO_MEMORY)]
    {
        let seen = refused(allocation.make_resident());
        require!(seen == Some(expected), "it was not refused with {expected} but {seen:?}");
    }
    require!(usage(&bench)? == before, "memory was taken in vain");
    Ok(())
}

fn resident_counted(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let other = bench.process.create_device()?;
    let allocation = bench.device.allocation(PAGE_SIZE).create()?;
    let mapping = allocation.map(Protection::WRITE)?;
    let seen = refused(other.make_resident(&[&allocation]));
    require!(seen == Some(Status::INVALID_PARAMETER), "not open there, but {seen:?}");
    other.open_allocation(&allocation)?;
    bench.device.make_resident(&[&allocation, &allocation])?;
    other.make_resident(&[&allocation])?;
    bench.device.evict(&[&allocation, &allocation])?;
    let seen = refused(bench.device.evict(&[&allocation]));
    require!(seen == Some(Status::INVALID_PARAMETER), "evicted too often: {seen:?}");
    bench.commands.fill(mapping.gpu_va(), PAGE_SIZE, 7)?;
    bench.run()?;
    other.close_allocation(&allocation)?;
    bench.commands.fill(mapping.gpu_va(), PAGE_SIZE, 8)?;
    bench.expect_fault(FaultReason::WRITE_PAGE_FAULT, mapping.gpu_va())?;
    Ok(())
}

fn lock_stays(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let size = part(local(&bench)?, 2);
    let allocation = bench.device.allocation(size).cpu_visible().create()?;
    let mapping = allocation.map(Protection::WRITE)?;
    let locked = allocation.lock_bytes()?;
    let last = size as usize - 8;
    locked.write(last, &[1; 8])?;
    allocation.make_resident()?;
    // Another process wants all of the local memory.
    let greedy = bench.device.allocation(local(&bench)?).create()?;
    greedy.make_resident()?;
    bench.commands.copy(mapping.gpu_va() + last as u64, bench.memory.gpu_va(), 8)?;
    bench.commands.fill(mapping.gpu_va(), 8, 0x0202_0202)?;
    bench.run()?;
    require!(bench.read(0, 8)? == [1; 8], "the GPU does not see what the CPU wrote");
    let mut bytes = [0; 8];
    locked.read(0, &mut bytes)?;
    require!(bytes == [2; 8], "the CPU does not see what the GPU wrote");
    drop(locked);
    let locked = allocation.lock_bytes()?;
    locked.read(0, &mut bytes)?;
    require!(bytes == [2; 8], "its bytes were lost: {bytes:?}");
    let hidden = bench.device.allocation(PAGE_SIZE).create()?;
    let request = Lock { allocation: hidden.handle() };
    let process = bench.process.process();
    raw::expect_status(scene.transport(), process, &request, Status::NOT_SUPPORTED)
}

fn system_permanent(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let kept = |bench: &Bench| bench.device.video_memory_info(SegmentSet::SYSTEM);
    // So large that no three fit together.
    let size = part(bench.device.video_memory_info(SegmentSet::LOCAL)?.size, 3);
    let _pinned = bench.device.create_allocation(AllocationKind::LOCAL, 4 * PAGE_SIZE)?;
    let before = (usage(&bench)?, kept(&bench)?.usage);
    let local = || bench.device.allocation(size).segments(SegmentSet::LOCAL);
    let allocation = local().permanent_system_memory().create()?;
    let crowd = (0..2).map(|_| local().create()).collect::<Result<Vec<_>, _>>()?;
    allocation.make_resident()?;
    let after = (usage(&bench)?, kept(&bench)?.usage);
    let grown = (after.0 - before.0, after.1 - before.1);
    require!(grown == (size, size), "local memory and the host's grew by {grown:?}, not {size}");
    let writable = allocation.map(Protection::WRITE)?;
    bench.commands.fill(writable.gpu_va(), size, 0x0303_0303)?;
    bench.run()?;
    drop(writable);
    // Evicted for others: once after it was written, and once after it was not.
    for round in 0..2 {
        allocation.evict()?;
        for other in &crowd {
            other.make_resident()?;
        }
        for other in &crowd {
            other.evict()?;
        }
        let mapping = allocation.map(Protection::empty())?;
        allocation.make_resident()?;
        let from = mapping.gpu_va() + size - 8;
        bench.commands.copy(from, bench.va(0), 8)?;
        bench.run()?;
        let seen = bench.read(0, 8)?;
        require!(seen == [3; 8], "round {round}: its bytes are {seen:?}");
    }
    Ok(())
}

fn budget_trim(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let info = bench.device.video_memory_info(SegmentSet::LOCAL)?;
    require!(info.budget <= info.size, "{info:?}");
    let parts: Vec<_> = (0..8)
        .map(|_| bench.device.allocation(part(info.size, 16)).create())
        .collect::<Result<_, _>>()?;
    let all: Vec<&Allocation> = parts.iter().map(|allocation| &**allocation).collect();
    bench.device.make_resident(&all)?;
    // Processes are added until half of local memory exceeds a share.
    let mut others = Vec::new();
    while bench.device.video_memory_info(SegmentSet::LOCAL)?.budget >= part(info.size, 4) {
        others.push(scene.adapter().open_process()?);
        require!(others.len() < 16, "budgets do not shrink");
    }
    let wanted = bench.device.wait_for_trim(TIMEOUT)?;
    require!(wanted.is_some(), "no process was asked to trim");
    let mut evicted = 0;
    let mut all = all.into_iter();
    loop {
        let info = bench.device.video_memory_info(SegmentSet::LOCAL)?;
        let Some(over) = info.usage.checked_sub(info.budget).filter(|over| *over > 0) else {
            break;
        };
        let next = all.next();
        let Some(next) = next else {
            return Err(Mismatch::Seen(format!("all is evicted and it is {over} bytes over")));
        };
        next.evict()?;
        evicted += 1;
    }
    require!(evicted > 0, "it was asked to trim within its budget");
    Ok(())
}

fn reserve_update(scene: &Scene) -> Result<(), Mismatch> {
    const PAGES: u64 = 64;
    let mut bench = scene.bench()?;
    let allocation = bench.device.allocation(PAGES * PAGE_SIZE).create()?;
    allocation.make_resident()?;
    let whole = allocation.map(Protection::WRITE)?;
    for page in 0..PAGES {
        let at = whole.gpu_va() + page * PAGE_SIZE;
        bench.commands.fill(at, PAGE_SIZE, page as u32)?;
    }
    bench.run()?;
    let reserved = bench.device.reserve(0, PAGES * PAGE_SIZE)?;
    reserved.map(0, &allocation, 0, PAGES * PAGE_SIZE, Protection::WRITE)?;
    // In the middle of a range of large pages: other bytes, read-only.
    reserved.map(20 * PAGE_SIZE, &allocation, PAGE_SIZE, 2 * PAGE_SIZE, Protection::empty())?;
    reserved.unmap(40 * PAGE_SIZE, PAGE_SIZE)?;
    let expected = |page: u64| match page {
        20 | 21 => page - 19,
        page => page,
    };
    for page in (0..PAGES).filter(|page| *page != 40) {
        let (from, to) = (reserved.gpu_va() + page * PAGE_SIZE, bench.va(page * 8));
        bench.commands.copy(from, to, 4)?;
        if page % 16 == 15 {
            bench.run()?;
        }
    }
    for page in (0..PAGES).filter(|page| *page != 40) {
        let seen = bench.word(page as usize * 8)? as u32;
        require!(u64::from(seen) == expected(page), "page {page} holds {seen}");
    }
    let mut other = bench.context.create_user_mode_queue(4096)?;
    std::mem::swap(&mut bench.queue, &mut other);
    let read_only = reserved.gpu_va() + 21 * PAGE_SIZE;
    bench.commands.fill(read_only, 8, 9)?;
    bench.expect_fault(FaultReason::WRITE_PROTECTION_FAULT, read_only)?;
    std::mem::swap(&mut bench.queue, &mut other);
    bench.commands.reset();
    let absent = reserved.gpu_va() + 40 * PAGE_SIZE;
    bench.commands.copy(absent, bench.memory.gpu_va(), 8)?;
    bench.expect_fault(FaultReason::READ_PAGE_FAULT, absent)?;
    Ok(())
}

fn pages_large(scene: &Scene) -> Result<(), Mismatch> {
    const SIZE: u64 = 1 << 20;
    const LARGE: u64 = 64 << 10;
    let mut bench = scene.bench()?;
    let allocation = bench.device.allocation(SIZE).create()?;
    allocation.make_resident()?;
    let aligned = allocation.map_at(1 << 32, 0, SIZE, Protection::WRITE)?;
    let shifted = allocation.map_at((2 << 32) + PAGE_SIZE, 0, SIZE, Protection::WRITE)?;
    let behind = allocation.map_at(3 << 32, LARGE, SIZE - LARGE, Protection::WRITE)?;
    for (index, at) in (0..SIZE).step_by(LARGE as usize / 2).enumerate() {
        bench.commands.fill(aligned.gpu_va() + at, LARGE / 2, index as u32)?;
    }
    let words = [0, 8, 16, 24].map(|offset| bench.va(offset));
    bench.commands.compare(aligned.gpu_va(), shifted.gpu_va(), SIZE, words[0])?;
    let (left, right) = (aligned.gpu_va() + LARGE, behind.gpu_va());
    bench.commands.compare(left, right, SIZE - LARGE, words[1])?;
    bench.commands.copy(shifted.gpu_va() + SIZE - 4, words[2], 4)?;
    bench.run()?;
    let equal = u64::MAX;
    require!(bench.word(0)? == equal && bench.word(8)? == equal, "the bytes differ");
    require!(bench.word(16)? as u32 == 31, "the last bytes are {}", bench.word(16)?);
    Ok(())
}

fn evict_contents(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let size = part(local(&bench)?, 4);
    let mut placed = Vec::new();
    for index in 0..12u64 {
        let allocation = bench.device.allocation(size).create()?;
        allocation.make_resident()?;
        let mapping = allocation.map(Protection::WRITE)?;
        let at = mapping.gpu_va();
        bench.commands.hash(at, size, 0, bench.va(1024))?;
        bench.commands.fill(at, size, index as u32 + 1)?;
        bench.commands.fill(at + size - 8, 8, !index as u32)?;
        bench.commands.hash(at, size, index, bench.va(index * 8))?;
        bench.run()?;
        placed.push((allocation, mapping, bench.word(1024)?));
    }
    let empty = placed[0].2;
    require!(placed.iter().all(|(.., hash)| *hash == empty), "new memory is not all zeroes");
    // Every second one is evicted, and all are then used in another order.
    for (allocation, ..) in placed.iter().step_by(2) {
        allocation.evict()?;
    }
    for (index, (allocation, mapping, _)) in placed.iter().enumerate().rev() {
        if index % 2 == 0 {
            allocation.make_resident()?;
        }
        let (seed, result) = (index as u64, bench.va(512 + index as u64 * 8));
        bench.commands.hash(mapping.gpu_va(), size, seed, result)?;
        bench.run()?;
        let (before, after) = (bench.word(index * 8)?, bench.word(512 + index * 8)?);
        require!(before == after, "allocation {index} is not what it was");
    }
    Ok(())
}

fn accessed_physically(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let (most, size) = (part(local(&bench)?, 2), part(local(&bench)?, 8).min(4 << 20));
    let allocation =
        bench.device.allocation(size).accessed_physically().priority(PRIORITY_LOW).create()?;
    let mapping = allocation.map(Protection::WRITE)?;
    let mut context = bench.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    // Fills all of it by one physical address. Virtual addresses show the bytes before and after.
    let mut last = None;
    let mut exchange = |bench: &mut Bench, pattern: u32| -> Result<(), Mismatch> {
        let at = mapping.gpu_va();
        bench.commands.hash(at, size, 0, bench.va(0))?;
        bench.run()?;
        let kept = last.is_none_or(|hash| bench.word(0).is_ok_and(|word| word == hash));
        require!(kept, "it was not kept before pattern {pattern} came");
        let mut commands = RenderBuffer::new();
        commands.fill((&allocation, 0), size, pattern)?;
        commands.fill((&allocation, size - 8), 8, !pattern)?;
        let value = context.submit(&commands)?;
        context.progress_fence().wait(value, TIMEOUT)?;
        bench.commands.hash(at, size, 0, bench.va(8))?;
        bench.commands.fill(at, size, pattern)?;
        bench.commands.fill(at + size - 8, 8, !pattern)?;
        bench.commands.hash(at, size, 0, bench.va(16))?;
        bench.run()?;
        let (physical, virtually) = (bench.word(8)?, bench.word(16)?);
        require!(physical == virtually, "pattern {pattern} is not all there");
        last = Some(virtually);
        Ok(())
    };
    allocation.make_resident()?;
    exchange(&mut bench, 1)?;
    // The allocation has the lowest priority, and not all allocations fit.
    let others = [SegmentSet::LOCAL | SegmentSet::SYSTEM, SegmentSet::LOCAL]
        .map(|segments| bench.device.allocation(most).segments(segments).create());
    let others = others.into_iter().collect::<Result<Vec<_>, _>>()?;
    for other in &others {
        other.make_resident()?;
    }
    // Use may have brought it back meanwhile: its bytes are right wherever it is.
    exchange(&mut bench, 2)?;
    allocation.evict()?;
    for other in &others {
        other.evict()?;
    }
    allocation.make_resident()?;
    exchange(&mut bench, 3)
}

fn evict_order(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let size = part(local(&bench)?, 3);
    let make = |priority| -> Result<Arc<Allocation>, Mismatch> {
        let allocation = bench.device.allocation(size).priority(priority).create()?;
        allocation.make_resident()?;
        Ok(allocation)
    };
    let (high, low) = (make(PRIORITY_HIGH)?, make(PRIORITY_LOW)?);
    let only_local = bench.device.allocation(size).segments(SegmentSet::LOCAL).create()?;
    only_local.make_resident()?;
    let with_all = usage(&bench)?;
    // One of them was demoted, and evicting that one frees no local memory.
    low.evict()?;
    require!(usage(&bench)? == with_all, "the less important one was in local memory");
    high.evict()?;
    require!(usage(&bench)? == with_all - size, "the more important one was not");
    Ok(())
}

fn migration_by_use(scene: &Scene) -> Result<(), Mismatch> {
    if !scene.adapter().features().contains(Features::PAGE_MIGRATION) {
        return Err(Mismatch::NotOffered("page migration".into()));
    }
    let mut bench = scene.bench()?;
    let (most, before) = (part(local(&bench)?, 8) * 5, usage(&bench)?);
    let make = |bench: &mut Bench, size: u64, pattern: u32| -> Result<_, Mismatch> {
        let allocation = bench.device.allocation(size).create()?;
        let mapping = allocation.map(Protection::WRITE)?;
        allocation.make_resident()?;
        bench.commands.fill(mapping.gpu_va(), size, pattern)?;
        bench.commands.hash(mapping.gpu_va(), size, 0, bench.va(pattern.into()))?;
        bench.run()?;
        Ok((allocation, mapping))
    };
    // Two that do not fit together. Their sizes tell which one is in local memory.
    let (used, unused) =
        (make(&mut bench, most, 0x100)?, make(&mut bench, most - PAGE_SIZE, 0x200)?);
    require!(usage(&bench)? == before + most - PAGE_SIZE, "the first was not demoted");
    let end = Instant::now() + TIMEOUT;
    while usage(&bench)? != before + most {
        require!(Instant::now() < end, "it is used and does not come back");
        bench.commands.copy(used.1.gpu_va(), bench.va(0), 8)?;
        bench.run()?;
    }
    for ((_, mapping), pattern) in [(&used, 0x100), (&unused, 0x200)] {
        bench.commands.hash(mapping.gpu_va(), mapping.size(), 0, bench.va(pattern + 8))?;
        bench.run()?;
        let (before, after) = (bench.word(pattern as usize)?, bench.word(pattern as usize + 8)?);
        require!(before == after, "{pattern:#x} is not what it was");
    }
    Ok(())
}

fn compressed_plain(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    // The paging process's address space is a quarter of the largest local segment.
    let size = part(local(&bench)?, 2);
    let allocation = bench
        .device
        .allocation(size)
        .segments(SegmentSet::LOCAL | SegmentSet::SYSTEM)
        .preferred(SegmentSet::SYSTEM)
        .cpu_visible()
        .private_data(COMPRESSED)
        .create()?;
    let mapping = allocation.map(Protection::WRITE)?;
    allocation.make_resident()?;
    let process = bench.process.process();
    let lock = Lock { allocation: allocation.handle() };
    let busy = Status::GRAPHICS_ALLOCATION_BUSY;
    raw::expect_status(scene.transport(), process, &lock, busy)?;
    let step = part(size, 8);
    let places: Vec<_> = (0..8).map(|index| index * step).collect();
    for (index, at) in places.iter().enumerate() {
        bench.commands.fill(mapping.gpu_va() + at, step, 0x0101_0101 * (index as u32 + 1))?;
    }
    bench.run()?;
    allocation.evict()?;
    let locked = allocation.lock_bytes()?;
    let mut bytes = vec![0; PAGE_SIZE as usize];
    for (index, at) in places.iter().enumerate() {
        for at in [*at, at + step - PAGE_SIZE] {
            locked.read(at as usize, &mut bytes)?;
            let expected = index as u8 + 1;
            require!(bytes.iter().all(|byte| *byte == expected), "{at:#x} is not plain");
        }
    }
    Ok(())
}

fn compressed_own_pages(scene: &Scene) -> Result<(), Mismatch> {
    const SIZE: u64 = 256 << 10;
    let mut bench = scene.bench()?;
    let allocation = bench
        .device
        .allocation(SIZE)
        .segments(SegmentSet::SYSTEM)
        .own_pages()
        .cpu_visible()
        .private_data(COMPRESSED)
        .create()?;
    let data: Vec<u8> = (0..SIZE).map(|place| (place / 512) as u8).collect();
    allocation.lock_bytes()?.write(0, &data)?;
    allocation.make_resident()?;
    let mapping = allocation.map(Protection::WRITE)?;
    bench.commands.copy(mapping.gpu_va(), mapping.gpu_va() + SIZE / 2, SIZE / 2)?;
    bench.run()?;
    allocation.evict()?;
    let mut seen = vec![0; SIZE as usize];
    allocation.lock_bytes()?.read(0, &mut seen)?;
    let half = SIZE as usize / 2;
    require!(seen[..half] == data[..half], "the first half is not plain");
    require!(seen[half..] == data[..half], "the second half is not what was copied");
    Ok(())
}

/// A compressed allocation of these pages, in device access: its handle and its address.
fn compressed(
    scene: &Scene,
    bench: &Bench,
    pages: &dyn SystemMemory,
) -> Result<(Handle, u64), Mismatch> {
    let (transport, process) = (scene.transport(), bench.process.process());
    let (device, size) = (bench.device.handle(), pages.len() as u64);
    let extents = pages.extents();
    let description = CreateAllocation {
        supported_segments: SegmentSet::SYSTEM.bits(),
        flags: AllocationFlags::CPU_VISIBLE.bits(),
        private_data: COMPRESSED,
        ..CreateAllocation::fixed(device, AllocationKind::PAGED, size, extents.len() as u32)
    };
    let created = raw::call_with_list(transport, process, &description, extents.as_bytes())?;
    let allocation = created.allocation;
    let resident = MakeResident { device, count: 1, reserved: 0 };
    raw::call_with_list(transport, process, &resident, allocation.as_bytes())?;
    let protection = Protection::WRITE.bits();
    let map =
        MapGpuVirtualAddress { allocation, base: 0, offset: 0, size, protection, reserved: 0 };
    Ok((allocation, raw::call(transport, process, &map)?.gpu_va))
}

fn notify_io_mmu_unmap(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("memory of the whole guest")?;
    const SIZE: u64 = 64 << 10;
    // Freed after the process has ended.
    let pages = scene.transport().allocate(SIZE).map_err(Error::from)?;
    let mut bench = scene.bench()?;
    let (transport, process) = (scene.transport(), bench.process.process());
    let cpu = || -> Result<Vec<u8>, Mismatch> {
        let mut bytes = vec![0; SIZE as usize];
        let slice = pages.region().get_slice(pages.offset(), bytes.len());
        let slice = slice.map_err(|error| Mismatch::Seen(format!("its own pages: {error}")))?;
        slice.copy_to(&mut bytes);
        Ok(bytes)
    };
    let (allocation, gpu_va) = compressed(scene, &bench, &*pages)?;
    bench.commands.fill(gpu_va, SIZE, 0x0505_0505)?;
    bench.run()?;
    let encoded = cpu()?;
    require!(encoded.iter().any(|byte| *byte != 5), "the GPU did not keep it compressed");
    // It is in device access, so that no CPU asks for plain bytes.
    raw::call(transport, process, &DestroyAllocation { allocation })?;
    require!(cpu()? == encoded, "bytes were made plain without a request");
    let (again, gpu_va) = compressed(scene, &bench, &*pages)?;
    bench.commands.copy(gpu_va, bench.memory.gpu_va(), SIZE)?;
    bench.run()?;
    require!(bench.read(0, SIZE as usize)? == encoded, "the GPU reads what it knew of the pages");
    raw::call(transport, process, &DestroyAllocation { allocation: again })
}
