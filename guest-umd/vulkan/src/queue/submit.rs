// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Submissions: the packets of semaphores and command buffers.

use super::Queue;
use super::packets::{Packets, Places, signal, wait};
use crate::command::CommandBuffer;
use crate::device::code;
use crate::device::wait::Target;
use crate::fence::Fence;
use crate::semaphore::Semaphore;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::sync::Arc;

/// A semaphore, the value that a submission gives for it, and the device index of who waits for it or signals it.
type Point = (vk::Semaphore, u64, u32);

/// Holds queues until semaphores are signaled.
///
/// # Safety
/// The semaphores live.
#[inline]
unsafe fn await_all(places: &mut impl Places, points: impl Iterator<Item = Point>) {
    for (semaphore, value, device) in points {
        // SAFETY: the caller says that it lives.
        let semaphore = unsafe { handle::get::<Semaphore>(semaphore.as_raw()) };
        // SAFETY: this is a submission with it.
        let (fence, value) = unsafe { semaphore.awaited(value) };
        places.put(device, wait(fence.slot(), value));
    }
}

/// Executes command buffers, each on these GPUs.
///
/// # Safety
/// The command buffers live, and nobody records them.
#[inline]
unsafe fn execute_all(
    places: &mut impl Places,
    buffers: impl Iterator<Item = (vk::CommandBuffer, u32)>,
) {
    for (buffer, devices) in buffers {
        // SAFETY: the caller says that it lives.
        let buffer = unsafe { handle::get_dispatchable::<CommandBuffer>(buffer.as_raw()) };
        places.begin(buffer.uses());
        for chunk in buffer.chunks() {
            places.execute(devices, chunk);
        }
        buffer.submitted();
    }
}

/// Signals semaphores.
///
/// # Safety
/// The semaphores live.
#[inline]
unsafe fn signal_all(places: &mut impl Places, points: impl Iterator<Item = Point>) {
    for (semaphore, value, device) in points {
        // SAFETY: the caller says that it lives.
        let semaphore = unsafe { handle::get::<Semaphore>(semaphore.as_raw()) };
        // SAFETY: this is a submission with it.
        let (fence, value) = unsafe { semaphore.signaled(value) };
        places.tell(device, signal(fence.slot(), value));
    }
}

/// Semaphores with their values and device indices, of which there may be fewer: binary semaphores need no value, and without an
/// index the GPU is that of index 0.
fn points<'p>(
    semaphores: &'p [vk::Semaphore],
    values: &'p [u64],
    devices: &'p [u32],
) -> impl Iterator<Item = Point> + 'p {
    semaphores.iter().enumerate().map(|(number, semaphore)| {
        let value = values.get(number).copied().unwrap_or_default();
        (*semaphore, value, devices.get(number).copied().unwrap_or_default())
    })
}

fn points_2<'p>(semaphores: &'p [vk::SemaphoreSubmitInfo<'p>]) -> impl Iterator<Item = Point> + 'p {
    semaphores.iter().map(|point| (point.semaphore, point.value, point.device_index))
}

/// What is submitted at once.
trait Batch {
    /// Appends its packets.
    ///
    /// # Safety
    /// The structure is valid, as Vulkan demands it.
    unsafe fn fill<P: Places>(&self, places: &mut P);
}

impl Batch for vk::SubmitInfo<'_> {
    #[inline]
    unsafe fn fill<P: Places>(&self, places: &mut P) {
        type Group<'a> = vk::DeviceGroupSubmitInfo<'a>;
        /// Without a structure for a group, everything is for device index 0.
        const FIRST: u32 = 1;
        // SAFETY: a valid structure's chain, pointers and handles are.
        unsafe {
            let values = raw::find::<vk::TimelineSemaphoreSubmitInfo<'_>>(self.p_next);
            let (waits, signals) = values.map_or((&[][..], &[][..]), |values| {
                (
                    raw::slice(values.p_wait_semaphore_values, values.wait_semaphore_value_count),
                    raw::slice(
                        values.p_signal_semaphore_values,
                        values.signal_semaphore_value_count,
                    ),
                )
            });
            let group = if P::ARE_SEVERAL { raw::find::<Group<'_>>(self.p_next) } else { None };
            let (wait_devices, masks, signal_devices) =
                group.map_or((&[][..], &[][..], &[][..]), |group| {
                    let Group { wait_semaphore_count, command_buffer_count, .. } = *group;
                    (
                        raw::slice(group.p_wait_semaphore_device_indices, wait_semaphore_count),
                        raw::slice(group.p_command_buffer_device_masks, command_buffer_count),
                        raw::slice(
                            group.p_signal_semaphore_device_indices,
                            group.signal_semaphore_count,
                        ),
                    )
                });
            let semaphores = raw::array(self.p_wait_semaphores, self.wait_semaphore_count);
            await_all(places, points(semaphores, waits, wait_devices));
            let buffers = raw::array(self.p_command_buffers, self.command_buffer_count);
            let mask = |number: usize| masks.get(number).copied().unwrap_or(FIRST);
            let buffers = buffers.iter().enumerate();
            execute_all(places, buffers.map(|(number, buffer)| (*buffer, mask(number))));
            let semaphores = raw::array(self.p_signal_semaphores, self.signal_semaphore_count);
            signal_all(places, points(semaphores, signals, signal_devices));
        }
        places.end_batch();
    }
}

impl Batch for vk::SubmitInfo2<'_> {
    #[inline]
    unsafe fn fill<P: Places>(&self, places: &mut P) {
        let devices = |mask| if mask == 0 { u32::MAX } else { mask };
        // SAFETY: a valid structure's pointers and handles are.
        unsafe {
            let waits = raw::array(self.p_wait_semaphore_infos, self.wait_semaphore_info_count);
            await_all(places, points_2(waits));
            let buffers = raw::array(self.p_command_buffer_infos, self.command_buffer_info_count);
            let buffers = buffers.iter().map(|one| (one.command_buffer, devices(one.device_mask)));
            execute_all(places, buffers);
            let signals =
                raw::array(self.p_signal_semaphore_infos, self.signal_semaphore_info_count);
            signal_all(places, points_2(signals));
        }
        places.end_batch();
    }
}

