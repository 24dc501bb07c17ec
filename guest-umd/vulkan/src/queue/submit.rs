// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Submissions: the packets of semaphores and command buffers.

use super::Queue;
use super::packets::Packets;
use crate::command::CommandBuffer;
use crate::device::code;
use crate::fence::Fence;
use crate::semaphore::Semaphore;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::sync::Arc;

/// A semaphore and the value that a submission gives for it.
type Point = (vk::Semaphore, u64);

/// Holds the queue until semaphores are signaled.
///
/// # Safety
/// The semaphores live.
unsafe fn wait(packets: &mut Packets<'_>, points: impl Iterator<Item = Point>) {
    for (semaphore, value) in points {
        // SAFETY: the caller says that it lives.
        let semaphore = unsafe { handle::get::<Semaphore>(semaphore.as_raw()) };
        // SAFETY: this is a submission with it.
        let (fence, value) = unsafe { semaphore.awaited(value) };
        packets.wait(fence.slot(), value);
    }
}

/// Executes command buffers.
///
/// # Safety
/// The command buffers live, and nobody records them.
unsafe fn execute(packets: &mut Packets<'_>, buffers: impl Iterator<Item = vk::CommandBuffer>) {
    for buffer in buffers {
        // SAFETY: the caller says that it lives.
        let buffer = unsafe { handle::get_dispatchable::<CommandBuffer>(buffer.as_raw()) };
        for chunk in buffer.chunks() {
            packets.execute(chunk);
        }
        buffer.submitted();
    }
}

/// Signals semaphores.
///
/// # Safety
/// The semaphores live.
unsafe fn signal(packets: &mut Packets<'_>, points: impl Iterator<Item = Point>) {
    for (semaphore, value) in points {
        // SAFETY: the caller says that it lives.
        let semaphore = unsafe { handle::get::<Semaphore>(semaphore.as_raw()) };
        // SAFETY: this is a submission with it.
        let (fence, value) = unsafe { semaphore.signaled(value) };
        packets.signal(fence.slot(), value);
    }
}

/// Semaphores with their values, of which there may be fewer: binary semaphores need none.
fn points<'p>(
    semaphores: &'p [vk::Semaphore],
    values: &'p [u64],
) -> impl Iterator<Item = Point> + 'p {
    let values = values.iter().copied().chain(std::iter::repeat(0));
    semaphores.iter().copied().zip(values)
}

fn points_2<'p>(semaphores: &'p [vk::SemaphoreSubmitInfo<'p>]) -> impl Iterator<Item = Point> + 'p {
    semaphores.iter().map(|point| (point.semaphore, point.value))
}

/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn fill(packets: &mut Packets<'_>, batch: &vk::SubmitInfo<'_>) {
    // SAFETY: a valid structure's chain, pointers and handles are.
    unsafe {
        let values = raw::find::<vk::TimelineSemaphoreSubmitInfo<'_>>(batch.p_next);
        let (waits, signals) = values.map_or((&[][..], &[][..]), |values| {
            (
                raw::slice(values.p_wait_semaphore_values, values.wait_semaphore_value_count),
                raw::slice(values.p_signal_semaphore_values, values.signal_semaphore_value_count),
            )
        });
        let semaphores = raw::slice(batch.p_wait_semaphores, batch.wait_semaphore_count);
        wait(packets, points(semaphores, waits));
        let buffers = raw::slice(batch.p_command_buffers, batch.command_buffer_count);
        execute(packets, buffers.iter().copied());
        let semaphores = raw::slice(batch.p_signal_semaphores, batch.signal_semaphore_count);
        signal(packets, points(semaphores, signals));
    }
}

/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn fill_2(packets: &mut Packets<'_>, batch: &vk::SubmitInfo2<'_>) {
    // SAFETY: a valid structure's pointers and handles are.
    unsafe {
        let waits = raw::slice(batch.p_wait_semaphore_infos, batch.wait_semaphore_info_count);
        wait(packets, points_2(waits));
        let buffers = raw::slice(batch.p_command_buffer_infos, batch.command_buffer_info_count);
        execute(packets, buffers.iter().map(|buffer| buffer.command_buffer));
        let signals = raw::slice(batch.p_signal_semaphore_infos, batch.signal_semaphore_info_count);
        signal(packets, points_2(signals));
    }
}

/// Submits what `fill` appends, and has a fence signaled when it and everything before it is done.
///
/// # Safety
/// The handles are valid, as Vulkan demands it.
unsafe fn submit_all(
    queue: vk::Queue,
    fence: vk::Fence,
    fill: impl FnOnce(&mut Packets<'_>),
) -> vk::Result {
    // SAFETY: the caller says that it is valid.
    let queue = unsafe { handle::get_dispatchable::<Queue>(queue.as_raw()) };
    let submitted = queue.submit(fill).map(|value| {
        if !fence.is_null() {
            // SAFETY: as above.
            let fence = unsafe { handle::get::<Fence>(fence.as_raw()) };
            fence.follow(Arc::clone(&queue.progress), value);
            queue.device.submissions.notify(usize::MAX);
        }
    });
    code(submitted)
}

unsafe extern "system" fn submit(
    queue: vk::Queue,
    count: u32,
    batches: *const vk::SubmitInfo<'_>,
    fence: vk::Fence,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let batches = raw::slice(batches, count);
        submit_all(queue, fence, |packets| {
            batches.iter().for_each(|batch| fill(packets, batch));
        })
    }
}

unsafe extern "system" fn submit_2(
    queue: vk::Queue,
    count: u32,
    batches: *const vk::SubmitInfo2<'_>,
    fence: vk::Fence,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let batches = raw::slice(batches, count);
        submit_all(queue, fence, |packets| {
            batches.iter().for_each(|batch| fill_2(packets, batch));
        })
    }
}

unsafe extern "system" fn wait_idle(queue: vk::Queue) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    code(unsafe { handle::get_dispatchable::<Queue>(queue.as_raw()) }.wait_idle())
}

crate::entry::entry_points! {
    vkQueueSubmit = submit,
    vkQueueSubmit2 = submit_2,
    vkQueueSubmit2KHR = submit_2,
    vkQueueWaitIdle = wait_idle,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semaphore_without_a_value_is_a_binary_one() {
        let semaphores = [1, 2, 3].map(vk::Semaphore::from_raw);
        let values: Vec<_> = points(&semaphores, &[7, 8]).map(|(_, value)| value).collect();
        assert_eq!(values, [7, 8, 0]);
    }
}
