// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program that names its objects, for tools that look at it.

use crate::lab::{At, Lab, Outcome, PATIENCE, Submit};
use ash::vk;

/// Bytes of the memory.
const MEMORY: u64 = 1 << 16;

/// Names a device, a queue, memory, a semaphore and a fence after their kinds, has them looked at, and then has the queue signal the
/// semaphore.
///
/// # Errors
/// When the device has no names, or does not do that.
pub fn hold(lab: &Lab, look: impl FnOnce() -> Outcome) -> Outcome {
    let gpu = lab.gpu()?;
    let (queue, timeline, fence) = (gpu.queue()?, gpu.timeline(0)?, gpu.fence(false)?);
    let memory = gpu.allocate(MEMORY, 0)?;
    gpu.name(c"the device")?;
    gpu.name_queue(queue, c"the queue")?;
    gpu.name_object(memory, c"the memory")?;
    gpu.name_object(timeline, c"the semaphore")?;
    // No object of the device's own is behind it.
    gpu.name_object(fence, c"the fence")?;
    look()?;
    let signal = &[At(timeline, 1)];
    gpu.submit(queue, &[Submit { wait: &[], signal, commands: &[] }], vk::Fence::null())?;
    gpu.wait_for(&[At(timeline, 1)], true, PATIENCE)?;
    Ok(gpu.wait_idle()?)
}
