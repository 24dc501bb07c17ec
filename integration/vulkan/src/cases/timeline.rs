// SPDX-License-Identifier: MIT OR Apache-2.0

//! Timelines that order much work.

use crate::case::{Case, case};
use crate::lab::{At, Gpu, Lab, Outcome, PATIENCE, Submit, same};
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
    case(
        "timeline.before-its-submission",
        "a thread waits for a value that another has yet to submit, and submissions of others do not end the wait",
        before_its_submission,
    ),
    case(
        "timeline.before-its-signal",
        "a thread waits for a value that nothing submitted signals, and the processor does",
        before_its_signal,
    ),
    case(
        "timeline.any-before-its-submission",
        "a wait for any of two values ends with the one that is submitted, in either place",
        any_before_its_submission,
    ),
];

/// Has a thread wait for timelines while this one does something. Returns when the wait is over.
fn beside(gpu: &Gpu<'_>, awaited: &[At], all: bool, act: impl FnOnce() -> Outcome) -> Outcome {
    let waiter = gpu.waiter();
    std::thread::scope(|threads| {
        let waits = threads.spawn(move || waiter.wait_for(awaited, all, PATIENCE));
        act()?;
        match waits.join() {
            Ok(waited) => Ok(waited?),
            Err(_) => Err(crate::lab::Failure::seen("the thread ended")),
        }
    })
}

fn before_its_submission(lab: &Lab) -> Outcome {
    const TURNS: u64 = 100;
    let gpu = lab.gpu()?;
    let (queue, awaited, other) = (gpu.queue()?, gpu.timeline(0)?, gpu.timeline(0)?);
    let buffer = gpu.buffer(TURNS as usize)?;
    for turn in 1..=TURNS {
        let signal = |at| {
            let commands = gpu.record(queue, |commands| {
                commands.fill(&buffer, 4 * (turn - 1), 4, turn as u32).barrier();
            })?;
            let batch = Submit { commands: &[commands], signal: &[at], ..Submit::default() };
            Ok(gpu.submit(queue, &[batch], vk::Fence::null())?)
        };
        beside(&gpu, &[At(awaited, turn)], true, || {
            // Some turns have many.
            for before in 0..turn % 8 {
                signal(At(other, 8 * turn + before))?;
            }
            signal(At(awaited, turn))
        })?;
        same!(gpu.value(awaited), Ok(turn));
        same!(buffer.word(turn as usize - 1), turn as u32);
    }
    Ok(())
}

fn before_its_signal(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let timeline = gpu.timeline(0)?;
    for turn in 1..=100 {
        beside(&gpu, &[At(timeline, turn)], true, || Ok(gpu.signal(At(timeline, turn))?))?;
        same!(gpu.value(timeline), Ok(turn));
    }
    // Nobody signals this one.
    for nanoseconds in [0, 1_000, 10_000_000] {
        same!(gpu.wait_for(&[At(timeline, 200)], true, nanoseconds), Err(vk::Result::TIMEOUT));
    }
    Ok(())
}

fn any_before_its_submission(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, both, mut values) = (gpu.queue()?, [gpu.timeline(0)?, gpu.timeline(0)?], [0; 2]);
    for turn in 0..100 {
        let awaited = [At(both[0], values[0] + 1), At(both[1], values[1] + 1)];
        let signaled = turn % 2;
        beside(&gpu, &awaited, false, || {
            let batch = Submit { signal: &[awaited[signaled]], ..Submit::default() };
            Ok(gpu.submit(queue, &[batch], vk::Fence::null())?)
        })?;
        values[signaled] += 1;
    }
    Ok(())
}

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
