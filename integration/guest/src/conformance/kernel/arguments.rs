// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of dispatches, right and wrong.

use super::lab::{self, LOOP, SCATTER, TRANSFORM};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::{Arguments, Kernel};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::{DispatchFlags, DispatchKernel};
use zerocopy::IntoBytes;

/// Adds one product of its three sources, weighted, to what it made.
const WEIGHTED: &str = "
    struct Weights { first: f32, second: u32, third: i32, fourth: u32 }
    var<immediate> weights: Weights;
    @group(0) @binding(0) var<storage, read> first: array<f32>;
    @group(0) @binding(1) var<storage, read> second: array<u32>;
    @group(0) @binding(2) var<storage, read> third: array<i32>;
    @group(0) @binding(3) var<storage, read_write> made: array<f32>;
    @compute @workgroup_size(64)
    fn weighted(@builtin(global_invocation_id) id: vec3u) {
        let at = id.x;
        made[at] = weights.first * first[at] + f32(weights.second * second[at])
            + f32(weights.third * third[at]) + f32(weights.fourth);
    }";

pub(super) fn several(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(WEIGHTED)?;
    bench.write_words(0, (0..64u8).map(|at| f32::from(at).to_bits()))?;
    bench.write_words(4096, (0..64).map(|at| at * 10))?;
    bench.write_words(8192, (0..64).map(|at: i32| (-at * 100).cast_unsigned()))?;
    let mut arguments = Arguments::new();
    arguments.f32(0.5).u32(3).i32(-2).u32(7);
    for place in [0, 4096, 8192, 12_288] {
        arguments.descriptor(bench.va(place), 256);
    }
    bench.commands.dispatch_kernel(&kernel, [1; 3], &arguments)?;
    bench.run()?;
    // Small whole numbers and halves, which floats hold exactly.
    let expected = (0..64u8).map(f32::from).map(|at| 0.5 * at + 30.0 * at + 200.0 * at + 7.0);
    let made = bench.words(12_288, 64)?.into_iter().map(f32::from_bits);
    require!(made.eq(expected), "a value is wrong");
    Ok(())
}

pub(super) fn none(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl("@compute @workgroup_size(1) fn nothing() {}")?;
    bench.commands.dispatch_kernel(&kernel, [1000, 1, 1], &Arguments::new())?;
    bench.commands.write_data(bench.va(0), &[7; 8])?;
    bench.run()?;
    require!(bench.read(0, 8)? == [7; 8], "what came after was not executed");
    Ok(())
}

pub(super) fn specialised(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench_with_pointers(scene)?;
    for factor in [None, Some(3), Some(1000)] {
        let kernel = Kernel::from_spirv(&bench.device, SCATTER.spirv, "main").push_constants(12);
        let kernel = match factor {
            Some(factor) => kernel.specialise(7, factor),
            None => kernel,
        };
        let kernel = kernel.create()?;
        // Pointers in one page, to values in others.
        let pointers: Vec<u64> = (0..100).map(|at| bench.va(8192 + at * 1000)).collect();
        bench.write(0, pointers.as_bytes())?;
        for at in 0..100usize {
            bench.write(8192 + at * 1000, &(at as u64 + 5).to_le_bytes())?;
        }
        let mut arguments = Arguments::new();
        arguments.address(bench.va(0)).u32(100);
        bench.commands.dispatch_kernel(&kernel, [2, 1, 1], &arguments)?;
        bench.run()?;
        for at in 0..100 {
            let expected = (at + 5) * u64::from(factor.unwrap_or(1)) + at;
            let made = bench.word(8192 + at as usize * 1000)?;
            require!(made == expected, "factor {factor:?}: value {at} is {made}, not {expected}");
        }
    }
    Ok(())
}

