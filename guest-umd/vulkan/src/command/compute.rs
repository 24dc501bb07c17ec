// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands that bind what dispatches and draws use, and dispatches.

use super::buffer::CommandBuffer;
use super::drawn::stale;
use crate::buffer::Buffer;
use crate::descriptor::DescriptorSet;
use crate::pipeline::{Pipeline, PipelineLayout};
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::ffi::c_void;

unsafe extern "system" fn bind_pipeline(
    buffer: vk::CommandBuffer,
    point: vk::PipelineBindPoint,
    pipeline: vk::Pipeline,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (recording, pipeline) =
        unsafe { (CommandBuffer::record(buffer), handle::get::<Pipeline>(pipeline.as_raw())) };
    match point {
        vk::PipelineBindPoint::COMPUTE => recording.bind(pipeline),
        vk::PipelineBindPoint::GRAPHICS => recording.bind_graphics(pipeline),
        _ => {}
    }
}

unsafe extern "system" fn bind_sets(
    buffer: vk::CommandBuffer,
    point: vk::PipelineBindPoint,
    layout: vk::PipelineLayout,
    first: u32,
    count: u32,
    sets: *const vk::DescriptorSet,
    offset_count: u32,
    offsets: *const u32,
) {
    if point != vk::PipelineBindPoint::COMPUTE {
        // SAFETY: what a program passes is valid, as Vulkan demands it.
        return unsafe {
            let (sets, offsets) = (raw::slice(sets, count), raw::slice(offsets, offset_count));
            bind_graphics_sets(buffer, layout, first, sets, offsets);
        };
    }
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let bound = &mut CommandBuffer::record(buffer).bound;
        for (number, set) in (first..).zip(raw::slice(sets, count)) {
            let address = match set.as_raw() {
                0 => 0,
                set => handle::get::<DescriptorSet>(set).address(),
            };
            bound.set(number, address);
        }
        if offset_count > 0 {
            let before = handle::get::<PipelineLayout>(layout.as_raw()).offsets_before(first);
            bound.offsets(before, raw::slice(offsets, offset_count));
        }
    }
}

/// Binds sets for draws.
///
/// # Safety
/// The handles are those of a call that records.
#[inline(never)]
unsafe fn bind_graphics_sets(
    buffer: vk::CommandBuffer,
    layout: vk::PipelineLayout,
    first: u32,
    sets: &[vk::DescriptorSet],
    offsets: &[u32],
) {
    // SAFETY: as the caller says.
    unsafe {
        let recording = CommandBuffer::record(buffer);
        for (number, set) in (first..).zip(sets) {
            let address = match set.as_raw() {
                0 => 0,
                set => handle::get::<DescriptorSet>(set).address(),
            };
            recording.bind_graphics_set(number, address);
        }
        if !offsets.is_empty() {
            let before = handle::get::<PipelineLayout>(layout.as_raw()).offsets_before(first);
            recording.bind_graphics_offsets(before, offsets);
        }
    }
}

unsafe extern "system" fn push_constants(
    buffer: vk::CommandBuffer,
    _layout: vk::PipelineLayout,
    _stages: vk::ShaderStageFlags,
    offset: u32,
    size: u32,
    values: *const c_void,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let values = raw::slice(values.cast::<u8>(), size);
        let recording = CommandBuffer::record(buffer);
        recording.bound.constants(offset, values);
        // They are draws', too.
        recording.stale |= stale::BOUND;
    }
}

unsafe extern "system" fn dispatch(buffer: vk::CommandBuffer, x: u32, y: u32, z: u32) {
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.dispatch(0, [0; 3], [x, y, z]);
}

unsafe extern "system" fn dispatch_base(
    buffer: vk::CommandBuffer,
    base_x: u32,
    base_y: u32,
    base_z: u32,
    x: u32,
    y: u32,
    z: u32,
) {
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.dispatch(0, [base_x, base_y, base_z], [x, y, z]);
}

unsafe extern "system" fn dispatch_indirect(
    buffer: vk::CommandBuffer,
    groups: vk::Buffer,
    offset: vk::DeviceSize,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let address = handle::get::<Buffer>(groups.as_raw()).address() + offset;
        CommandBuffer::record(buffer).dispatch(address, [0; 3], [0; 3]);
    }
}

crate::entry::entry_points! {
    vkCmdBindPipeline = bind_pipeline,
    vkCmdBindDescriptorSets = bind_sets,
    vkCmdPushConstants = push_constants,
    vkCmdDispatch = dispatch,
    vkCmdDispatchBase = dispatch_base,
    vkCmdDispatchBaseKHR = dispatch_base,
    vkCmdDispatchIndirect = dispatch_indirect,
}
