// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Barriers and events. The stream has one kind of barrier, which waits for everything, so that stages and accesses do not
//! matter. Of several GPUs each waits for itself, unless a barrier is for all of them.

use super::buffer::CommandBuffer;
use super::recording::Recording;
use crate::event::{Event, SET, UNSET};
use crate::{handle, raw};
use ash::vk::{self, Handle as _};

/// Has what comes next wait, on each GPU or on all of them for each other.
fn wait_for_all(recording: &mut Recording, flags: vk::DependencyFlags) {
    if flags.contains(vk::DependencyFlags::DEVICE_GROUP) {
        recording.meet();
    } else {
        recording.barrier();
    }
}

/// Whether a dependency has anything wait.
fn is_barrier(dependency: &vk::DependencyInfo<'_>) -> bool {
    let memory = dependency.memory_barrier_count;
    memory > 0
        || dependency.buffer_memory_barrier_count > 0
        || dependency.image_memory_barrier_count > 0
}

unsafe extern "system" fn barrier(
    buffer: vk::CommandBuffer,
    _source: vk::PipelineStageFlags,
    _destination: vk::PipelineStageFlags,
    flags: vk::DependencyFlags,
    _memory_count: u32,
    _memory: *const vk::MemoryBarrier<'_>,
    _buffer_count: u32,
    _buffers: *const vk::BufferMemoryBarrier<'_>,
    _image_count: u32,
    _images: *const vk::ImageMemoryBarrier<'_>,
) {
    // SAFETY: the call is the only one with this handle.
    wait_for_all(unsafe { CommandBuffer::record(buffer) }, flags);
}

unsafe extern "system" fn barrier_2(
    buffer: vk::CommandBuffer,
    dependency: *const vk::DependencyInfo<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let dependency = &*dependency;
        if is_barrier(dependency) {
            wait_for_all(CommandBuffer::record(buffer), dependency.dependency_flags);
        }
    }
}

/// Stores an event's word when everything before is done.
///
/// # Safety
/// The handles are those of a call that records.
unsafe fn store(buffer: vk::CommandBuffer, event: vk::Event, word: u32) {
    // SAFETY: as the caller says.
    let (recording, event) =
        unsafe { (CommandBuffer::record(buffer), handle::get::<Event>(event.as_raw())) };
    recording.barrier();
    recording.fill(event.address(), size_of_val(&word) as u64, word);
}

/// Waits for events.
///
/// # Safety
/// As for [`store`].
unsafe fn wait_for(recording: &mut Recording, events: &[vk::Event]) {
    let addresses = events.iter().map(|event| {
        // SAFETY: as the caller says.
        unsafe { handle::get::<Event>(event.as_raw()) }.address()
    });
    if recording.stream.is_held() {
        let words: Vec<_> = addresses.map(|address| (address, SET)).collect();
        return recording.wait_inside(&words);
    }
    for address in addresses {
        recording.wait(address, SET);
    }
    recording.barrier();
}

unsafe extern "system" fn set(
    buffer: vk::CommandBuffer,
    event: vk::Event,
    _stages: vk::PipelineStageFlags,
) {
    // SAFETY: the handles are a program's.
    unsafe { store(buffer, event, SET) };
}

unsafe extern "system" fn set_2(
    buffer: vk::CommandBuffer,
    event: vk::Event,
    _dependency: *const vk::DependencyInfo<'_>,
) {
    // SAFETY: the handles are a program's.
    unsafe { store(buffer, event, SET) };
}

unsafe extern "system" fn reset(
    buffer: vk::CommandBuffer,
    event: vk::Event,
    _stages: vk::PipelineStageFlags,
) {
    // SAFETY: the handles are a program's.
    unsafe { store(buffer, event, UNSET) };
}

unsafe extern "system" fn reset_2(
    buffer: vk::CommandBuffer,
    event: vk::Event,
    _stages: vk::PipelineStageFlags2,
) {
    // SAFETY: the handles are a program's.
    unsafe { store(buffer, event, UNSET) };
}

unsafe extern "system" fn wait(
    buffer: vk::CommandBuffer,
    count: u32,
    events: *const vk::Event,
    _source: vk::PipelineStageFlags,
    _destination: vk::PipelineStageFlags,
    _memory_count: u32,
    _memory: *const vk::MemoryBarrier<'_>,
    _buffer_count: u32,
    _buffers: *const vk::BufferMemoryBarrier<'_>,
    _image_count: u32,
    _images: *const vk::ImageMemoryBarrier<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { wait_for(CommandBuffer::record(buffer), raw::slice(events, count)) };
}

unsafe extern "system" fn wait_2(
    buffer: vk::CommandBuffer,
    count: u32,
    events: *const vk::Event,
    _dependencies: *const vk::DependencyInfo<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { wait_for(CommandBuffer::record(buffer), raw::slice(events, count)) };
}

crate::entry::entry_points! {
    vkCmdPipelineBarrier = barrier,
    vkCmdPipelineBarrier2 = barrier_2,
    vkCmdPipelineBarrier2KHR = barrier_2,
    vkCmdSetEvent = set,
    vkCmdSetEvent2 = set_2,
    vkCmdSetEvent2KHR = set_2,
    vkCmdResetEvent = reset,
    vkCmdResetEvent2 = reset_2,
    vkCmdResetEvent2KHR = reset_2,
    vkCmdWaitEvents = wait,
    vkCmdWaitEvents2 = wait_2,
    vkCmdWaitEvents2KHR = wait_2,
}