pub(super) fn elsewhere(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.kernel(&LOOP)?;
    let place = 200_000;
    bench.commands.dispatch_kernel_at(&kernel, [1; 3], bench.va(place as u64))?;
    // One command buffer, submitted with other arguments each time.
    for limit in [1, 100, 70_000] {
        let mut arguments = Arguments::new();
        let result = 4096 * u64::from(limit % 3);
        arguments.u32(limit).descriptor(bench.va(result), 8);
        bench.write(place, &arguments.to_bytes())?;
        let value = bench.submit()?;
        bench.queue.progress_fence().poll(value, TIMEOUT)?;
        let iterations = bench.words(result as usize, 1)?[0];
        require!(iterations == limit, "{iterations} iterations, not {limit}");
    }
    Ok(())
}

pub(super) fn wrong(scene: &Scene) -> Result<(), Mismatch> {
    let bad = FaultReason::BAD_KERNEL_ARGUMENTS;
    let none = DispatchFlags::empty();
    let dispatch = |kernel: &Kernel| DispatchKernel::new(kernel.number(), [1; 3], none);
    type Case = (&'static str, fn(DispatchKernel, u64) -> DispatchKernel, u64);
    let cases: [Case; 7] = [
        ("too few push constants", |it, at| it.with_arguments(at, 0, 1), 0),
        ("too many push constants", |it, at| it.with_arguments(at, 260, 1), 260),
        ("a part of a push constant", |it, at| it.with_arguments(at, 6, 1), 6),
        ("too few descriptors", |it, at| it.with_arguments(at, 4, 0), 0),
        ("too many descriptors", |it, at| it.with_arguments(at, 4, u32::MAX), 0xFFFF_FFFF),
        ("an unknown flag", |it, at| DispatchKernel { flags: 2, ..it.with_arguments(at, 4, 1) }, 2),
        (
            "too many work groups",
            |it, at| DispatchKernel { groups: [1, u32::MAX, 1], ..it.with_arguments(at, 4, 1) },
            0xFFFF_FFFF,
        ),
    ];
    for (what, change, expected) in cases {
        let mut bench = lab::bench(scene)?;
        let kernel = bench.kernel(&LOOP)?;
        let at = bench.va(4096);
        bench.commands.raw(change(dispatch(&kernel), at).as_bytes())?;
        let fault = bench.expect_fault(bad, expected);
        fault.map_err(|mismatch| Mismatch::Seen(format!("{what}: {mismatch}")))?;
    }
    let mut bench = lab::bench(scene)?;
    let kernel = bench.kernel(&LOOP)?;
    let misaligned = bench.va(4100);
    bench.commands.raw(dispatch(&kernel).with_arguments(misaligned, 4, 1).as_bytes())?;
    bench.expect_fault(FaultReason::MISALIGNED, misaligned)?;
    Ok(())
}

pub(super) fn wrong_descriptor(scene: &Scene) -> Result<(), Mismatch> {
    let alignment = u64::from(lab::caps(scene)?.descriptor_alignment);
    let mut misaligned = vec![(alignment / 2, 64)];
    misaligned.retain(|(offset, _)| *offset > 0);
    for (offset, length) in misaligned {
        let mut bench = lab::bench(scene)?;
        let kernel = bench.kernel(&TRANSFORM)?;
        bench.dispatch_over(&kernel, 1, offset, length)?;
        bench.expect_fault(FaultReason::BAD_KERNEL_ARGUMENTS, bench.va(offset))?;
    }
    let mut bench = lab::bench(scene)?;
    let kernel = bench.kernel(&TRANSFORM)?;
    bench.dispatch_over(&kernel, 1, 0, 0)?;
    bench.expect_fault(FaultReason::BAD_KERNEL_ARGUMENTS, 0)?;
    Ok(())
}

pub(super) fn unreadable(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.kernel(&LOOP)?;
    // The first page behind the memory: the arguments begin in the last word before it.
    let end = bench.memory.gpu_va() + bench.memory.size();
    bench.commands.dispatch_kernel_at(&kernel, [1; 3], end - 8)?;
    bench.expect_fault(FaultReason::READ_PAGE_FAULT, end)?;
    Ok(())
}
