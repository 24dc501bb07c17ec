// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two programs that take turns by semaphores which one of them has made.

use crate::lab::{At, Lab, Outcome, PATIENCE, Submit, same};
use ash::vk;
use std::os::fd::OwnedFd;

/// Turns of each.
const TURNS: u64 = 20;

/// What the processor of the second one signals in the end.
const LAST: u64 = 2 * TURNS + 5;

/// The descriptors of a timeline and of a binary semaphore.
pub type Shared = [OwnedFd; 2];

/// Makes semaphores, has `start` pass them to another program, and takes the odd values of the timeline.
///
/// # Errors
/// When the device shares no semaphores, or something else is seen than turns.
pub fn lead(lab: &Lab, start: impl FnOnce(Shared) -> Outcome) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let timeline = gpu.shared(vk::SemaphoreType::TIMELINE, 0)?;
    let binary = gpu.shared(vk::SemaphoreType::BINARY, 0)?;
    start([gpu.export(timeline)?, gpu.export(binary)?])?;
    for value in (0..2 * TURNS).step_by(2) {
        let signal = &[At(binary, 0), At(timeline, value + 1)];
        let wait = &[At(timeline, value)];
        gpu.submit(queue, &[Submit { wait, signal, commands: &[] }], vk::Fence::null())?;
        gpu.wait_for(&[At(timeline, value + 2)], true, PATIENCE)?;
    }
    gpu.wait_for(&[At(timeline, LAST)], true, PATIENCE)?;
    same!(gpu.value(timeline), Ok(LAST));
    Ok(())
}

/// Takes the even values of the timeline, as the other program.
///
/// # Errors
/// As [`lead`].
pub fn follow(lab: &Lab, [timeline_of, binary_of]: Shared) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let (timeline, binary) = (gpu.timeline(0)?, gpu.binary()?);
    gpu.import(timeline, timeline_of, false)??;
    gpu.import(binary, binary_of, false)??;
    for value in (0..2 * TURNS).step_by(2) {
        gpu.wait_for(&[At(timeline, value + 1)], true, PATIENCE)?;
        same!(gpu.value(timeline), Ok(value + 1));
        same!(gpu.wait_for(&[At(timeline, value + 2)], true, 0), Err(vk::Result::TIMEOUT));
        let (wait, signal) = (&[At(binary, 0)], &[At(timeline, value + 2)]);
        let fence = gpu.fence(false)?;
        gpu.submit(queue, &[Submit { wait, signal, commands: &[] }], fence)?;
        gpu.wait_fences(&[fence], true, PATIENCE)?;
    }
    Ok(gpu.signal(At(timeline, LAST))?)
}
