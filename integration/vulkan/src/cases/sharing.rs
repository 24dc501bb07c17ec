// SPDX-License-Identifier: MIT OR Apache-2.0

//! Semaphores that two devices of a program have.

use crate::case::{Case, case};
use crate::lab::{At, Gpu, Lab, Outcome, PATIENCE, Queue, Submit, same};
use ash::vk;
use std::fs::File;

pub(super) const CASES: &[Case] = &[
    case("sharing.timeline", "two devices take turns by one timeline", timeline),
    case("sharing.binary", "a device waits for what another one signals, again and again", binary),
    case(
        "sharing.temporary",
        "what is imported for one wait is gone after it, and the semaphore is what it was",
        temporary,
    ),
    case("sharing.again", "what was imported is exported again", again),
    case(
        "sharing.no-semaphore",
        "a descriptor of something else is refused, and stays the program's",
        no_semaphore,
    ),
];

const TIMELINE: vk::SemaphoreType = vk::SemaphoreType::TIMELINE;
const BINARY: vk::SemaphoreType = vk::SemaphoreType::BINARY;

/// Imports what another device exports.
fn imported(
    (from, semaphore): (&Gpu<'_>, vk::Semaphore),
    to: &Gpu<'_>,
    into: vk::Semaphore,
    temporary: bool,
) -> Outcome {
    Ok(to.import(into, from.export(semaphore)?, temporary)??)
}

/// Submits a wait and a signal.
fn turn(gpu: &Gpu<'_>, queue: Queue, wait: &[At], signal: &[At], fence: vk::Fence) -> Outcome {
    Ok(gpu.submit(queue, &[Submit { wait, signal, commands: &[] }], fence)?)
}

fn timeline(lab: &Lab) -> Outcome {
    let (one, two) = (lab.gpu()?, lab.gpu()?);
    let (here, there) = (one.shared(TIMELINE, 5)?, two.timeline(0)?);
    imported((&one, here), &two, there, false)?;
    same!(two.value(there), Ok(5));
    let (first, second) = (one.queue()?, two.queue()?);
    for value in (5..25).step_by(2) {
        turn(&two, second, &[At(there, value + 1)], &[At(there, value + 2)], vk::Fence::null())?;
        turn(&one, first, &[At(here, value)], &[At(here, value + 1)], vk::Fence::null())?;
    }
    one.wait_for(&[At(here, 25)], true, PATIENCE)?;
    two.wait_idle()?;
    same!([one.value(here), two.value(there)], [Ok(25), Ok(25)]);
    turn(&two, second, &[], &[At(there, 30)], vk::Fence::null())?;
    one.wait_for(&[At(here, 30)], true, PATIENCE)?;
    same!(one.wait_for(&[At(here, 31)], true, 0), Err(vk::Result::TIMEOUT));
    Ok(())
}

fn binary(lab: &Lab) -> Outcome {
    let (one, two) = (lab.gpu()?, lab.gpu()?);
    let (here, there) = (one.shared(BINARY, 0)?, two.binary()?);
    imported((&one, here), &two, there, false)?;
    let (first, second) = (one.queue()?, two.queue()?);
    for _ in 0..20 {
        turn(&one, first, &[], &[At(here, 0)], vk::Fence::null())?;
        let fence = two.fence(false)?;
        turn(&two, second, &[At(there, 0)], &[], fence)?;
        two.wait_fences(&[fence], true, PATIENCE)?;
    }
    // The other way round.
    turn(&two, second, &[], &[At(there, 0)], vk::Fence::null())?;
    let fence = one.fence(false)?;
    turn(&one, first, &[At(here, 0)], &[], fence)?;
    Ok(one.wait_fences(&[fence], true, PATIENCE)?)
}

fn temporary(lab: &Lab) -> Outcome {
    let (one, two) = (lab.gpu()?, lab.gpu()?);
    let (here, there) = (one.shared(BINARY, 0)?, two.binary()?);
    let (first, second) = (one.queue()?, two.queue()?);
    for _ in 0..3 {
        imported((&one, here), &two, there, true)?;
        turn(&one, first, &[], &[At(here, 0)], vk::Fence::null())?;
        let fence = two.fence(false)?;
        turn(&two, second, &[At(there, 0)], &[], fence)?;
        two.wait_fences(&[fence], true, PATIENCE)?;
        // Its own signals and waits.
        let fence = two.fence(false)?;
        turn(&two, second, &[], &[At(there, 0)], vk::Fence::null())?;
        turn(&two, second, &[At(there, 0)], &[], fence)?;
        two.wait_fences(&[fence], true, PATIENCE)?;
    }
    Ok(())
}

fn again(lab: &Lab) -> Outcome {
    let (one, two, three) = (lab.gpu()?, lab.gpu()?, lab.gpu()?);
    let here = one.shared(TIMELINE, 0)?;
    let (there, beyond) = (two.shared(TIMELINE, 0)?, three.timeline(0)?);
    imported((&one, here), &two, there, false)?;
    imported((&two, there), &three, beyond, false)?;
    turn(&three, three.queue()?, &[], &[At(beyond, 3)], vk::Fence::null())?;
    one.wait_for(&[At(here, 3)], true, PATIENCE)?;
    same!(two.value(there), Ok(3));
    Ok(())
}

fn no_semaphore(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (timeline, binary) = (gpu.timeline(0)?, gpu.shared(BINARY, 0)?);
    let invalid = Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE);
    if let Ok(null) = File::open("/dev/null") {
        same!(gpu.import(timeline, null.into(), false)?, invalid);
    }
    if lab.is_bellhop() {
        // Valid programs do not import one kind as the other.
        same!(gpu.import(timeline, gpu.export(binary)?, false)?, invalid);
    }
    gpu.signal(At(timeline, 1))?;
    same!(gpu.value(timeline), Ok(1));
    Ok(())
}
