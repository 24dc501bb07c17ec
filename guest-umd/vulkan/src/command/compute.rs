// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands that bind what dispatches use, and dispatches.

use super::buffer::CommandBuffer;
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
    if point == vk::PipelineBindPoint::COMPUTE {
        // SAFETY: what a program passes is valid, as Vulkan demands it.
        unsafe {
            CommandBuffer::record(buffer).bind(handle::get::<Pipeline>(pipeline.as_raw()));
        }
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
        return;
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
        CommandBuffer::record(buffer).bound.constants(offset, values);
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
