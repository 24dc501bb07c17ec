// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences.

use crate::case::{Case, case};
use crate::lab::{At, Lab, Outcome, PATIENCE, Submit, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("fence.status", "a fence is signaled once its submission is done, and not before", status),
    case("fence.reset", "a fence that is reset is used again", reset),
    case("fence.born-signaled", "a fence that is created signaled is", born_signaled),
    case("fence.any", "a wait for any of several ends with the first", any),
    case("fence.time-out", "a wait ends after its time if nothing is signaled", time_out),
    case(
        "fence.other-thread",
        "a thread waits for a fence that another has signaled later",
        other_thread,
    ),
    case(
        "fence.of-no-work",
        "a submission without work signals its fence after the work before it",
        of_no_work,
    ),
    case("fence.hundreds", "300 fences are waited for at once, and reset at once", hundreds),
    case(
        "fence.each-queue",
        "a fence of each queue says that its work is done, while another's waits",
        each_queue,
    ),
];

fn status(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, gate, fence) = (gpu.queue()?, gpu.timeline(0)?, gpu.fence(false)?);
    let batch = Submit { wait: &[At(gate, 5)], ..Submit::default() };
    gpu.submit(queue, &[batch], fence)?;
    same!(gpu.is_signaled(fence), Ok(false));
    gpu.signal(At(gate, 5))?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(gpu.is_signaled(fence), Ok(true));
    Ok(())
}

fn reset(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, fence) = (gpu.queue()?, gpu.fence(false)?);
    for _ in 0..20 {
        gpu.submit(queue, &[Submit::default()], fence)?;
        gpu.wait_fences(&[fence], true, PATIENCE)?;
        gpu.reset_fences(&[fence])?;
        same!(gpu.is_signaled(fence), Ok(false));
    }
    Ok(())
}

fn born_signaled(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (born, not) = (gpu.fence(true)?, gpu.fence(false)?);
    same!([gpu.is_signaled(born), gpu.is_signaled(not)], [Ok(true), Ok(false)]);
    gpu.wait_fences(&[born], true, 0)?;
    gpu.reset_fences(&[born])?;
    gpu.submit(gpu.queue()?, &[Submit::default()], born)?;
    Ok(gpu.wait_fences(&[born], true, PATIENCE)?)
}

fn any(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, gate) = (gpu.queue()?, gpu.timeline(0)?);
    let (first, second) = (gpu.fence(false)?, gpu.fence(false)?);
    gpu.submit(queue, &[Submit::default()], first)?;
    gpu.submit(queue, &[Submit { wait: &[At(gate, 1)], ..Submit::default() }], second)?;
    gpu.wait_fences(&[second, first], false, PATIENCE)?;
    same!([gpu.is_signaled(first), gpu.is_signaled(second)], [Ok(true), Ok(false)]);
    same!(gpu.wait_fences(&[second, first], true, 1_000_000), Err(vk::Result::TIMEOUT));
    gpu.signal(At(gate, 1))?;
    Ok(gpu.wait_fences(&[second, first], true, PATIENCE)?)
}

fn time_out(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let fence = gpu.fence(false)?;
    for nanoseconds in [0, 1_000, 10_000_000] {
        same!(gpu.wait_fences(&[fence], true, nanoseconds), Err(vk::Result::TIMEOUT));
    }
    Ok(())
}

fn other_thread(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, gate, fence) = (gpu.queue()?, gpu.timeline(0)?, gpu.fence(false)?);
    let wait = &[At(gate, 1)];
    gpu.submit(queue, &[Submit { wait, ..Submit::default() }], fence)?;
    // What a thread needs of the device: the rest belongs to this one.
    let waiter = gpu.waiter();
    std::thread::scope(|threads| {
        let waits = threads.spawn(move || waiter.wait_fence(fence, PATIENCE));
        gpu.signal(At(gate, 1))?;
        match waits.join() {
            Ok(waited) => Ok(waited?),
            Err(_) => Err(crate::lab::Failure::seen("the thread ended")),
        }
    })
}

fn of_no_work(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, gate, fence) = (gpu.queue()?, gpu.timeline(0)?, gpu.fence(false)?);
    let buffer = gpu.buffer(1)?;
    let commands = gpu.record(queue, |commands| {
        commands.fill(&buffer, 0, 4, 6).barrier();
    })?;
    let batch = Submit { wait: &[At(gate, 1)], commands: &[commands], signal: &[] };
    gpu.submit(queue, &[batch], vk::Fence::null())?;
    gpu.submit(queue, &[], fence)?;
    same!(gpu.is_signaled(fence), Ok(false));
    gpu.signal(At(gate, 1))?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(buffer.word(0), 6);
    Ok(())
}

fn hundreds(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, buffer) = (gpu.queue()?, gpu.buffer(300)?);
    let mut fences = Vec::new();
    for word in 0..300 {
        let commands = gpu.record(queue, |commands| {
            commands.fill(&buffer, 4 * word, 4, word as u32 + 1).barrier();
        })?;
        let fence = gpu.fence(false)?;
        gpu.submit(queue, &[Submit { commands: &[commands], ..Submit::default() }], fence)?;
        fences.push(fence);
    }
    gpu.wait_fences(&fences, true, PATIENCE)?;
    same!(buffer.read(), (1..=300).collect::<Vec<u32>>());
    gpu.reset_fences(&fences)?;
    for fence in fences {
        same!(gpu.is_signaled(fence), Ok(false));
    }
    Ok(())
}

fn each_queue(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queues = gpu.two_queues()?;
    let (gates, fences) =
        ([gpu.timeline(0)?, gpu.timeline(0)?], [gpu.fence(false)?, gpu.fence(false)?]);
    for ((queue, gate), fence) in queues.into_iter().zip(gates).zip(fences) {
        gpu.submit(queue, &[Submit { wait: &[At(gate, 1)], ..Submit::default() }], fence)?;
    }
    gpu.signal(At(gates[1], 1))?;
    gpu.wait_fences(&fences[1..], true, PATIENCE)?;
    same!(gpu.is_signaled(fences[0]), Ok(false));
    gpu.signal(At(gates[0], 1))?;
    Ok(gpu.wait_fences(&fences, true, PATIENCE)?)
}
