// SPDX-License-Identifier: MIT OR Apache-2.0

//! Command buffers.

use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, PATIENCE, Submit, module, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("command.again", "a command buffer is submitted many times, and runs each time", again),
    case(
        "command.one-time",
        "a command buffer that is submitted once may be recorded again",
        one_time,
    ),
    case("command.reset-pool", "a pool that is reset records anew", reset_pool),
    case("command.empty", "an empty command buffer, and a submission without any, complete", empty),
    case(
        "command.secondary",
        "secondary command buffers run where they are executed, with their own state",
        secondary,
    ),
    case(
        "command.secondary-again",
        "one secondary command buffer runs in several others, and twice in one",
        secondary_again,
    ),
    case(
        "command.in-order",
        "command buffers of one submission and of several execute in order with barriers",
        in_order,
    ),
    case(
        "command.in-flight",
        "1,000 submissions are in flight at once, and all are done in order",
        in_flight,
    ),
    case(
        "command.simultaneous",
        "a command buffer that waits to execute is submitted again, and runs as often",
        simultaneous,
    ),
    case("command.hundreds", "one submission has 500 command buffers, and runs all", hundreds),
    case("command.two-queues", "two queues execute side by side", two_queues),
];

fn again(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer(1)?;
    let set = gpu.set(&kernel, &[state])?;
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[1, 1]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    for _ in 0..100 {
        gpu.finish(queue, &[commands])?;
    }
    same!(state.word(0), 100);
    Ok(())
}

fn one_time(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, buffer) = (gpu.queue()?, gpu.buffer(1)?);
    let pool = gpu.command_pool(queue)?;
    let raw = gpu.bare_commands(pool, vk::CommandBufferLevel::PRIMARY)?;
    for number in 1..=50 {
        gpu.record_into(raw, vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT, |commands| {
            commands.fill(&buffer, 0, 4, number).barrier();
        })?;
        gpu.finish(queue, &[raw])?;
        same!(buffer.word(0), number);
    }
    Ok(())
}

fn reset_pool(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, buffer) = (gpu.queue()?, gpu.buffer(4)?);
    let pool = gpu.command_pool(queue)?;
    let level = vk::CommandBufferLevel::PRIMARY;
    let raw = [gpu.bare_commands(pool, level)?, gpu.bare_commands(pool, level)?];
    for round in 1..5 {
        for (number, raw) in (0..).zip(raw) {
            gpu.record_into(raw, vk::CommandBufferUsageFlags::empty(), |commands| {
                commands.update(&buffer, number * 4, &[round * 10]).barrier();
            })?;
        }
        gpu.finish(queue, &raw)?;
        same!(buffer.first(2), vec![round * 10; 2]);
        gpu.reset_command_pool(pool)?;
    }
    Ok(())
}

fn empty(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let commands = gpu.record(queue, |_| {})?;
    gpu.finish(queue, &[commands])?;
    gpu.finish(queue, &[])?;
    let fence = gpu.fence(false)?;
    gpu.submit(queue, &[], fence)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    gpu.wait_queue_idle(queue)?;
    Ok(gpu.wait_idle()?)
}

fn secondary(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer_of(&[1])?;
    let set = gpu.set(&kernel, &[state])?;
    let step = |factor, summand| {
        gpu.record_secondary(queue, |commands| {
            commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[factor, summand]);
            commands.dispatch(1, 1, 1).barrier();
        })
    };
    let others = [step(10, 2)?, step(10, 3)?];
    gpu.run(|commands| {
        commands.execute(&others).barrier();
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[10, 4]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    same!(state.word(0), 1234);
    Ok(())
}

fn secondary_again(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer(1)?;
    let set = gpu.set(&kernel, &[state])?;
    let other = gpu.record_secondary(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[1, 1]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    let twice = |commands: &crate::lab::Recorder<'_>| {
        commands.execute(&[other]).execute(&[other]);
    };
    let both = [gpu.record(queue, twice)?, gpu.record(queue, twice)?];
    gpu.finish(queue, &both)?;
    same!(state.word(0), 4);
    Ok(())
}

fn in_order(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer(1)?;
    let set = gpu.set(&kernel, &[state])?;
    let digits: Outcome<Vec<_>> = (1..=8)
        .map(|digit| {
            gpu.record(queue, |commands| {
                commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[10, digit]);
                commands.dispatch(1, 1, 1).barrier();
            })
        })
        .collect();
    let digits = digits?;
    let (first, second) = digits.split_at(4);
    let batches = [first, second].map(|commands| Submit { commands, ..Submit::default() });
    let fence = gpu.fence(false)?;
    gpu.submit(queue, &batches, fence)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(state.word(0), 12_345_678);
    Ok(())
}

