// SPDX-License-Identifier: MIT OR Apache-2.0

//! Semaphores.

use crate::case::{Case, case};
use crate::lab::{At, Lab, Outcome, PATIENCE, Submit, module, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("semaphore.host", "the processor signals a timeline, reads it and waits for it", host),
    case("semaphore.first-value", "a timeline begins with its first value", first_value),
    case(
        "semaphore.wait-before-signal",
        "a submission may wait for a value that is submitted later, on another queue",
        wait_before_signal,
    ),
    case("semaphore.any", "the processor waits for any of several timelines, and for all", any),
    case("semaphore.time-out", "a wait of the processor ends after its time", time_out),
    case("semaphore.ping-pong", "two queues take turns by one timeline", ping_pong),
    case("semaphore.binary", "a binary semaphore orders two queues, and is used again", binary),
    case(
        "semaphore.binary-in-one-submission",
        "binary semaphores order batches of one submission",
        binary_in_one,
    ),
    case(
        "semaphore.several",
        "a batch waits for several semaphores of both kinds, and signals several",
        several,
    ),
    case(
        "semaphore.submit-2",
        "submissions of Vulkan 1.3 wait and signal as those of 1.0",
        submit_2,
    ),
    case("semaphore.leaps", "a timeline's value leaps by any amount", leaps),
];

fn host(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let timeline = gpu.timeline(0)?;
    same!(gpu.value(timeline), Ok(0));
    gpu.signal(At(timeline, 3))?;
    same!(gpu.value(timeline), Ok(3));
    gpu.wait_for(&[At(timeline, 2)], true, 0)?;
    gpu.submit(
        gpu.queue()?,
        &[Submit { signal: &[At(timeline, 9)], ..Submit::default() }],
        vk::Fence::null(),
    )?;
    gpu.wait_for(&[At(timeline, 9)], true, PATIENCE)?;
    same!(gpu.value(timeline), Ok(9));
    Ok(())
}

fn first_value(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let first = 1 << 40;
    let timeline = gpu.timeline(first)?;
    same!(gpu.value(timeline), Ok(first));
    let batch = Submit {
        wait: &[At(timeline, 77)],
        signal: &[At(timeline, first + 1)],
        ..Submit::default()
    };
    gpu.submit(gpu.queue()?, &[batch], vk::Fence::null())?;
    gpu.wait_for(&[At(timeline, first + 1)], true, PATIENCE)?;
    Ok(())
}

fn wait_before_signal(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let [first, second] = gpu.two_queues()?;
    let (timeline, fence) = (gpu.timeline(0)?, gpu.fence(false)?);
    let buffer = gpu.buffer(1)?;
    let fill = |queue, word| {
        gpu.record(queue, |commands| {
            commands.fill(&buffer, 0, 4, word).barrier();
        })
    };
    let (later, earlier) = (fill(first, 2)?, fill(second, 1)?);
    let waits = Submit { wait: &[At(timeline, 1)], commands: &[later], signal: &[] };
    gpu.submit(first, &[waits], fence)?;
    same!(gpu.is_signaled(fence), Ok(false));
    let signals = Submit { wait: &[], commands: &[earlier], signal: &[At(timeline, 1)] };
    gpu.submit(second, &[signals], vk::Fence::null())?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(buffer.word(0), 2);
    Ok(())
}

fn any(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (one, two) = (gpu.timeline(0)?, gpu.timeline(0)?);
    gpu.signal(At(two, 4))?;
    gpu.wait_for(&[At(one, 1), At(two, 4)], false, PATIENCE)?;
    same!(gpu.wait_for(&[At(one, 1), At(two, 4)], true, 1_000_000), Err(vk::Result::TIMEOUT));
    gpu.signal(At(one, 1))?;
    Ok(gpu.wait_for(&[At(one, 1), At(two, 4)], true, PATIENCE)?)
}

fn time_out(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let timeline = gpu.timeline(7)?;
    for nanoseconds in [0, 1_000, 10_000_000] {
        let waited = gpu.wait_for(&[At(timeline, 8)], true, nanoseconds);
        same!(waited, Err(vk::Result::TIMEOUT));
    }
    Ok(())
}

fn ping_pong(lab: &Lab) -> Outcome {
    const TURNS: u64 = 100;
    let gpu = lab.gpu()?;
    let queues = gpu.two_queues()?;
    require!(
        queues
            .iter()
            .all(|queue| queue.does.contains(vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER))
            || queues.iter().any(|queue| queue.does.contains(vk::QueueFlags::TRANSFER)),
        "a queue copies nothing"
    );
    let timeline = gpu.timeline(0)?;
    let trail = gpu.buffer(TURNS as usize + 1)?;
    trail.write(&[1]);
    for turn in 0..TURNS {
        let queue = queues[turn as usize % 2];
        let commands = gpu.record(queue, |commands| {
            commands.copy(&trail, &trail, &[(turn, turn + 1, 1)]).barrier();
        })?;
        let (wait, signal) = ([At(timeline, turn)], [At(timeline, turn + 1)]);
        let batch = Submit { wait: &wait, commands: &[commands], signal: &signal };
        gpu.submit(queue, &[batch], vk::Fence::null())?;
    }
    gpu.wait_for(&[At(timeline, TURNS)], true, PATIENCE)?;
    same!(trail.read(), vec![1; TURNS as usize + 1]);
    Ok(())
}