/// Submits batches, and has a fence signaled when they and everything before them are done.
///
/// # Safety
/// The handles and the batches are valid, as Vulkan demands it.
#[inline]
unsafe fn submit_all<B: Batch>(
    queue: vk::Queue,
    count: u32,
    batches: *const B,
    fence: vk::Fence,
) -> vk::Result {
    // SAFETY: the caller says that they are valid.
    let (queue, batches) =
        unsafe { (handle::get_dispatchable::<Queue>(queue.as_raw()), raw::array(batches, count)) };
    if queue.is_of_group() {
        // SAFETY: as above.
        return unsafe { submit_to_group(queue, batches, fence) };
    }
    // SAFETY: as above.
    let fill =
        |packets: &mut Packets<'_>| batches.iter().for_each(|one| unsafe { one.fill(packets) });
    let submitted = queue.submit(fill).map(|value| {
        if !fence.is_null() {
            // SAFETY: as above.
            unsafe { follow_first(queue, fence, value) };
        }
    });
    code(submitted)
}

impl Queue {
    /// Holds what comes next until semaphores are signaled. Returns what the progress fences get when they and everything before them
    /// are done.
    ///
    /// # Safety
    /// The semaphores live.
    pub(crate) unsafe fn hold(
        &self,
        semaphores: &[vk::Semaphore],
    ) -> Result<Vec<Target>, vk::Result> {
        if self.alternates() {
            return self.submit_in_turn(|turn| {
                // SAFETY: the caller says so.
                unsafe { await_all(turn, points(semaphores, &[], &[])) };
                turn.end_batch();
            });
        }
        if self.is_of_group() {
            return self.submit_to_group(|parts| {
                // SAFETY: the caller says so.
                unsafe { await_all(parts, points(semaphores, &[], &[])) };
                parts.end_batch();
            });
        }
        // SAFETY: as above.
        let fill = |packets: &mut Packets<'_>| unsafe {
            await_all(packets, points(semaphores, &[], &[]));
        };
        let value = self.submit(fill)?;
        Ok(vec![(Arc::clone(&self.first.progress), value)])
    }
}

/// As [`submit_all`], to several GPUs.
///
/// # Safety
/// As [`submit_all`].
#[cold]
unsafe fn submit_to_group<B: Batch>(queue: &Queue, batches: &[B], fence: vk::Fence) -> vk::Result {
    let submitted = if queue.alternates() {
        // SAFETY: as the caller says.
        queue.submit_in_turn(|turn| batches.iter().for_each(|one| unsafe { one.fill(turn) }))
    } else {
        // SAFETY: as above.
        queue.submit_to_group(|parts| batches.iter().for_each(|one| unsafe { one.fill(parts) }))
    };
    let submitted = submitted.map(|mut targets| {
        if let Some(last) = targets.pop().filter(|_| !fence.is_null()) {
            // SAFETY: as above.
            unsafe { follow(queue, fence, last, targets) };
        }
    });
    code(submitted)
}

/// Has a fence signaled when the only GPU's progress fence has a value.
///
/// # Safety
/// The fence lives.
#[inline(never)]
unsafe fn follow_first(queue: &Queue, fence: vk::Fence, value: u64) {
    // SAFETY: the caller says so.
    unsafe { follow(queue, fence, (Arc::clone(&queue.first.progress), value), Vec::new()) };
}

/// Has a fence signaled when progress fences have values.
///
/// # Safety
/// The fence lives.
unsafe fn follow(queue: &Queue, fence: vk::Fence, one: Target, others: Vec<Target>) {
    // SAFETY: the caller says so.
    unsafe { handle::get::<Fence>(fence.as_raw()) }.follow(one, others);
    queue.device.submissions.notify(usize::MAX);
}

unsafe extern "system" fn submit(
    queue: vk::Queue,
    count: u32,
    batches: *const vk::SubmitInfo<'_>,
    fence: vk::Fence,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { submit_all(queue, count, batches, fence) }
}

unsafe extern "system" fn submit_2(
    queue: vk::Queue,
    count: u32,
    batches: *const vk::SubmitInfo2<'_>,
    fence: vk::Fence,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { submit_all(queue, count, batches, fence) }
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
    fn a_semaphore_without_a_value_is_a_binary_one_and_without_an_index_the_first_gpu_s() {
        let semaphores = [1, 2, 3].map(vk::Semaphore::from_raw);
        let points = points(&semaphores, &[7, 8], &[1]);
        let points: Vec<_> = points.map(|(_, value, device)| (value, device)).collect();
        assert_eq!(points, [(7, 1), (8, 0), (0, 0)]);
    }
}
