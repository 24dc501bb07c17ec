// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels whose memory is evicted, moved or freed.

use super::create::await_count;
use super::lab::{self, COUNT, INCREMENT, TOUCH};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use bellhop_guest_umd::{Arguments, CommandBuffer, Error, GpuMapping};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{AllocationKind, SegmentSet};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;

const SIZE: u64 = 16 * PAGE_SIZE;

/// A paged allocation in local memory.
fn paged(bench: &Bench) -> Result<GpuMapping, Mismatch> {
    let allocation = bench.device.allocation(SIZE).segments(SegmentSet::LOCAL).create()?;
    allocation.make_resident()?;
    Ok(allocation.map(Protection::WRITE)?)
}

pub(super) fn evicted(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(INCREMENT)?;
    let memory = paged(&bench)?;
    bench.commands.fill(memory.gpu_va(), SIZE, 100)?;
    bench.run()?;
    let mut arguments = Arguments::new();
    arguments.descriptor(memory.gpu_va(), SIZE);
    for round in 1..=5u32 {
        bench.commands.dispatch_kernel(&kernel, [SIZE as u32 / 256, 1, 1], &arguments)?;
        bench.run()?;
        memory.allocation().evict()?;
        // Somebody else's bytes where the pages were.
        let other = bench.device.allocation(SIZE).segments(SegmentSet::LOCAL).create()?;
        other.make_resident()?;
        let mapping = other.map(Protection::WRITE)?;
        bench.commands.fill(mapping.gpu_va(), SIZE, 0xEEEE_EEEE)?;
        bench.run()?;
        memory.allocation().make_resident()?;
        bench.commands.copy(memory.gpu_va(), bench.va(0), SIZE)?;
        bench.commands.copy(mapping.gpu_va(), bench.va(SIZE), SIZE)?;
        bench.run()?;
        let [own, others] = [0, SIZE].map(|at| bench.words(at as usize, SIZE as usize / 4));
        let (own, others) = (own?, others?);
        require!(own.iter().all(|word| *word == 100 + round), "round {round}: bytes were lost");
        let untouched = others.iter().all(|word| *word == 0xEEEE_EEEE);
        require!(untouched, "round {round}: other bytes were written");
    }
    Ok(())
}

pub(super) fn while_evicted(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench_with_pointers(scene)?;
    let touch = bench.kernel(&TOUCH)?;
    let memory = paged(&bench)?;
    let at = memory.gpu_va() + PAGE_SIZE + 24;
    bench.touch(&touch, 0, at)?;
    bench.touch(&touch, at, bench.va(0))?;
    bench.run()?;
    memory.allocation().evict()?;
    bench.touch(&touch, at, bench.va(0))?;
    bench.expect_fault(FaultReason::READ_PAGE_FAULT, at).map(drop)
}

pub(super) fn under_a_kernel(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(COUNT_IN)?;
    let memory = paged(&bench)?;
    bench.commands.fill(memory.gpu_va(), SIZE, 0)?;
    bench.run()?;
    bench.write_words(0, [0, 0])?;
    let mut commands = CommandBuffer::new(&bench.device, 512)?;
    let mut arguments = Arguments::new();
    arguments.descriptor(bench.va(0), 8).descriptor(memory.gpu_va(), SIZE);
    commands.dispatch_kernel(&kernel, [1; 3], &arguments)?;
    let value = bench.queue.submit(&mut commands)?;
    await_count(&bench, 0)?;
    // When this returns, the GPU accesses the pages no more, and they hold somebody else's bytes.
    memory.allocation().evict()?;
    let other = bench.device.allocation(SIZE).segments(SegmentSet::LOCAL).create()?;
    other.make_resident()?;
    let mapping = other.map(Protection::WRITE)?;
    let mut queue = bench.queue_on(bench.context.node())?;
    bench.commands.fill(mapping.gpu_va(), SIZE, 0xEEEE_EEEE)?;
    bench.commands.copy(mapping.gpu_va(), bench.va(8192), SIZE)?;
    bench.run_on(&mut queue)?;
    // It is not told to stop: then it might do so without an access.
    match bench.queue.progress_fence().poll(value, TIMEOUT) {
        Err(Error::QueueLost { fault: Some(fault), .. }) => {
            let pages = memory.gpu_va()..memory.gpu_va() + SIZE;
            let is_fault = fault.reason.is_page_fault() && pages.contains(&fault.address);
            require!(is_fault, "{fault}, not in {pages:#x?}");
        }
        other => return Err(Mismatch::Seen(format!("it ended with {other:?}"))),
    }
    bench.commands.copy(mapping.gpu_va(), bench.va(8192), SIZE)?;
    bench.run_on(&mut queue)?;
    let words = bench.words(8192, SIZE as usize / 4)?;
    require!(words.iter().all(|word| *word == 0xEEEE_EEEE), "other bytes were written");
    Ok(())
}

/// Counts in its first buffer and in all words of its second, until the first's second word is not 0.
const COUNT_IN: &str = "
    struct Counter { count: atomic<u32>, stop: atomic<u32> }
    @group(0) @binding(0) var<storage, read_write> counter: Counter;
    @group(0) @binding(1) var<storage, read_write> words: array<atomic<u32>>;
    @compute @workgroup_size(1)
    fn count() {
        while atomicLoad(&counter.stop) == 0 {
            let count = atomicAdd(&counter.count, 1u);
            atomicAdd(&words[count * 77 % arrayLength(&words)], 1u);
        }
    }";

pub(super) fn freed_under_a_kernel(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(COUNT)?;
    let page = bench.device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
    let mapping = page.map(Protection::WRITE)?;
    let gpu_va = mapping.gpu_va();
    page.write(0, &[0; 8])?;
    let mut arguments = Arguments::new();
    arguments.descriptor(gpu_va, 8);
    bench.commands.dispatch_kernel(&kernel, [1; 3], &arguments)?;
    let value = bench.submit()?;
    let count = || -> Result<u32, Error> {
        let mut bytes = [0; 4];
        page.read(0, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    };
    let start = std::time::Instant::now();
    while count()? == 0 {
        require!(start.elapsed() < TIMEOUT, "the kernel does not count");
        std::thread::yield_now();
    }
    drop(mapping);
    // From here on the page is the guest's alone.
    page.write(0, &[0x5A; 8])?;
    let ended = bench.finish(value);
    match &ended {
        Err(Error::QueueLost { fault: Some(fault), .. }) => {
            let is_fault = fault.reason.is_page_fault() && fault.address & !7 == gpu_va;
            require!(is_fault, "{fault}, not at {gpu_va:#x}");
        }
        other => return Err(Mismatch::Seen(format!("it ended with {other:?}"))),
    }
    let mut bytes = [0; 8];
    page.read(0, &mut bytes)?;
    require!(bytes == [0x5A; 8], "the page was written after its address was freed");
    Ok(())
}
