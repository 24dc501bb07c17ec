// SPDX-License-Identifier: MIT OR Apache-2.0

//! What shaders find as their device's index.

use super::count::{all, each};
use crate::case::{Case, case};
use crate::lab::{Lab, Module, Outcome, Slot, compile_for_group, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("group.index.store", "each device stores its index in its own place", store),
    case(
        "group.index.takes",
        "shaders that ask for the index have their constants, sets and sizes like others",
        takes,
    ),
    case("group.index.beside", "shaders that ask and shaders that do not take turns", beside),
];

/// What a shader stores in its device's place.
fn store(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let queue = gpu.queue()?;
    let source = "@group(0) @binding(0) var<storage, read_write> places: array<u32>;
        @compute @workgroup_size(1)
        fn main(
            @builtin(local_invocation_index) device: u32,
            @builtin(num_workgroups) groups: vec3<u32>,
        ) { places[device * 2u] = device * 100u + groups.x; places[device * 2u + 1u] += 1u; }";
    let kernel = gpu.simple(Module(&compile_for_group(source)?), 1, 0)?;
    let places = gpu.buffer(64)?;
    let set = gpu.set(&kernel, &[places])?;
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
    })?;
    for round in 1..=3 {
        gpu.finish_on(queue, commands, all(devices))?;
        let expected = each(2 * devices, |at| if at % 2 == 0 { at * 50 + 1 } else { round });
        same!(places.first(2 * devices as usize), expected);
    }
    Ok(())
}

fn takes(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let queue = gpu.queue()?;
    let source = "var<immediate> summand: u32;
        @group(0) @binding(0) var<storage, read_write> places: array<u32>;
        @compute @workgroup_size(1)
        fn main(
            @builtin(local_invocation_index) device: u32,
            @builtin(workgroup_id) group: vec3<u32>,
        ) { places[device * 4u + group.x] = device * 3u + summand; }";
    let slots: &[&[Slot]] = &[&[Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1)]];
    let kernel = gpu.kernel(Module(&compile_for_group(source)?), slots, 4, &[])?;
    let (places, sizes) = (gpu.buffer(128)?, gpu.buffer_of(&[4, 1, 1])?);
    let set = gpu.set(&kernel, &[places])?;
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[40]);
        commands.dispatch_indirect(&sizes, 0).barrier();
        commands.push(&kernel, &[50]).dispatch(2, 1, 1).barrier();
    })?;
    gpu.finish_on(queue, commands, all(devices))?;
    let expected = each(4 * devices, |at| at / 4 * 3 + if at % 4 < 2 { 50 } else { 40 });
    same!(places.first(4 * devices as usize), expected);
    Ok(())
}

fn beside(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let queue = gpu.queue()?;
    let source = "@group(0) @binding(0) var<storage, read_write> words: array<u32>;
        @compute @workgroup_size(1)
        fn main(@builtin(local_invocation_index) device: u32) { words[device] = words[device] * 2u + device; }";
    let asks = gpu.simple(Module(&compile_for_group(source)?), 1, 0)?;
    let plain = source.replace("@builtin(local_invocation_index) device: u32", "");
    let plain = plain.replace("words[device] = words[device] * 2u + device", "words[31] = 5u");
    let plain = gpu.simple(Module(&crate::lab::compile(&plain)?), 1, 0)?;
    let words = gpu.buffer(32)?;
    let (one, other) = (gpu.set(&asks, &[words])?, gpu.set(&plain, &[words])?);
    let commands = gpu.record(queue, |commands| {
        for _ in 0..10 {
            commands.bind(&asks).sets(&asks, &[one]).dispatch(1, 1, 1).barrier();
            commands.only(1).bind(&plain).sets(&plain, &[other]).dispatch(1, 1, 1).barrier();
            commands.only(all(devices));
        }
    })?;
    gpu.finish_on(queue, commands, all(devices))?;
    same!(words.first(devices as usize), each(devices, |device| 1023 * device));
    same!(words.word(31), 5);
    Ok(())
}
