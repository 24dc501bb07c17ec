// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which devices of a group execute what.

use super::count::{Count, all, each};
use crate::case::{Case, case};
use crate::lab::{Batch, Lab, Outcome, PATIENCE, Submit, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("group.mask.submission", "a command buffer runs on the devices of its mask", submission),
    case(
        "group.mask.submission-2",
        "the same as Vulkan 1.3 says it; without a mask on all",
        second,
    ),
    case("group.mask.default", "without a mask a submission of Vulkan 1.0 is for index 0", default),
    case("group.mask.begin", "a command buffer begins with the mask that it is given", begin),
    case("group.mask.set", "a command runs on the devices of the mask that was set last", set),
    case("group.mask.both", "a command runs on a device that is in both masks", both),
    case("group.mask.reset", "a command buffer that is recorded again is for all devices", reset),
    case(
        "group.mask.secondary",
        "secondary command buffers run on the devices of the primary one, and set masks of their own",
        secondary,
    ),
    case(
        "group.mask.parts",
        "devices do parts of a dispatch, by bases, and what is set once is there for all",
        parts,
    ),
    case(
        "group.mask.many",
        "a command buffer of 300 masks runs each command where it is for",
        many,
    ),
];

fn submission(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let commands = gpu.record(queue, |commands| count.dispatch(commands, 2))?;
    for mask in 1..=all(devices) {
        gpu.finish_on(queue, commands, mask)?;
        same!(count.take(devices), each(devices, |device| 2 * (mask >> device & 1)));
    }
    Ok(())
}

fn second(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let one = gpu.record(queue, |commands| count.dispatch(commands, 1))?;
    let ten = gpu.record(queue, |commands| count.dispatch(commands, 10))?;
    let fence = gpu.fence(false)?;
    let batches = [
        Batch { commands: &[(one, 0), (ten, 0b10)], ..Batch::default() },
        Batch { commands: &[(ten, 0b01)], ..Batch::default() },
    ];
    gpu.submit_2_to(queue, &batches, fence)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(count.take(devices), each(devices, |device| if device < 2 { 11 } else { 1 }));
    Ok(())
}

fn default(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let commands = gpu.record(queue, |commands| count.dispatch(commands, 4))?;
    let fence = gpu.fence(false)?;
    gpu.submit(queue, &[Submit { commands: &[commands], ..Submit::default() }], fence)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(count.take(devices), each(devices, |device| if device == 0 { 4 } else { 0 }));
    Ok(())
}

fn begin(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    for mask in 1..=all(devices) {
        let commands = gpu.record_for(queue, mask, |commands| count.dispatch(commands, 3))?;
        gpu.finish_on(queue, commands, all(devices))?;
        same!(count.take(devices), each(devices, |device| 3 * (mask >> device & 1)));
    }
    Ok(())
}

fn set(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let marks = gpu.buffer(32)?;
    let commands = gpu.record(queue, |commands| {
        count.dispatch(commands, 1);
        for device in 0..devices {
            commands.only(1 << device);
            count.dispatch(commands, 10 * (device + 1));
            commands.fill(&marks, u64::from(4 * device), 4, 7 + device);
        }
        commands.only(all(devices));
        count.dispatch(commands, 100);
    })?;
    gpu.finish_on(queue, commands, all(devices))?;
    same!(count.take(devices), each(devices, |device| 101 + 10 * (device + 1)));
    same!(marks.first(devices as usize), each(devices, |device| 7 + device));
    Ok(())
}

fn both(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let commands = gpu.record(queue, |commands| {
        commands.only(0b10);
        count.dispatch(commands, 5);
        commands.only(0b11);
        count.dispatch(commands, 50);
    })?;
    for (mask, expected) in [(0b01, [50, 0]), (0b10, [0, 55]), (0b11, [50, 55])] {
        gpu.finish_on(queue, commands, mask)?;
        same!(count.take(2), expected);
    }
    same!(count.take(devices), each(devices, |_| 0));
    Ok(())
}

fn reset(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let pool = gpu.command_pool(queue)?;
    let raw = gpu.bare_commands(pool, vk::CommandBufferLevel::PRIMARY)?;
    let usage = vk::CommandBufferUsageFlags::empty();
    gpu.record_into(raw, usage, |commands| {
        commands.only(0b10);
        count.dispatch(commands, 1);
    })?;
    gpu.finish_on(queue, raw, all(devices))?;
    same!(count.take(devices), each(devices, |device| u32::from(device == 1)));
    gpu.record_into(raw, usage, |commands| count.dispatch(commands, 2))?;
    gpu.finish_on(queue, raw, all(devices))?;
    same!(count.take(devices), each(devices, |_| 2));
    Ok(())
}

fn secondary(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let whole = gpu.record_secondary(queue, |commands| count.dispatch(commands, 1))?;
    let apart = gpu.record_secondary(queue, |commands| {
        for device in 0..devices {
            commands.only(1 << device);
            count.dispatch(commands, 10 * (device + 1));
        }
    })?;
    let commands = gpu.record(queue, |commands| {
        commands.execute(&[whole, apart]).barrier();
        commands.only(0b10).execute(&[whole]).barrier();
        commands.only(all(devices)).execute(&[whole]).barrier();
    })?;
    gpu.finish_on(queue, commands, all(devices))?;
    let expected = |device| 2 + 10 * (device + 1) + u32::from(device == 1);
    same!(count.take(devices), each(devices, expected));
    Ok(())
}

fn parts(lab: &Lab) -> Outcome {
    const WORDS: u32 = 1024;
    let (gpu, devices) = lab.group()?;
    let queue = gpu.queue()?;
    let source = "@group(0) @binding(0) var<storage, read_write> words: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) { words[id.x] += id.x; }";
    let kernel = gpu.kernel_of(
        crate::lab::Module(&crate::lab::compile(source)?),
        vec![gpu.set_layout(
            &[crate::lab::Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1)],
            vk::DescriptorSetLayoutCreateFlags::empty(),
        )?],
        0,
        &[],
        (vk::PipelineCache::null(), vk::PipelineCreateFlags::DISPATCH_BASE),
    )?;
    let words = gpu.buffer((WORDS * devices) as usize)?;
    let set = gpu.set(&kernel, &[words])?;
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]);
        for device in 0..devices {
            commands.only(1 << device);
            commands.dispatch_base([device * WORDS / 64, 0, 0], [WORDS / 64, 1, 1]).barrier();
        }
    })?;
    gpu.finish_on(queue, commands, all(devices))?;
    same!(words.read(), (0..WORDS * devices).collect::<Vec<_>>());
    Ok(())
}

fn many(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let masks = || (0..300u32).map(|round| round.wrapping_mul(0x9E37_79B9) % all(devices) + 1);
    let commands = gpu.record(queue, |commands| {
        for mask in masks() {
            commands.only(mask);
            count.dispatch(commands, 1);
        }
    })?;
    gpu.finish_on(queue, commands, all(devices))?;
    let expected = each(devices, |device| masks().map(|mask| mask >> device & 1).sum());
    same!(count.take(devices), expected);
    Ok(())
}
