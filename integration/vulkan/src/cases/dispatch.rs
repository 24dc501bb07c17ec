// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dispatches, and barriers between them.

use crate::case::{Case, case};
use crate::lab::{Buffer, Gpu, Kernel, Lab, Module, Outcome, Slot, compile, module, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("dispatch.grid", "each work group of a grid of three dimensions runs once", grid),
    case("dispatch.nothing", "a dispatch of no work groups does nothing", nothing),
    case("dispatch.base", "a dispatch with a base numbers its work groups from there", base),
    case("dispatch.indirect", "a dispatch takes its size from a buffer when it executes", indirect),
    case(
        "dispatch.indirect-of-the-gpu",
        "a dispatch takes its size from what a dispatch before it stored",
        indirect_of_the_gpu,
    ),
    case(
        "dispatch.dependent",
        "1,000 dispatches, each of what the one before stored, are right with barriers",
        dependent,
    ),
    case(
        "dispatch.buffer-barrier",
        "barriers of Vulkan 1.3 for one buffer order dispatches and copies of it",
        buffer_barrier,
    ),
    case("dispatch.beside", "dispatches without barriers between them all run", beside),
    case("dispatch.large", "a million invocations compute what the processor does", large),
    case(
        "dispatch.longest-axes",
        "65,535 work groups run along each axis, each of them once",
        longest_axes,
    ),
    case(
        "dispatch.largest-group",
        "a work group is as large as the device says that one may be",
        largest_group,
    ),
    case(
        "dispatch.long-command-buffer",
        "5,000 dispatches and updates in one command buffer run in order",
        long_command_buffer,
    ),
];

/// The kernel that counts work groups, its set, and its grid.
fn counting<'g>(gpu: &'g Gpu<'_>) -> Outcome<(Kernel, vk::DescriptorSet, Buffer<'g>)> {
    let kernel = gpu.kernel_of(
        module!("groups"),
        vec![gpu.set_layout(
            &[Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1)],
            vk::DescriptorSetLayoutCreateFlags::empty(),
        )?],
        0,
        &[],
        (vk::PipelineCache::null(), vk::PipelineCreateFlags::DISPATCH_BASE),
    )?;
    let counts = gpu.buffer(4099)?;
    let set = gpu.set(&kernel, &[counts])?;
    Ok((kernel, set, counts))
}

/// What the grid holds if work groups of this box ran so often, each with four invocations.
fn expected(base: [u32; 3], size: [u32; 3], times: u32) -> Vec<u32> {
    let is_inside =
        |at: [u32; 3]| (0..3).all(|axis| (base[axis]..base[axis] + size[axis]).contains(&at[axis]));
    let mut grid: Vec<u32> = (0..4096)
        .map(|place| [place % 16, place / 16 % 16, place / 256])
        .map(|at| if is_inside(at) { 4 * times } else { 0 })
        .collect();
    grid.extend(size);
    grid
}

fn grid(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (kernel, set, counts) = counting(&gpu)?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(16, 7, 3).barrier();
    })?;
    same!(counts.read(), expected([0; 3], [16, 7, 3], 1));
    Ok(())
}

fn nothing(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (kernel, set, counts) = counting(&gpu)?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]);
        commands.dispatch(0, 1, 1).dispatch(5, 0, 5).dispatch(1, 1, 0).barrier();
    })?;
    require!(counts.read().iter().all(|count| *count == 0), "something ran");
    Ok(())
}

fn base(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (kernel, set, counts) = counting(&gpu)?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]);
        commands.dispatch_base([3, 4, 5], [2, 3, 4]).barrier();
    })?;
    same!(counts.read(), expected([3, 4, 5], [2, 3, 4], 1));
    Ok(())
}

fn indirect(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let (kernel, set, counts) = counting(&gpu)?;
    let size = gpu.buffer_of(&[99, 99, 1, 1, 1])?;
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch_indirect(&size, 8).barrier();
    })?;
    // After the recording, and anew for the second submission.
    size.write_at(2, &[4, 5, 6]);
    gpu.finish(queue, &[commands])?;
    same!(counts.read(), expected([0; 3], [4, 5, 6], 1));
    counts.write(&vec![0; 4099]);
    size.write_at(2, &[2, 1, 3]);
    gpu.finish(queue, &[commands])?;
    same!(counts.read(), expected([0; 3], [2, 1, 3], 1));
    Ok(())
}

fn indirect_of_the_gpu(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (kernel, set, counts) = counting(&gpu)?;
    let size = gpu.local(4)?;
    let writer = gpu.simple(module!("indirect"), 1, 12)?;
    let of_writer = gpu.set(&writer, &[size])?;
    gpu.run(|commands| {
        commands.bind(&writer).sets(&writer, &[of_writer]).push(&writer, &[7, 2, 9]);
        commands.dispatch(1, 1, 1).barrier();
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch_indirect(&size, 0).barrier();
    })?;
    same!(counts.read(), expected([0; 3], [7, 2, 9], 1));
    Ok(())
}

