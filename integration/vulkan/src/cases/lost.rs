// SPDX-License-Identifier: MIT OR Apache-2.0

//! Devices that programs lose, and what goes on.

pub(super) mod attachments;
pub(super) mod drawing;

use crate::case::{Case, case};
use crate::lab::{
    Failure, Gpu, Lab, Module, Outcome, PATIENCE, Queue, Submit, module, require, same,
};
use ash::vk;
use drawing::Stage;

pub(super) const CASES: &[Case] = &[
    case(
        "lost.endless",
        "a shader that does not end loses its device, and another device goes on",
        endless,
    ),
    case(
        "lost.wild-address",
        "a shader that follows a wild address loses its device, and another device goes on",
        wild_address,
    ),
    case(
        "lost.freed-memory",
        "a shader that uses memory after it was given back loses its device, and another device goes on",
        freed_memory,
    ),
    case(
        "lost.freed-copy",
        "a copy alone out of memory that was given back loses its device, which says where, and another device goes on",
        freed_copy,
    ),
    case(
        "lost.stays",
        "a device lost by a fragment without end says so at each submission and wait, and is closed without waiting",
        stays,
    ),
    case(
        "lost.why",
        "a program's messenger is told why a vertex without end lost a device, with the name that the program gave it",
        why,
    ),
    case(
        "lost.compiler",
        "a pipeline that the compiler does not survive loses its device, which says so, and another device goes on",
        compiler,
    ),
    case("lost.and-again", "after a device was lost, the next one works", and_again),
];

/// What a driver's message that a device is lost is about.
const DEVICE_LOST: &str = "device-lost";

/// A module with a function that calls itself, which Vulkan's rules forbid. Mesa's compiler puts each called function in the
/// place of its call, without end.
const RECURSION: [&[u32]; 17] = [
    // SPIR-V 1.0, numbers below 10
    &[0x0723_0203, 0x0001_0000, 0, 10, 0],
    // OpCapability Shader
    &[2 << 16 | 17, 1],
    // OpMemoryModel Logical GLSL450
    &[3 << 16 | 14, 0, 1],
    // OpEntryPoint GLCompute %4 "main"
    &[5 << 16 | 15, 5, 4, 0x6E69_616D, 0],
    // OpExecutionMode %4 LocalSize 1 1 1
    &[6 << 16 | 16, 4, 17, 1, 1, 1],
    // %1 = OpTypeVoid, %2 = OpTypeFunction %1
    &[2 << 16 | 19, 1],
    &[3 << 16 | 33, 2, 1],
    // %4 = OpFunction %1 None %2, %5 = OpLabel
    &[5 << 16 | 54, 1, 4, 0, 2],
    &[2 << 16 | 248, 5],
    // %6 = OpFunctionCall %1 %7, OpReturn, OpFunctionEnd
    &[4 << 16 | 57, 1, 6, 7],
    &[1 << 16 | 253],
    &[1 << 16 | 56],
    // %7 = OpFunction %1 None %2, %8 = OpLabel
    &[5 << 16 | 54, 1, 7, 0, 2],
    &[2 << 16 | 248, 8],
    // %9 = OpFunctionCall %1 %7, OpReturn, OpFunctionEnd
    &[4 << 16 | 57, 1, 9, 7],
    &[1 << 16 | 253],
    &[1 << 16 | 56],
];

/// What becomes of what is submitted to a lost device.
pub(super) const LOST: Result<(), vk::Result> = Err(vk::Result::ERROR_DEVICE_LOST);

/// Submits a shader that does not end, and returns what comes of it.
fn hang(gpu: &Gpu<'_>) -> Outcome<Result<(), vk::Result>> {
    hang_on(gpu, gpu.queue()?, || Ok(()))
}

/// Submits a shader that does not end to a queue, does something beside it, and returns what comes of the shader.
pub(super) fn hang_on(
    gpu: &Gpu<'_>,
    queue: Queue,
    beside: impl FnOnce() -> Outcome,
) -> Outcome<Result<(), vk::Result>> {
    let kernel = gpu.simple(module!("forever"), 1, 0)?;
    let set = gpu.set(&kernel, &[gpu.buffer(1)?])?;
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
    })?;
    let fence = gpu.fence(false)?;
    gpu.submit(queue, &[Submit { commands: &[commands], ..Submit::default() }], fence)?;
    beside()?;
    Ok(gpu.wait_fences(&[fence], true, PATIENCE))
}

/// The same of a shader that draws, on a device that draws.
fn hang_drawing(gpu: &Gpu<'_>, stage: Stage) -> Outcome<Result<(), vk::Result>> {
    if gpu.draws() { drawing::hang(gpu, stage) } else { hang(gpu) }
}

/// Adds on a device.
fn adds(gpu: &Gpu<'_>) -> Outcome {
    adds_on(gpu, gpu.queue()?)
}