fn in_flight(lab: &Lab) -> Outcome {
    const COUNT: u32 = 1000;
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer_of(&[7])?;
    let set = gpu.set(&kernel, &[state])?;
    let pool = gpu.command_pool(queue)?;
    let gate = gpu.timeline(0)?;
    let (mut expected, mut fences) = (7u32, Vec::new());
    for number in 0..COUNT {
        let raw = gpu.bare_commands(pool, vk::CommandBufferLevel::PRIMARY)?;
        gpu.record_into(raw, vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT, |commands| {
            commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[3, number]);
            commands.dispatch(1, 1, 1).barrier();
        })?;
        expected = expected.wrapping_mul(3).wrapping_add(number);
        fences.push(gpu.fence(false)?);
        let wait = [crate::lab::At(gate, 1)];
        let wait: &[_] = if number == 0 { &wait } else { &[] };
        let batch = Submit { wait, commands: &[raw], signal: &[] };
        let fence = fences.last().copied().unwrap_or_default();
        gpu.submit(queue, &[batch], fence)?;
    }
    let last = fences.last().copied().unwrap_or_default();
    require!(!gpu.is_signaled(last)?, "it is done before it may begin");
    gpu.signal(crate::lab::At(gate, 1))?;
    gpu.wait_fences(&fences, true, PATIENCE)?;
    same!(state.word(0), expected);
    Ok(())
}

fn simultaneous(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, gate, fence) = (gpu.queue()?, gpu.timeline(0)?, gpu.fence(false)?);
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer(1)?;
    let set = gpu.set(&kernel, &[state])?;
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[2, 1]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    let wait = [crate::lab::At(gate, 1)];
    let twice = Submit { wait: &wait, commands: &[commands; 2], signal: &[] };
    gpu.submit(queue, &[twice; 5], vk::Fence::null())?;
    gpu.submit(queue, &[twice; 5], fence)?;
    same!(state.word(0), 0);
    gpu.signal(wait[0])?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(state.word(0), (1 << 20) - 1);
    Ok(())
}

fn hundreds(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, buffer) = (gpu.queue()?, gpu.buffer(501)?);
    buffer.write(&[7]);
    let pool = gpu.command_pool(queue)?;
    let mut all = Vec::new();
    for word in 0..500 {
        let raw = gpu.bare_commands(pool, vk::CommandBufferLevel::PRIMARY)?;
        let usage = vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT;
        all.push(gpu.record_into(raw, usage, |commands| {
            commands.copy(&buffer, &buffer, &[(word, word + 1, 1)]).barrier();
        })?);
    }
    gpu.finish(queue, &all)?;
    same!(buffer.read(), vec![7; 501]);
    Ok(())
}

fn two_queues(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queues = gpu.two_queues()?;
    let buffers = [gpu.buffer(1)?, gpu.buffer(1)?];
    let fences = [gpu.fence(false)?, gpu.fence(false)?];
    for ((queue, buffer), fence) in queues.iter().zip(&buffers).zip(fences) {
        let commands = gpu.record(*queue, |commands| {
            for number in 1..=200 {
                commands.fill(buffer, 0, 4, number).barrier();
            }
        })?;
        gpu.submit(*queue, &[Submit { commands: &[commands], ..Submit::default() }], fence)?;
    }
    gpu.wait_fences(&fences, true, PATIENCE)?;
    same!(buffers.map(|buffer| buffer.word(0)), [200, 200]);
    Ok(())
}
