// SPDX-License-Identifier: MIT OR Apache-2.0

//! What kernels compute, and in which order.

use super::lab::{self, INCREMENT, INTEGERS, LOOP, POINTER, TRANSFORM};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::{Arguments, CommandBuffer};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::packet::dispatch::xor_stream;
use xxhash_rust::xxh64::xxh64;

pub(super) fn pointers(scene: &Scene) -> Result<(), Mismatch> {
    const NODES: u64 = 200;
    let mut bench = lab::bench_with_pointers(scene)?;
    let kernel = bench.kernel(&POINTER)?;
    // A node every 1,000 bytes, in an order that is not that of memory; some lie across two pages.
    let place = |node: u64| 1000 * (node * 77 % NODES);
    for node in 0..NODES {
        let next = if node + 1 < NODES { bench.va(place(node + 1)) } else { 0 };
        let bytes = [next, node + 1, 0].map(u64::to_le_bytes).concat();
        bench.write(place(node) as usize, &bytes)?;
    }
    let mut arguments = Arguments::new();
    arguments.address(bench.va(place(0)));
    bench.commands.dispatch_kernel(&kernel, [1; 3], &arguments)?;
    bench.run()?;
    let mut expected = 0u64;
    for node in 0..NODES {
        expected = expected.wrapping_mul(3).wrapping_add(node + 1);
        let found = bench.word(place(node) as usize + 16)?;
        require!(found == expected, "node {node} was found as {found:#x}, not {expected:#x}");
    }
    Ok(())
}

pub(super) fn descriptors(scene: &Scene) -> Result<(), Mismatch> {
    let alignment = u64::from(lab::caps(scene)?.descriptor_alignment.max(16));
    let mut bench = lab::bench(scene)?;
    let kernel = bench.kernel(&TRANSFORM)?;
    for (offset, count) in [(0, 1u32), (alignment, 63), (4096 - alignment, 5000), (65_536, 4096)] {
        bench.write(0, &[0xEE; 100_000])?;
        bench.dispatch_over(&kernel, 5000u32.div_ceil(64), offset, 4 * u64::from(count))?;
        bench.run()?;
        let before = bench.words(0, offset as usize / 4)?;
        let made = bench.words(offset as usize, count as usize)?;
        let behind = bench.words(offset as usize + 4 * count as usize, 64)?;
        let untouched = 0xEEEE_EEEE_u32;
        let is_untouched = |words: Vec<u32>| words.into_iter().all(|word| word == untouched);
        let right = |(index, word): (u32, u32)| {
            word == untouched.wrapping_mul(2_654_435_761).wrapping_add(count).wrapping_add(index)
        };
        require!((0..).zip(made).all(right), "{count} words at {offset} are wrong");
        require!(is_untouched(before) && is_untouched(behind), "words beside {count} were written");
    }
    Ok(())
}

pub(super) fn integers(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.kernel(&INTEGERS)?;
    let values: Vec<u64> = (0..512).map(|index| xor_stream(3, index)).collect();
    bench.write(0, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())?;
    bench.dispatch_over(&kernel, 8, 0, 4096)?;
    bench.run()?;
    for (index, value) in values.into_iter().enumerate() {
        let mut x =
            value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        x ^= x >> 33;
        x = (x << 7).wrapping_sub(x >> 57);
        if x.cast_signed() < -1_099_511_627_776 {
            x = x.wrapping_add(1_099_511_627_777);
        }
        let made = bench.word(8 * index)?;
        require!(made == x, "value {index} is {made:#x}, not {x:#x}");
    }
    Ok(())
}

pub(super) fn long_loop(scene: &Scene) -> Result<(), Mismatch> {
    const ITERATIONS: u32 = 1_000_000;
    let mut bench = lab::bench(scene)?;
    let kernel = bench.kernel(&LOOP)?;
    bench.write_words(0, [0, 12_345])?;
    let mut arguments = Arguments::new();
    arguments.u32(ITERATIONS).descriptor(bench.va(0), 8);
    bench.commands.dispatch_kernel(&kernel, [1; 3], &arguments)?;
    bench.run()?;
    let mut x = 12_345u32;
    for _ in 0..ITERATIONS {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        x ^= x >> 15;
    }
    let seen = bench.words(0, 2)?;
    require!(seen == [ITERATIONS, x], "iterations and state are {seen:?}, not [{ITERATIONS}, {x}]");
    Ok(())
}

