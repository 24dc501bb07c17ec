// SPDX-License-Identifier: MIT OR Apache-2.0

//! Devices that programs lose, and what goes on.

use crate::case::{Case, case};
use crate::lab::{Gpu, Lab, Outcome, PATIENCE, Submit, module, same};
use ash::vk;

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
        "lost.stays",
        "a lost device says so at each submission and wait, and is closed without waiting",
        stays,
    ),
    case("lost.and-again", "after a device was lost, the next one works", and_again),
];

const LOST: Result<(), vk::Result> = Err(vk::Result::ERROR_DEVICE_LOST);

/// Submits a shader that does not end, and returns what comes of it.
fn hang(gpu: &Gpu<'_>) -> Outcome<Result<(), vk::Result>> {
    let kernel = gpu.simple(module!("forever"), 1, 0)?;
    let set = gpu.set(&kernel, &[gpu.buffer(1)?])?;
    let queue = gpu.queue()?;
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
    })?;
    Ok(gpu.finish(queue, &[commands]))
}

/// Adds on a device.
fn adds(gpu: &Gpu<'_>) -> Outcome {
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer_of(&[20])?;
    let set = gpu.set(&kernel, &[state])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[2, 2]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
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
    let (abused, other) = (lab.gpu()?, lab.gpu()?);
    same!(reverse_at(&abused, 0x7f_0000_1000)?, LOST);
    adds(&other)
}

fn freed_memory(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
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

fn stays(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    let gpu = lab.gpu()?;
    same!(hang(&gpu)?, LOST);
    let (queue, fence) = (gpu.queue()?, gpu.fence(false)?);
    same!(gpu.submit(queue, &[Submit::default()], fence), LOST);
    same!(gpu.wait_idle(), LOST);
    same!(gpu.wait_queue_idle(queue), LOST);
    same!(gpu.wait_fences(&[fence], true, PATIENCE), LOST);
    Ok(())
}

fn and_again(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    // A guest that hangs five times in a minute is stopped by default; this area hangs four times.
    for _ in 0..2 {
        let gpu = lab.gpu()?;
        adds(&gpu)?;
        same!(hang(&gpu)?, LOST);
    }
    adds(&lab.gpu()?)
}
