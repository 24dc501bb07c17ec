// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues that compute and do not draw, beside a queue that draws.

use super::lost::{LOST, adds_on, drawing::draws, hang_on};
use crate::case::{Case, case};
use crate::lab::{
    At, BLUE, Lab, Module, Outcome, PATIENCE, Plan, RED, Rendering, Submit, compile, pictured,
    same, whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "asynchronous.computes",
        "a queue that does not draw dispatches, and takes the time",
        computes,
    ),
    case(
        "asynchronous.in-turns",
        "vertices that one queue computes are drawn by another, and the other way round, frame by frame",
        in_turns,
    ),
    case(
        "asynchronous.frames",
        "frames are drawn while another queue's shader runs on until a processor ends it",
        frames,
    ),
    case(
        "lost.compute-queue",
        "a shader without end on a queue that does not draw loses its device alone, while another draws",
        endless,
    ),
];

/// Counts in the first word until the second is not 0.
const COUNT: &str = "
    struct Counter { count: atomic<u32>, stop: atomic<u32> }
    @group(0) @binding(0) var<storage, read_write> counter: Counter;
    @compute @workgroup_size(1)
    fn main() {
        loop {
            atomicAdd(&counter.count, 1u);
            if atomicLoad(&counter.stop) != 0u { break; }
        }
    }";

fn computes(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue_beside()?;
    adds_on(&gpu, queue)?;
    if queue.timestamp_bits == 0 {
        return Ok(());
    }
    let times = gpu.timestamps(2)?;
    let commands = gpu.record(queue, |commands| {
        commands.reset_queries(times, 0, 2).timestamp(times, 0).barrier().timestamp(times, 1);
    })?;
    gpu.finish(queue, &[commands])?;
    let times = gpu.results(times, 2, true)?;
    same!(times.first() <= times.last(), true);
    Ok(())
}

fn in_turns(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let [draws, computes] = [gpu.queue()?, gpu.queue_beside()?];
    let there = [computes.family, draws.family];
    let back = [draws.family, computes.family];
    let source = "
        @group(0) @binding(0) var<storage, read> source: array<u32>;
        @group(0) @binding(1) var<storage, read_write> copied: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < arrayLength(&source) { copied[id.x] = source[id.x]; }
        }";
    let kernel = gpu.simple(Module(&compile(source)?), 2, 0)?;
    let brush = gpu.drawer(&Plan::plain()?)?;
    let (from, corners) = (gpu.corners(&whole_area(RED))?, gpu.corners(&whole_area(RED))?);
    let (set, canvas) = (gpu.set(&kernel, &[from, corners])?, gpu.colours()?);
    let turn = gpu.timeline(0)?;
    for frame in 0..6 {
        let colour = if frame % 2 == 0 { BLUE } else { RED };
        let words: Vec<_> = whole_area(colour).concat().iter().map(|it| it.to_bits()).collect();
        from.write(&words);
        let made = gpu.record(computes, |commands| {
            if frame > 0 {
                commands.hand_buffer_over(&corners, back);
            }
            commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1);
            commands.hand_buffer_over(&corners, there);
        })?;
        let drawn = gpu.record(draws, |commands| {
            commands.hand_buffer_over(&corners, there);
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&corners);
            commands.draw(6).end().hand_buffer_over(&corners, back);
        })?;
        let (computed, shown) = ([At(turn, 2 * frame + 1)], [At(turn, 2 * frame + 2)]);
        let one = Submit { commands: &[made], signal: &computed, ..Submit::default() };
        let other = Submit { wait: &computed, commands: &[drawn], signal: &shown };
        gpu.submit(computes, &[one], vk::Fence::null())?;
        gpu.submit(draws, &[other], vk::Fence::null())?;
        gpu.wait_for(&shown, true, PATIENCE)?;
        pictured(&gpu.words(canvas)?, |_, _| colour)?;
    }
    Ok(())
}

fn frames(lab: &Lab) -> Outcome {
    // Vulkan does not promise that a shader sees what a processor stores meanwhile.
    lab.bellhop_alone()?;
    const FRAMES: usize = 8;
    let gpu = lab.graphics()?;
    let computes = gpu.queue_beside()?;
    let kernel = gpu.simple(Module(&compile(COUNT)?), 1, 0)?;
    let (counter, fence) = (gpu.buffer(2)?, gpu.fence(false)?);
    let set = gpu.set(&kernel, &[counter])?;
    let commands = gpu.record(computes, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
    })?;
    // What both take to begin is over.
    draws(&gpu)?;
    gpu.submit(computes, &[Submit { commands: &[commands], ..Submit::default() }], fence)?;
    while counter.word(0) == 0 && !gpu.is_signaled(fence)? {
        std::thread::yield_now();
    }
    for _ in 0..FRAMES {
        draws(&gpu)?;
        same!(gpu.is_signaled(fence), Ok(false));
    }
    counter.write_at(1, &[1]);
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    Ok(())
}

fn endless(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    let (abused, other) = (lab.gpu()?, lab.graphics()?);
    let queue = abused.queue_beside()?;
    draws(&other)?;
    same!(hang_on(&abused, queue, || draws(&other))?, LOST);
    draws(&other)?;
    adds_on(&other, other.queue_beside()?)
}