/// What so many steps of `accumulate` make of a number.
fn accumulated(start: u32, steps: impl IntoIterator<Item = (u32, u32)>) -> u32 {
    let step = |value: u32, (factor, summand): (u32, u32)| {
        value.wrapping_mul(factor).wrapping_add(summand)
    };
    steps.into_iter().fold(start, step)
}

fn dependent(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer_of(&[1])?;
    let set = gpu.set(&kernel, &[state])?;
    let steps = || (0..1000).map(|step| (2 * step + 1, step));
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]);
        for (factor, summand) in steps() {
            commands.push(&kernel, &[factor, summand]).dispatch(1, 1, 1).barrier();
        }
    })?;
    same!(state.word(0), accumulated(1, steps()));
    Ok(())
}

fn buffer_barrier(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let (state, other) = (gpu.buffer_of(&[1])?, gpu.buffer(1)?);
    let set = gpu.set(&kernel, &[state])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[3, 1]);
        for _ in 0..50 {
            commands.dispatch(1, 1, 1).buffer_barrier(&state);
            commands.copy(&state, &other, &[(0, 0, 1)]);
            commands.buffer_barrier(&state).buffer_barrier(&other);
            commands.copy(&other, &state, &[(0, 0, 1)]);
            commands.buffer_barrier(&state).buffer_barrier(&other);
        }
        commands.barrier();
    })?;
    same!(state.word(0), accumulated(1, (0..50).map(|_| (3, 1))));
    Ok(())
}

fn beside(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (kernel, set, counts) = counting(&gpu)?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]);
        for _ in 0..100 {
            commands.dispatch(3, 3, 3);
        }
        commands.barrier();
    })?;
    same!(counts.read(), expected([0; 3], [3, 3, 3], 100));
    Ok(())
}

fn large(lab: &Lab) -> Outcome {
    const COUNT: u32 = 1 << 20;
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("add"), 3, 4)?;
    let (first, second): (Vec<u32>, Vec<u32>) =
        (0..COUNT).map(|number| (number.wrapping_mul(2_654_435_761), !number)).unzip();
    let sum = gpu.buffer(COUNT as usize)?;
    let set = gpu.set(&kernel, &[gpu.buffer_of(&first)?, gpu.buffer_of(&second)?, sum])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[COUNT]);
        commands.dispatch(COUNT / 64, 1, 1).barrier();
    })?;
    let wrong = sum
        .read()
        .iter()
        .zip(first.iter().zip(&second))
        .position(|(sum, (one, two))| *sum != one.wrapping_add(*two));
    require!(wrong.is_none(), "number {wrong:?} is wrong");
    Ok(())
}

fn longest_axes(lab: &Lab) -> Outcome {
    const LONGEST: u32 = 65_535;
    let gpu = lab.gpu()?;
    let source = "@group(0) @binding(0) var<storage, read_write> counts: array<atomic<u32>>;
        @compute @workgroup_size(1)
        fn main(@builtin(workgroup_id) group: vec3<u32>) {
            atomicAdd(&counts[group.x + group.y + group.z], 1u);
        }";
    let count = gpu.simple(Module(&compile(source)?), 1, 0)?;
    let counts = gpu.buffer(LONGEST as usize)?;
    let set = gpu.set(&count, &[counts])?;
    gpu.run(|commands| {
        commands.bind(&count).sets(&count, &[set]);
        commands.dispatch(LONGEST, 1, 1).dispatch(1, LONGEST, 1).dispatch(1, 1, LONGEST).barrier();
    })?;
    let wrong = counts.read().iter().position(|count| *count != 3);
    require!(wrong.is_none(), "group {wrong:?} did not run once along each axis");
    Ok(())
}

fn largest_group(lab: &Lab) -> Outcome {
    let limits = lab.description().properties.limits;
    let size = limits.max_compute_work_group_invocations.min(limits.max_compute_work_group_size[0]);
    let gpu = lab.gpu()?;
    let slots = [Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1)];
    let values: &[(u32, &[u8])] = &[(0, &size.to_le_bytes())];
    let kernel = gpu.kernel(module!("constants"), &[&slots], 0, values)?;
    let result = gpu.buffer(5)?;
    let set = gpu.set(&kernel, &[result])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
    })?;
    // The last invocation stores it.
    same!(result.word(0), size);
    Ok(())
}

fn long_command_buffer(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let (state, updated) = (gpu.buffer(1)?, gpu.buffer(64)?);
    let set = gpu.set(&kernel, &[state])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[1, 1]);
        for step in 0..5000u32 {
            commands.dispatch(1, 1, 1).update(&updated, 64, &[step; 32]).barrier();
        }
    })?;
    same!(state.word(0), 5000);
    same!(updated.word(63 - 16), 4999);
    Ok(())
}
