// SPDX-License-Identifier: MIT OR Apache-2.0

//! Events.

use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, PATIENCE, Submit, module, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("event.host", "the processor sets and resets an event", host),
    case(
        "event.device",
        "a command sets an event after the work before it, and another resets it",
        device,
    ),
    case("event.wait", "commands behind a wait see the work before the event", wait),
    case(
        "event.set-after-submission",
        "commands wait for an event that the processor sets after they were submitted",
        set_after_submission,
    ),
    case(
        "event.across-command-buffers",
        "an event that one command buffer sets is waited for in another",
        across,
    ),
];

fn host(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let event = gpu.event()?;
    same!(gpu.is_set(event), Ok(false));
    gpu.set_event(event)?;
    same!(gpu.is_set(event), Ok(true));
    gpu.reset_event(event)?;
    same!(gpu.is_set(event), Ok(false));
    Ok(())
}

fn device(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let event = gpu.event()?;
    gpu.run(|commands| {
        commands.set_event(event);
    })?;
    same!(gpu.is_set(event), Ok(true));
    gpu.run(|commands| {
        commands.reset_event(event);
    })?;
    same!(gpu.is_set(event), Ok(false));
    Ok(())
}

fn wait(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("long"), 1, 4)?;
    let (state, seen) = (gpu.buffer_of(&[5])?, gpu.buffer(1)?);
    let set = gpu.set(&kernel, &[state])?;
    let event = gpu.event()?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[100_000]);
        commands.dispatch(1, 1, 1).set_event(event);
        commands.wait_event(event, vk::PipelineStageFlags::ALL_COMMANDS);
        commands.copy(&state, &seen, &[(0, 0, 1)]).barrier();
    })?;
    let step = |value: u32, _| value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    same!(seen.word(0), (0..100_000).fold(5, step));
    Ok(())
}

fn set_after_submission(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, fence, event) = (gpu.queue()?, gpu.fence(false)?, gpu.event()?);
    let (from, to) = (gpu.buffer_of(&[1])?, gpu.buffer(1)?);
    let commands = gpu.record(queue, |commands| {
        commands.wait_event(event, vk::PipelineStageFlags::HOST);
        commands.copy(&from, &to, &[(0, 0, 1)]).barrier();
    })?;
    gpu.submit(queue, &[Submit { commands: &[commands], ..Submit::default() }], fence)?;
    same!(gpu.wait_fences(&[fence], true, 20_000_000), Err(vk::Result::TIMEOUT));
    from.write(&[99]);
    gpu.set_event(event)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(to.word(0), 99);
    Ok(())
}

fn across(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, event) = (gpu.queue()?, gpu.event()?);
    let (from, to) = (gpu.buffer(1)?, gpu.buffer(1)?);
    let sets = gpu.record(queue, |commands| {
        commands.fill(&from, 0, 4, 12).set_event(event);
    })?;
    let waits = gpu.record(queue, |commands| {
        commands.wait_event(event, vk::PipelineStageFlags::ALL_COMMANDS);
        commands.copy(&from, &to, &[(0, 0, 1)]).barrier();
        commands.reset_event(event);
    })?;
    for _ in 0..10 {
        to.write(&[0]);
        gpu.finish(queue, &[sets, waits])?;
        same!([to.word(0), u32::from(gpu.is_set(event)?)], [12, 0]);
    }
    Ok(())
}