/// Adds on a queue of a device.
pub(super) fn adds_on(gpu: &Gpu<'_>, queue: Queue) -> Outcome {
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer_of(&[20])?;
    let set = gpu.set(&kernel, &[state])?;
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[2, 2]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    gpu.finish(queue, &[commands])?;
    same!(state.word(0), 42);
    Ok(())
}

fn endless(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    let (abused, other) = (lab.gpu()?, lab.gpu()?);
    adds(&other)?;
    same!(hang(&abused)?, LOST);
    adds(&other)
}

/// Reverses an array at an address into one behind it, and returns what comes of it.
fn reverse_at(gpu: &Gpu<'_>, address: u64) -> Outcome<Result<(), vk::Result>> {
    let kernel = gpu.simple(module!("address"), 0, 20)?;
    let queue = gpu.queue()?;
    let halves = |address: u64| [address as u32, (address >> 32) as u32];
    let ([from, from_high], [to, to_high]) = (halves(address), halves(address + 0x1000));
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).push(&kernel, &[from, from_high, to, to_high, 32]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    Ok(gpu.finish(queue, &[commands]))
}

fn wild_address(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    lab.needs_addresses()?;
    let (abused, other) = (lab.gpu()?, lab.gpu()?);
    same!(reverse_at(&abused, 0x7f_0000_1000)?, LOST);
    adds(&other)
}

fn freed_memory(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    lab.needs_addresses()?;
    let (abused, other) = (lab.gpu()?, lab.gpu()?);
    let mut freed = 0;
    abused.with_short_lived(16 << 20, |buffer| {
        freed = buffer.address;
        same!(reverse_at(&abused, freed)?, Ok(()));
        Ok(())
    })?;
    same!(reverse_at(&abused, freed)?, LOST);
    adds(&other)
}

fn freed_copy(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    let (abused, other) = (lab.gpu()?, lab.gpu()?);
    let (queue, to) = (abused.queue()?, abused.buffer(4)?);
    let mut recorded = None;
    abused.with_short_lived(16 << 20, |buffer| {
        let commands = abused.record(queue, |commands| {
            commands.copy(buffer, &to, &[(1024, 0, 4)]).barrier();
        })?;
        same!(abused.finish(queue, &[commands]), Ok(()));
        recorded = Some(commands);
        Ok(())
    })?;
    let before = lab.heard(DEVICE_LOST).len();
    same!(abused.finish(queue, &Vec::from_iter(recorded)), LOST);
    let told = lab.heard(DEVICE_LOST).split_off(before);
    require!(told.iter().any(|message| message.text.contains("READ_PAGE_FAULT")), "{told:?}");
    adds(&other)
}

fn stays(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    let gpu = lab.drawer_if_any()?;
    same!(hang_drawing(&gpu, Stage::Fragment)?, LOST);
    let (queue, fence) = (gpu.queue()?, gpu.fence(false)?);
    same!(gpu.submit(queue, &[Submit::default()], fence), LOST);
    same!(gpu.wait_idle(), LOST);
    same!(gpu.wait_queue_idle(queue), LOST);
    same!(gpu.wait_fences(&[fence], true, PATIENCE), LOST);
    Ok(())
}

fn why(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    let gpu = lab.drawer_if_any()?;
    gpu.name(c"physics")?;
    let before = lab.heard(DEVICE_LOST).len();
    same!(hang_drawing(&gpu, Stage::Vertex)?, LOST);
    same!(gpu.wait_idle(), LOST);
    let told = lab.heard(DEVICE_LOST).split_off(before);
    let [message] = &told[..] else { return Err(Failure::seen(format!("told {told:?}"))) };
    require!(message.text.contains("ENGINE_TIMEOUT"), "{message:?}");
    same!(message.names, ["physics"]);
    Ok(())
}

fn compiler(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    let (abused, other) = (lab.gpu()?, lab.gpu()?);
    let before = lab.heard(DEVICE_LOST).len();
    let bytes: Vec<_> = RECURSION.concat().into_iter().flat_map(u32::to_le_bytes).collect();
    let kernel = abused.simple(Module(&bytes), 0, 0)?;
    let queue = abused.queue()?;
    let commands = abused.record(queue, |commands| {
        commands.bind(&kernel).dispatch(1, 1, 1);
    })?;
    same!(abused.finish(queue, &[commands]), LOST);
    let told = lab.heard(DEVICE_LOST).split_off(before);
    require!(told.iter().any(|message| message.text.contains("KERNEL_FAILED")), "{told:?}");
    adds(&other)
}

fn and_again(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    // A guest that hangs five times in a minute is stopped by default; this area hangs four times.
    let gpu = lab.gpu()?;
    adds(&gpu)?;
    same!(hang(&gpu)?, LOST);
    adds(&lab.gpu()?)
}
