// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dispatches, copies and fills that take what those before them made.

use crate::case::{Case, case};
use crate::lab::{Gpu, Kernel, Lab, Module, Outcome, compile, module, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "chain.ping-pong",
        "two buffers take turns as what 100 dispatches read and write",
        ping_pong,
    ),
    case("chain.tree", "half as many invocations each time add a million numbers up", tree),
    case(
        "chain.fill-update-copy-dispatch",
        "fills, updates, copies and dispatches of the same buffers are in order with barriers",
        of_all_kinds,
    ),
    case(
        "chain.indirect-sizes",
        "a dispatch computes the sizes of those that follow, at offsets of one buffer",
        indirect_sizes,
    ),
    case(
        "chain.secondary",
        "secondary command buffers that dispatch take turns with copies of the primary one",
        secondary,
    ),
    case("chain.readers", "many dispatches read at once what one stored, each to its own", readers),
];

/// A kernel in WGSL whose storage buffers are the first bindings.
fn kernel(gpu: &Gpu<'_>, source: &str, buffers: u32) -> Outcome<Kernel> {
    gpu.simple(Module(&compile(source)?), buffers, 0)
}

fn ping_pong(lab: &Lab) -> Outcome {
    const COUNT: usize = 256;
    let gpu = lab.gpu()?;
    let step = kernel(
        &gpu,
        "@group(0) @binding(0) var<storage, read> old: array<u32>;
        @group(0) @binding(1) var<storage, read_write> next: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            next[id.x] = old[(id.x + 255u) & 255u] * 3u + old[(id.x + 1u) & 255u] + 1u;
        }",
        2,
    )?;
    let mut expected: Vec<u32> = (0..COUNT as u32).collect();
    let (one, two) = (gpu.buffer_of(&expected)?, gpu.buffer(COUNT)?);
    let (there, back) = (gpu.set(&step, &[one, two])?, gpu.set(&step, &[two, one])?);
    gpu.run(|commands| {
        commands.bind(&step);
        for _ in 0..50 {
            commands.sets(&step, &[there]).dispatch(4, 1, 1).barrier();
            commands.sets(&step, &[back]).dispatch(4, 1, 1).barrier();
        }
    })?;
    for _ in 0..100 {
        let of = |at: usize| {
            let [left, right] = [at + COUNT - 1, at + 1].map(|at| expected[at % COUNT]);
            left.wrapping_mul(3).wrapping_add(right).wrapping_add(1)
        };
        expected = (0..COUNT).map(of).collect();
    }
    same!(one.read(), expected);
    Ok(())
}

fn tree(lab: &Lab) -> Outcome {
    const COUNT: u32 = 1 << 20;
    let gpu = lab.gpu()?;
    let step = kernel(
        &gpu,
        "@group(0) @binding(0) var<storage, read_write> all: array<u32>;
        @group(0) @binding(1) var<storage, read_write> calls: atomic<u32>;
        @compute @workgroup_size(64)
        fn main(
            @builtin(global_invocation_id) id: vec3<u32>,
            @builtin(num_workgroups) groups: vec3<u32>,
        ) {
            all[id.x] += all[id.x + groups.x * 64u];
            atomicAdd(&calls, 1u);
        }",
        2,
    )?;
    let numbers: Vec<u32> = (0..COUNT).map(|number| number.wrapping_mul(0x9e37_79b9)).collect();
    let (all, calls) = (gpu.buffer_of(&numbers)?, gpu.buffer(1)?);
    let set = gpu.set(&step, &[all, calls])?;
    gpu.run(|commands| {
        commands.bind(&step).sets(&step, &[set]);
        for halvings in 1..=14 {
            commands.dispatch((COUNT >> halvings) / 64, 1, 1).barrier();
        }
    })?;
    let sum = |numbers: &[u32]| numbers.iter().fold(0u32, |sum, each| sum.wrapping_add(*each));
    same!(sum(&all.first(64)), sum(&numbers));
    same!(calls.word(0), COUNT - 64);
    Ok(())
}