/// Each work group adds up its part in memory that its invocations share.
const SUM: &str = "
    @group(0) @binding(0) var<storage, read> words: array<u32>;
    @group(0) @binding(1) var<storage, read_write> sums: array<u32>;
    var<workgroup> part: array<u32, 256>;
    @compute @workgroup_size(256)
    fn sum(
        @builtin(global_invocation_id) id: vec3u,
        @builtin(local_invocation_index) here: u32,
        @builtin(workgroup_id) group: vec3u,
    ) {
        part[here] = words[id.x];
        workgroupBarrier();
        for (var half = 128u; half > 0; half /= 2) {
            if here < half { part[here] += part[here + half]; }
            workgroupBarrier();
        }
        if here == 0 { sums[group.x] = part[0]; }
    }";

pub(super) fn shared_memory(scene: &Scene) -> Result<(), Mismatch> {
    const GROUPS: u32 = 100;
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(SUM)?;
    let words: Vec<u32> =
        (0..256 * u64::from(GROUPS)).map(|index| xor_stream(9, index) as u32).collect();
    bench.write_words(0, words.iter().copied())?;
    let mut arguments = Arguments::new();
    arguments.descriptor(bench.va(0), 4 * words.len() as u64);
    arguments.descriptor(bench.va(200_704), 4 * u64::from(GROUPS));
    bench.commands.dispatch_kernel(&kernel, [GROUPS, 1, 1], &arguments)?;
    bench.run()?;
    let sums = bench.words(200_704, GROUPS as usize)?;
    let expected = words.chunks(256).map(|part| part.iter().copied().fold(0, u32::wrapping_add));
    require!(sums.into_iter().eq(expected), "the sums of work groups are wrong");
    Ok(())
}

/// Every invocation counts in one of eight words.
const TALLY: &str = "
    @group(0) @binding(0) var<storage, read_write> counts: array<atomic<u32>, 8>;
    @compute @workgroup_size(64)
    fn tally(@builtin(global_invocation_id) id: vec3u) { atomicAdd(&counts[id.x % 8], 1u); }";

pub(super) fn atomics(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(TALLY)?;
    bench.write_words(0, [0; 8])?;
    bench.dispatch_over(&kernel, 1000, 0, 32)?;
    bench.dispatch_over(&kernel, 1000, 0, 32)?;
    bench.run()?;
    let counts = bench.words(0, 8)?;
    require!(counts == [16_000; 8], "counts are {counts:?}");
    Ok(())
}

/// Writes each work group's number to its place.
const NUMBER: &str = "
    @group(0) @binding(0) var<storage, read_write> words: array<u32>;
    @compute @workgroup_size(1)
    fn number(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u) {
        words[(id.z * count.y + id.y) * count.x + id.x] = id.z << 16 | id.y << 8 | id.x | 1 << 24;
    }";

pub(super) fn groups(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(NUMBER)?;
    for groups in [[7, 5, 3], [100, 1, 1], [1, 1, 9], [0, 5, 3], [7, 5, 0]] {
        let [x, y, z] = groups;
        bench.write_words(0, [0; 256])?;
        let mut arguments = Arguments::new();
        arguments.descriptor(bench.va(0), 1024);
        bench.commands.dispatch_kernel(&kernel, groups, &arguments)?;
        bench.run()?;
        let words = bench.words(0, 256)?;
        let all = (0..z).flat_map(|z| (0..y).map(move |y| (y, z)));
        let all = all.flat_map(|(y, z)| (0..x).map(move |x| z << 16 | y << 8 | x | 1 << 24));
        let expected: Vec<u32> = all.chain(std::iter::repeat(0)).take(256).collect();
        require!(words == expected, "{groups:?} work groups ran otherwise");
    }
    Ok(())
}

pub(super) fn barriers(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(INCREMENT)?;
    // More dispatches than one batch can have.
    const DISPATCHES: u32 = 150;
    bench.commands = CommandBuffer::new(&bench.device, 16 << 10)?;
    bench.write_words(0, 0..4096)?;
    for _ in 0..DISPATCHES {
        bench.commands.barrier();
        bench.dispatch_over(&kernel, 64, 0, 16_384)?;
    }
    bench.run()?;
    let words = bench.words(0, 4096)?;
    require!(words.into_iter().eq(DISPATCHES..4096 + DISPATCHES), "increments were lost");
    Ok(())
}