fn binary(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let [first, second] = gpu.two_queues()?;
    let semaphore = gpu.binary()?;
    let (from, to) = (gpu.buffer(1)?, gpu.buffer(1)?);
    for round in 1..=20 {
        let fill = gpu.record(first, |commands| {
            commands.fill(&from, 0, 4, round).barrier();
        })?;
        let copy = gpu.record(second, |commands| {
            commands.copy(&from, &to, &[(0, 0, 1)]).barrier();
        })?;
        let signals = Submit { wait: &[], commands: &[fill], signal: &[At(semaphore, 0)] };
        gpu.submit(first, &[signals], vk::Fence::null())?;
        let fence = gpu.fence(false)?;
        let waits = Submit { wait: &[At(semaphore, 0)], commands: &[copy], signal: &[] };
        gpu.submit(second, &[waits], fence)?;
        gpu.wait_fences(&[fence], true, PATIENCE)?;
        same!(to.word(0), round);
    }
    Ok(())
}

fn binary_in_one(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, semaphore, fence) = (gpu.queue()?, gpu.binary()?, gpu.fence(false)?);
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer_of(&[1])?;
    let set = gpu.set(&kernel, &[state])?;
    let step = |digit| {
        gpu.record(queue, |commands| {
            commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[10, digit]);
            commands.dispatch(1, 1, 1).barrier();
        })
    };
    let (one, two) = ([step(2)?], [step(3)?]);
    let at = [At(semaphore, 0)];
    let batches = [
        Submit { wait: &[], commands: &one, signal: &at },
        Submit { wait: &at, commands: &two, signal: &[] },
    ];
    gpu.submit(queue, &batches, fence)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(state.word(0), 123);
    Ok(())
}

fn several(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, fence) = (gpu.queue()?, gpu.fence(false)?);
    let (binary, one, two) = (gpu.binary()?, gpu.timeline(0)?, gpu.timeline(10)?);
    let first = Submit { signal: &[At(binary, 0), At(one, 1)], ..Submit::default() };
    let wait = [At(one, 1), At(binary, 0), At(two, 11)];
    let second = Submit { wait: &wait, commands: &[], signal: &[At(two, 12), At(one, 2)] };
    gpu.submit(queue, &[first, second], fence)?;
    gpu.wait_for(&[At(one, 1)], true, PATIENCE)?;
    same!(gpu.is_signaled(fence), Ok(false));
    gpu.signal(At(two, 11))?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!([gpu.value(one), gpu.value(two)], [Ok(2), Ok(12)]);
    Ok(())
}

fn submit_2(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, fence) = (gpu.queue()?, gpu.fence(false)?);
    let (binary, timeline, buffer) = (gpu.binary()?, gpu.timeline(0)?, gpu.buffer(1)?);
    let commands = gpu.record(queue, |commands| {
        commands.fill(&buffer, 0, 4, 31).barrier();
    })?;
    let signals = Submit { wait: &[], commands: &[], signal: &[At(binary, 0)] };
    gpu.submit_2(queue, signals, vk::Fence::null())?;
    let wait = [At(binary, 0), At(timeline, 1)];
    let waits = Submit { wait: &wait, commands: &[commands], signal: &[At(timeline, 2)] };
    gpu.submit_2(queue, waits, fence)?;
    same!([buffer.word(0), u32::from(gpu.is_signaled(fence)?)], [0, 0]);
    gpu.signal(At(timeline, 1))?;
    gpu.wait_for(&[At(timeline, 2)], true, PATIENCE)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(buffer.word(0), 31);
    Ok(())
}

fn leaps(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, timeline) = (gpu.queue()?, gpu.timeline(0)?);
    let leap = lab.description().since_1_2.max_timeline_semaphore_value_difference;
    require!(leap >= (1 << 31) - 1, "maxTimelineSemaphoreValueDifference is {leap}");
    let mut value = 0u64;
    for exponent in [1, 20, 30] {
        value += 1 << exponent;
        gpu.submit(
            queue,
            &[Submit { signal: &[At(timeline, value)], ..Submit::default() }],
            vk::Fence::null(),
        )?;
        gpu.wait_for(&[At(timeline, value)], true, PATIENCE)?;
        same!(gpu.value(timeline), Ok(value));
    }
    Ok(())
}
