// SPDX-License-Identifier: MIT OR Apache-2.0

//! What orders the devices of a group.

use super::count::{Count, all, each};
use crate::case::{Case, case};
use crate::lab::{At, Batch, Lab, Outcome, PATIENCE, module, require, same};
use ash::vk;
use std::thread;
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    case("group.order.timeline", "devices take turns by a timeline, in one submission", timeline),
    case(
        "group.order.binary",
        "a device waits for a binary semaphore that another one signals",
        binary,
    ),
    case("group.order.held", "a wait holds its own device, and no other", held),
    case(
        "group.order.barrier",
        "barriers for the group have each device see what all others stored, round after round",
        barrier,
    ),
    case(
        "group.order.last-barrier",
        "a barrier for the group orders what is submitted after it",
        last,
    ),
    case("group.order.event", "a device waits for an event that it set itself", event),
    case("group.order.timestamps", "each device writes timestamps that only grow", timestamps),
    case("group.order.queues", "two queues of a group order each other's devices", queues),
];

/// Adds and multiplies, so that another order of turns has another result.
fn timeline(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let queue = gpu.queue()?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer_of(&[1])?;
    let set = gpu.set(&kernel, &[state])?;
    let turns: Vec<u32> = (0..60).collect();
    let commands: Vec<_> = turns
        .iter()
        .map(|turn| {
            gpu.record(queue, |commands| {
                commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[3, *turn]);
                commands.dispatch(1, 1, 1).barrier();
            })
        })
        .collect::<Outcome<_>>()?;
    let order = gpu.timeline(0)?;
    let parts: Vec<_> = turns
        .iter()
        .zip(&commands)
        .map(|(turn, commands)| {
            let (device, value) = (turn % devices, u64::from(*turn));
            (
                [(At(order, value), device)],
                [(*commands, 1 << device)],
                [(At(order, value + 1), device)],
            )
        })
        .collect();
    let batches: Vec<_> =
        parts.iter().map(|(wait, commands, signal)| Batch { wait, commands, signal }).collect();
    gpu.submit_2_to(queue, &batches, vk::Fence::null())?;
    gpu.wait_for(&[At(order, 60)], true, PATIENCE)?;
    let expected = turns.iter().fold(1u32, |state, turn| state.wrapping_mul(3).wrapping_add(*turn));
    same!(state.word(0), expected);
    Ok(())
}

fn binary(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let queue = gpu.queue()?;
    let (from, to) = (gpu.buffer(1)?, gpu.buffer(1)?);
    for device in 0..devices {
        let other = (device + 1) % devices;
        let signaled = At(gpu.binary()?, 0);
        let store = gpu.record(queue, |commands| {
            commands.fill(&from, 0, 4, 50 + device).barrier();
        })?;
        let copy = gpu.record(queue, |commands| {
            commands.copy(&from, &to, &[(0, 0, 1)]).barrier();
        })?;
        let (commands, signal) = (&[(store, 1 << device)], &[(signaled, device)]);
        gpu.submit_to(queue, Batch { wait: &[], commands, signal }, vk::Fence::null())?;
        let (wait, commands) = (&[(signaled, other)], &[(copy, 1 << other)]);
        let fence = gpu.fence(false)?;
        gpu.submit_to(queue, Batch { wait, commands, signal: &[] }, fence)?;
        gpu.wait_fences(&[fence], true, PATIENCE)?;
        same!(to.word(0), 50 + device);
    }
    Ok(())
}

fn held(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let commands = gpu.record(queue, |commands| count.dispatch(commands, 1))?;
    let (start, event) = (gpu.timeline(0)?, gpu.event()?);
    let sets = gpu.record(queue, |commands| {
        commands.set_event(event);
    })?;
    let (wait, commands) = (&[(At(start, 1), 0)], &[(commands, all(devices)), (sets, 0b10)]);
    gpu.submit_to(queue, Batch { wait, commands, signal: &[] }, vk::Fence::null())?;
    // The second device is not held by the first one's wait.
    let since = Instant::now();
    while !gpu.is_set(event)? {
        let is_late = since.elapsed() > Duration::from_nanos(PATIENCE);
        require!(!is_late, "the second device does nothing");
        thread::yield_now();
    }
    same!(count.counts.first(2), [0, 1]);
    gpu.signal(At(start, 1))?;
    gpu.wait_idle()?;
    same!(count.take(devices), each(devices, |_| 1));
    Ok(())
}