pub(super) fn overlapping(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let (kernel, transform) = (bench.wgsl(INCREMENT)?, bench.kernel(&TRANSFORM)?);
    bench.commands = CommandBuffer::new(&bench.device, 16 << 10)?;
    bench.write_words(0, [5; 256 * 150])?;
    for part in 0..150 {
        // Of two kernels by turns, without a barrier: each has its own words.
        let kernel = if part % 2 == 0 { &kernel } else { &transform };
        bench.dispatch_over(kernel, 4, 1024 * part, 1024)?;
    }
    // Waits for all of them.
    bench.commands.hash(bench.va(0), 150 * 1024, 1, bench.va(200_000))?;
    bench.run()?;
    let transformed = |index: u32| 5u32.wrapping_mul(2_654_435_761).wrapping_add(256 + index);
    let part = |part: u32| {
        (0..256).map(move |index| if part.is_multiple_of(2) { 6 } else { transformed(index) })
    };
    let expected: Vec<u32> = (0..150).flat_map(part).collect();
    require!(bench.words(0, expected.len())? == expected, "a dispatch computed something else");
    let bytes: Vec<u8> = expected.into_iter().flat_map(u32::to_le_bytes).collect();
    let hash = bench.word(200_000)?;
    require!(hash == xxh64(&bytes, 1), "the packet behind them saw something else");
    Ok(())
}

pub(super) fn among_packets(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(INCREMENT)?;
    for round in 0..20u32 {
        bench.commands.fill(bench.va(0), 4096, round)?;
        bench.dispatch_over(&kernel, 16, 0, 4096)?;
        bench.commands.copy(bench.va(0), bench.va(8192), 4096)?;
        bench.dispatch_over(&kernel, 16, 8192, 4096)?;
        bench.commands.copy(bench.va(8192), bench.va(16_384), 4096)?;
        bench.run()?;
        let words = bench.words(16_384, 1024)?;
        require!(words == [round + 2; 1024], "round {round} made {:?}", &words[..4]);
    }
    Ok(())
}

pub(super) fn everywhere(scene: &Scene) -> Result<(), Mismatch> {
    const SIZE: u64 = 512 << 10;
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(INCREMENT)?;
    for kind in [AllocationKind::LOCAL, AllocationKind::SYSTEM] {
        let memory = bench.device.create_allocation(kind, SIZE)?;
        let bytes: Vec<u8> = (0..SIZE as u32 / 4).flat_map(u32::to_le_bytes).collect();
        memory.write(0, &bytes)?;
        let mapping = memory.map(Protection::WRITE)?;
        let mut arguments = Arguments::new();
        arguments.descriptor(mapping.gpu_va(), SIZE);
        let groups = [SIZE as u32 / 256, 1, 1];
        bench.commands.dispatch_kernel(&kernel, groups, &arguments)?;
        bench.run()?;
        let mut made = vec![0; SIZE as usize];
        memory.read(0, &mut made)?;
        let right = (1..=SIZE as u32 / 4).flat_map(u32::to_le_bytes).eq(made);
        require!(right, "memory of kind {kind} is wrong");
    }
    Ok(())
}

pub(super) fn apart(scene: &Scene) -> Result<(), Mismatch> {
    const BASE: u64 = 1 << 32;
    let (mut one, mut other) = (lab::bench(scene)?, lab::bench(scene)?);
    let mut memories = Vec::new();
    for bench in [&mut one, &mut other] {
        let memory = bench.device.create_allocation(AllocationKind::SYSTEM, 65_536)?;
        // The same address in both processes.
        let mapping = memory.map_at(BASE, 0, 65_536, Protection::WRITE)?;
        let kernel = bench.wgsl(INCREMENT)?;
        let mut arguments = Arguments::new();
        arguments.descriptor(BASE, 65_536);
        bench.commands.dispatch_kernel(&kernel, [256, 1, 1], &arguments)?;
        memories.push((memory, mapping));
    }
    for _ in 0..30 {
        let first = one.queue.submit(&mut one.commands)?;
        let second = other.queue.submit(&mut other.commands)?;
        let third = other.queue.submit(&mut other.commands)?;
        one.queue.progress_fence().poll(first, TIMEOUT)?;
        other.queue.progress_fence().poll(second.max(third), TIMEOUT)?;
    }
    for ((memory, _), expected) in memories.iter().zip([30u32, 60]) {
        let mut bytes = vec![0; 65_536];
        memory.read(0, &mut bytes)?;
        let right = bytes.chunks(4).all(|word| word == expected.to_le_bytes());
        require!(right, "the memory does not hold {expected}");
    }
    Ok(())
}
