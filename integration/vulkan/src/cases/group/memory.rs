// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that the devices of a group share.

use super::count::{all, each};
use crate::case::{Case, case};
use crate::lab::{Buffer, Form, Lab, Outcome, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "group.memory.peers",
        "copies may go to memory of other devices, in a heap of the devices' own at least",
        peers,
    ),
    case("group.memory.seen", "what one device stores another one reads afterwards", seen),
    case("group.memory.masks", "memory comes for each mask of devices, and all use it", masks),
    case("group.memory.buffer", "a buffer is bound to memory for each device", buffer),
    case("group.memory.image", "an image that one device stored another one reads", image),
    case("group.memory.image-for-each", "an image is bound to memory for each device", image_for),
];

const LOCAL: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::DEVICE_LOCAL;

fn peers(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let memory = lab.memory();
    let mut any_own = false;
    for (heap, kind) in (0..).zip(memory.memory_heaps_as_slice()) {
        let pairs = (0..devices).flat_map(|local| (0..devices).map(move |remote| (local, remote)));
        let copies = pairs.filter(|(local, remote)| local != remote).all(|(local, remote)| {
            let features = gpu.peer_features(heap, local, remote);
            features.contains(vk::PeerMemoryFeatureFlags::COPY_DST)
        });
        let is_own = kind.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL);
        require!(copies || is_own, "no copies go to heap {heap}");
        any_own |= is_own && copies;
    }
    require!(any_own, "no copies go to any heap of the devices' own");
    Ok(())
}

fn seen(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let queue = gpu.queue()?;
    let (own, all_words) = (gpu.local(64)?, gpu.buffer(64 * devices as usize)?);
    for device in 0..devices {
        let other = (device + 1) % devices;
        let store = gpu.record(queue, |commands| {
            commands.fill(&own, 0, vk::WHOLE_SIZE, 1000 + device).barrier();
        })?;
        let read = gpu.record(queue, |commands| {
            commands.copy(&own, &all_words, &[(0, u64::from(64 * other), 64)]).barrier();
        })?;
        gpu.finish_on(queue, store, 1 << device)?;
        gpu.finish_on(queue, read, 1 << other)?;
    }
    let expected = each(64 * devices, |at| 1000 + (at / 64 + devices - 1) % devices);
    same!(all_words.read(), expected);
    Ok(())
}

/// Fills a buffer on each device, and finds there what it filled.
fn fills(gpu: &crate::lab::Gpu<'_>, buffer: &Buffer<'_>, devices: u32) -> Outcome {
    let (queue, seen) = (gpu.queue()?, gpu.buffer(16 * devices as usize)?);
    for device in 0..devices {
        let first = u64::from(16 * device);
        let commands = gpu.record(queue, |commands| {
            commands.fill(buffer, 0, 64, 70 + device).barrier();
            commands.copy(buffer, &seen, &[(0, first, 16)]).barrier();
        })?;
        gpu.finish_on(queue, commands, 1 << device)?;
    }
    same!(seen.read(), each(16 * devices, |at| 70 + at / 16));
    Ok(())
}

fn masks(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    for mask in 1..=all(devices) {
        let (raw, needs) = gpu.bare_buffer(4096)?;
        let index = gpu.memory_type(needs.memory_type_bits, LOCAL)?;
        let memory = gpu.allocate_on(needs.size, index, mask)?;
        let first = mask.trailing_zeros();
        gpu.bind_buffer_for(raw, memory, &each(devices, |_| first))?;
        fills(&gpu, &gpu.bound_buffer(raw, 4096), devices)?;
    }
    Ok(())
}

fn buffer(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    for indices in [Vec::new(), each(devices, |_| 0)] {
        let (raw, needs) = gpu.bare_buffer(4096)?;
        let index = gpu.memory_type(needs.memory_type_bits, LOCAL)?;
        let memory = gpu.allocate(needs.size, index)?;
        gpu.bind_buffer_for(raw, memory, &indices)?;
        fills(&gpu, &gpu.bound_buffer(raw, 4096), devices)?;
    }
    Ok(())
}

const FORM: Form = Form::flat(vk::Format::R32_UINT, 37, 5);

fn image(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    copies(&gpu, gpu.image(FORM)?, devices)
}

/// Stores an image on each device, and reads it on the next.
fn copies(gpu: &crate::lab::Gpu<'_>, image: crate::lab::Image, devices: u32) -> Outcome {
    let queue = gpu.queue()?;
    let ready = gpu.record(queue, |commands| {
        commands.ready(&[image]);
    })?;
    gpu.finish_on(queue, ready, 1)?;
    for device in 0..devices {
        let texels: Vec<u32> = (0..37 * 5).map(|at| at * 7 + device).collect();
        let (from, to) = (gpu.buffer_of(&texels)?, gpu.buffer(37 * 5)?);
        let store = gpu.record(queue, |commands| {
            commands.to_image(&from, image, &[image.form.whole(0)]).barrier();
        })?;
        let read = gpu.record(queue, |commands| {
            commands.barrier().out_of_image(image, &to, &[image.form.whole(0)]).barrier();
        })?;
        gpu.finish_on(queue, store, 1 << device)?;
        gpu.finish_on(queue, read, 1 << ((device + 1) % devices))?;
        same!(to.read(), texels);
    }
    Ok(())
}

fn image_for(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (image, needs) = gpu.bare_image(FORM)?;
    let index = gpu.memory_type(needs.memory_type_bits, LOCAL)?;
    let memory = gpu.allocate(needs.size, index)?;
    gpu.bind_image_for(image, memory, &each(devices, |_| 0))?;
    copies(&gpu, image, devices)
}
