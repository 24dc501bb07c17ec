// SPDX-License-Identifier: MIT OR Apache-2.0

//! Timelines that order much work.

use crate::case::{Case, case};
use crate::lab::{At, Lab, Outcome, PATIENCE, Submit, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "timeline.step-by-step",
        "50 submissions run one by one as the processor signals their values",
        step_by_step,
    ),
    case("timeline.passed", "a wait for a value that was passed ends at once", passed),
    case(
        "timeline.fork-and-join",
        "work of two queues begins after one submission, and one begins after both",
        fork_and_join,
    ),
    case("timeline.hundred", "a batch signals 100 timelines, and another waits for them", hundred),
    case(
        "timeline.relay",
        "two queues pass a value through 64 timelines, all submitted before the first is signaled",
        relay,
    ),
    case(
        "timeline.several-at-once",
        "each batch of one submission signals its value as soon as it is done",
        several_at_once,
    ),
];

fn step_by_step(lab: &Lab) -> Outcome {
    const STEPS: usize = 50;
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let (gate, done) = (gpu.timeline(0)?, gpu.timeline(0)?);
    let trail = gpu.buffer(STEPS)?;
    for step in 0..STEPS as u64 {
        let commands = gpu.record(queue, |commands| {
            commands.fill(&trail, 4 * step, 4, 1).barrier();
        })?;
        let (wait, signal) = ([At(gate, step + 1)], [At(done, step + 1)]);
        let batch = Submit { wait: &wait, commands: &[commands], signal: &signal };
        gpu.submit(queue, &[batch], vk::Fence::null())?;
    }
    for step in 1..=STEPS {
        gpu.signal(At(gate, step as u64))?;
        gpu.wait_for(&[At(done, step as u64)], true, PATIENCE)?;
        same!(gpu.value(done), Ok(step as u64));
        same!(trail.read().iter().sum::<u32>(), step as u32);
    }
    Ok(())
}

fn passed(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, fence) = (gpu.queue()?, gpu.fence(false)?);
    let (timeline, buffer) = (gpu.timeline(5)?, gpu.buffer(1)?);
    gpu.signal(At(timeline, 1000))?;
    gpu.wait_for(&[At(timeline, 0), At(timeline, 5), At(timeline, 999)], true, 0)?;
    let commands = gpu.record(queue, |commands| {
        commands.fill(&buffer, 0, 4, 8).barrier();
    })?;
    let wait = [At(timeline, 6)];
    gpu.submit(queue, &[Submit { wait: &wait, commands: &[commands], signal: &[] }], fence)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!((buffer.word(0), gpu.value(timeline)), (8, Ok(1000)));
    Ok(())
}

fn fork_and_join(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let [first, second] = gpu.two_queues()?;
    let (here, there) = (gpu.timeline(0)?, gpu.timeline(0)?);
    let buffer = gpu.buffer(4)?;
    let copy = |queue, from, to| {
        gpu.record(queue, |commands| {
            commands.copy(&buffer, &buffer, &[(from, to, 1)]).barrier();
        })
    };
    let begin = gpu.record(first, |commands| {
        commands.fill(&buffer, 0, 4, 6).barrier();
    })?;
    let (left, right) = ([copy(first, 0, 1)?], [copy(second, 0, 2)?]);
    let join = [copy(first, 2, 3)?];
    let submit = |queue, wait: &[At], commands: &[_], signal| {
        gpu.submit(queue, &[Submit { wait, commands, signal: &[signal] }], vk::Fence::null())
    };
    // The queue that waits is told first.
    submit(second, &[At(here, 1)], &right, At(there, 1))?;
    submit(first, &[], &[begin], At(here, 1))?;
    submit(first, &[At(here, 1)], &left, At(here, 2))?;
    submit(first, &[At(here, 2), At(there, 1)], &join, At(here, 3))?;
    gpu.wait_for(&[At(here, 3)], true, PATIENCE)?;
    same!(buffer.read(), vec![6; 4]);
    Ok(())
}

fn hundred(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queues = gpu.two_queues()?;
    let fence = gpu.fence(false)?;
    let all = (0..100).map(|first| gpu.timeline(first)).collect::<Outcome<Vec<_>>>()?;
    let later: Vec<_> = (0..).zip(&all).map(|(first, each)| At(*each, first * 2 + 7)).collect();
    gpu.submit(queues[1], &[Submit { wait: &later, ..Submit::default() }], fence)?;
    same!(gpu.is_signaled(fence), Ok(false));
    gpu.submit(queues[0], &[Submit { signal: &later, ..Submit::default() }], vk::Fence::null())?;
    gpu.wait_for(&later, true, PATIENCE)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    for At(timeline, value) in later {
        same!(gpu.value(timeline), Ok(value));
    }
    Ok(())
}

fn relay(lab: &Lab) -> Outcome {
    const STATIONS: usize = 64;
    let gpu = lab.gpu()?;
    let queues = gpu.two_queues()?;
    let trail = gpu.buffer(STATIONS)?;
    trail.write(&[5]);
    let all = (0..STATIONS).map(|_| gpu.timeline(0)).collect::<Outcome<Vec<_>>>()?;
    for (number, queue) in queues.into_iter().enumerate() {
        for station in (number..STATIONS - 1).step_by(2) {
            let place = station as u64;
            let commands = gpu.record(queue, |commands| {
                commands.copy(&trail, &trail, &[(place, place + 1, 1)]).barrier();
            })?;
            let (wait, signal) = ([At(all[station], 1)], [At(all[station + 1], 1)]);
            let batch = Submit { wait: &wait, commands: &[commands], signal: &signal };
            gpu.submit(queue, &[batch], vk::Fence::null())?;
        }
    }
    gpu.signal(At(all[0], 1))?;
    gpu.wait_for(&[At(all[STATIONS - 1], 1)], true, PATIENCE)?;
    same!(trail.read(), vec![5; STATIONS]);
    Ok(())
}

fn several_at_once(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, gate, done) = (gpu.queue()?, gpu.timeline(0)?, gpu.timeline(0)?);
    let waits = [At(gate, 1)];
    let values: Vec<_> = (1..=20).map(|value| [At(done, value)]).collect();
    let batches: Vec<_> = (0..)
        .zip(&values)
        .map(|(batch, signal)| {
            // The eleventh is held back, and all behind it.
            let wait: &[_] = if batch == 10 { &waits } else { &[] };
            Submit { wait, signal, commands: &[] }
        })
        .collect();
    gpu.submit(queue, &batches, vk::Fence::null())?;
    gpu.wait_for(&[At(done, 10)], true, PATIENCE)?;
    same!(gpu.value(done), Ok(10));
    gpu.signal(At(gate, 1))?;
    gpu.wait_for(&[At(done, 20)], true, PATIENCE)?;
    Ok(())
}