fn barrier(lab: &Lab) -> Outcome {
    const ROUNDS: u32 = 40;
    let (gpu, devices) = lab.group()?;
    let queue = gpu.queue()?;
    // Each device adds to its own word what its neighbour had in the round before.
    let source = format!(
        "@group(0) @binding(0) var<storage, read_write> old: array<u32>;
        @group(0) @binding(1) var<storage, read_write> next: array<u32>;
        @compute @workgroup_size(1)
        fn main(@builtin(local_invocation_index) device: u32) {{
            next[device] = old[device] + 3u * old[(device + 1u) % {devices}u] + 1u;
        }}"
    );
    let code = crate::lab::compile_for_group(&source)?;
    let kernel = gpu.simple(crate::lab::Module(&code), 2, 0)?;
    let mut expected = each(devices, |device| device + 1);
    let (one, two) = (gpu.buffer_of(&expected)?, gpu.buffer(devices as usize)?);
    let (there, back) = (gpu.set(&kernel, &[one, two])?, gpu.set(&kernel, &[two, one])?);
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel);
        for _ in 0..ROUNDS / 2 {
            commands.sets(&kernel, &[there]).dispatch(1, 1, 1).barrier_of_group();
            commands.sets(&kernel, &[back]).dispatch(1, 1, 1).barrier_of_group();
        }
        commands.barrier();
    })?;
    gpu.finish_on(queue, commands, all(devices))?;
    for _ in 0..ROUNDS {
        let of = |device: u32| {
            let neighbour = expected[((device + 1) % devices) as usize];
            expected[device as usize].wrapping_add(neighbour.wrapping_mul(3)).wrapping_add(1)
        };
        expected = each(devices, of);
    }
    same!(one.read(), expected);
    Ok(())
}

fn last(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let seen = gpu.buffer(32)?;
    let start = gpu.timeline(0)?;
    let counts = gpu.record(queue, |commands| {
        count.dispatch(commands, 9);
        commands.barrier_of_group();
    })?;
    let copies = gpu.record(queue, |commands| {
        commands.copy(&count.counts, &seen, &[(0, 0, 32)]).barrier();
    })?;
    // The last device is late, and the first one copies what it counted.
    let wait = &[(At(start, 1), devices - 1)];
    let commands = &[(counts, all(devices)), (copies, 1)];
    gpu.submit_to(queue, Batch { wait, commands, signal: &[] }, vk::Fence::null())?;
    gpu.signal(At(start, 1))?;
    gpu.wait_idle()?;
    same!(seen.first(devices as usize), each(devices, |_| 9));
    Ok(())
}

fn event(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    for device in 0..devices {
        let event = gpu.event()?;
        let commands = gpu.record(queue, |commands| {
            commands.only(1 << device);
            count.dispatch(commands, 1);
            commands.set_event(event);
            commands.wait_event(event, vk::PipelineStageFlags::ALL_COMMANDS);
            count.dispatch(commands, 1);
        })?;
        gpu.finish_on(queue, commands, all(devices))?;
        require!(gpu.is_set(event)?, "the event is not set");
        same!(count.take(devices), each(devices, |other| 2 * u32::from(other == device)));
    }
    Ok(())
}

fn timestamps(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let queue = gpu.queue()?;
    if queue.timestamp_bits == 0 {
        return Err(crate::lab::Failure::not_offered("there are no timestamps"));
    }
    for device in 0..devices {
        let pool = gpu.timestamps(2)?;
        let times = gpu.buffer(8)?;
        let commands = gpu.record(queue, |commands| {
            commands.only(1 << device).reset_queries(pool, 0, 2);
            commands.timestamp(pool, 0).timestamp(pool, 1).barrier();
            commands.copy_results(pool, 2, &times).barrier();
        })?;
        gpu.finish_on(queue, commands, all(devices))?;
        let words = times.read();
        let time = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
        same!([words[2], words[6]], [1, 1]);
        require!(time(0) <= time(4) && time(0) > 0, "{} is before {}", time(4), time(0));
    }
    Ok(())
}

fn queues(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let [one, two] = gpu.two_queues()?;
    let (from, to) = (gpu.buffer(1)?, gpu.buffer(1)?);
    let stored = gpu.timeline(0)?;
    let store = gpu.record(one, |commands| {
        commands.fill(&from, 0, 4, 77).barrier();
    })?;
    let copy = gpu.record(two, |commands| {
        commands.copy(&from, &to, &[(0, 0, 1)]).barrier();
    })?;
    let fence = gpu.fence(false)?;
    let (wait, last) = (&[(At(stored, 1), 0)], 1 << (devices - 1));
    gpu.submit_to(two, Batch { wait, commands: &[(copy, 1)], signal: &[] }, fence)?;
    let signal = &[(At(stored, 1), devices - 1)];
    let batch = Batch { wait: &[], commands: &[(store, last)], signal };
    gpu.submit_to(one, batch, vk::Fence::null())?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(to.word(0), 77);
    gpu.wait_idle()?;
    Ok(())
}