fn of_all_kinds(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let add = gpu.simple(module!("add"), 3, 4)?;
    let (one, two, sum) = (gpu.local(64)?, gpu.local(64)?, gpu.local(64)?);
    let (set, seen) = (gpu.set(&add, &[one, two, sum])?, gpu.buffer(64)?);
    gpu.run(|commands| {
        commands.bind(&add).sets(&add, &[set]).push(&add, &[64]);
        commands.fill(&one, 0, vk::WHOLE_SIZE, 1).fill(&two, 0, vk::WHOLE_SIZE, 7).barrier();
        for round in 0..10 {
            commands.update(&one, 4 * round, &[round as u32 * 100]).barrier();
            commands.dispatch(1, 1, 1).barrier();
            commands.copy(&sum, &two, &[(0, 32, 32), (32, 0, 32)]).fill(&one, 128, 64, 5);
            commands.barrier();
        }
        commands.copy(&two, &seen, &[(0, 0, 64)]).barrier();
    })?;
    let (mut one, mut two) = ([1u32; 64], [7u32; 64]);
    for round in 0..10 {
        one[round] = round as u32 * 100;
        let sums: Vec<u32> = one.iter().zip(two).map(|(one, two)| one + two).collect();
        two = std::array::from_fn(|place| sums[(place + 32) % 64]);
        one[32..48].fill(5);
    }
    same!(seen.read(), two.to_vec());
    Ok(())
}

fn indirect_sizes(lab: &Lab) -> Outcome {
    const COUNT: u32 = 8;
    let gpu = lab.gpu()?;
    let sizes = kernel(
        &gpu,
        "@group(0) @binding(0) var<storage, read_write> sizes: array<array<u32, 5>, 8>;
        @compute @workgroup_size(8)
        fn main(@builtin(local_invocation_index) at: u32) {
            sizes[at] = array<u32, 5>(99u, at, 2u, at % 3u + 1u, 99u);
        }",
        1,
    )?;
    let count = kernel(
        &gpu,
        "@group(0) @binding(0) var<storage, read_write> counts: array<atomic<u32>>;
        @compute @workgroup_size(1)
        fn main(@builtin(num_workgroups) groups: vec3<u32>) { atomicAdd(&counts[groups.x], 1u); }",
        1,
    )?;
    let (buffer, counts) = (gpu.local(5 * COUNT as usize)?, gpu.buffer(COUNT as usize)?);
    let (of_sizes, of_count) = (gpu.set(&sizes, &[buffer])?, gpu.set(&count, &[counts])?);
    gpu.run(|commands| {
        commands.bind(&sizes).sets(&sizes, &[of_sizes]).dispatch(1, 1, 1).barrier();
        commands.bind(&count).sets(&count, &[of_count]);
        for at in 0..u64::from(COUNT) {
            commands.dispatch_indirect(&buffer, 20 * at + 4);
        }
        commands.barrier();
    })?;
    same!(counts.read(), (0..COUNT).map(|at| at * 2 * (at % 3 + 1)).collect::<Vec<_>>());
    Ok(())
}

fn secondary(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let step = gpu.simple(module!("accumulate"), 1, 8)?;
    let (state, trail) = (gpu.buffer_of(&[1])?, gpu.buffer(20)?);
    let set = gpu.set(&step, &[state])?;
    let other = gpu.record_secondary(queue, |commands| {
        commands.bind(&step).sets(&step, &[set]).push(&step, &[3, 2]).dispatch(1, 1, 1).barrier();
    })?;
    gpu.run(|commands| {
        for turn in 0..20 {
            commands.execute(&[other]).copy(&state, &trail, &[(0, turn, 1)]).barrier();
        }
    })?;
    let next = |state: &u32| Some(state.wrapping_mul(3).wrapping_add(2));
    same!(trail.read(), std::iter::successors(next(&1), next).take(20).collect::<Vec<_>>());
    Ok(())
}

fn readers(lab: &Lab) -> Outcome {
    const READERS: usize = 32;
    let gpu = lab.gpu()?;
    let add = gpu.simple(module!("add"), 3, 4)?;
    let first: Vec<u32> = (0..64).map(|number| number * number).collect();
    let (given, sum) = (gpu.buffer_of(&first)?, gpu.local(64)?);
    let store = gpu.set(&add, &[given, given, sum])?;
    let results = (0..READERS).map(|_| gpu.buffer(64)).collect::<Outcome<Vec<_>>>()?;
    let sets = results.iter().map(|result| gpu.set(&add, &[sum, given, *result]));
    let sets = sets.collect::<Outcome<Vec<_>>>()?;
    gpu.run(|commands| {
        commands.bind(&add).push(&add, &[64]).sets(&add, &[store]).dispatch(1, 1, 1).barrier();
        for set in &sets {
            commands.sets(&add, &[*set]).dispatch(1, 1, 1);
        }
        commands.barrier();
    })?;
    let expected: Vec<u32> = first.iter().map(|number| number * 3).collect();
    require!(results.iter().all(|result| result.read() == expected), "a reader saw something else");
    Ok(())
}
