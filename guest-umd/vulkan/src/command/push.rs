// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands that push descriptors.

use super::buffer::CommandBuffer;
use super::pushed::Pushed;
use crate::descriptor::{Template, write};
use crate::pipeline::PipelineLayout;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::ffi::c_void;

unsafe extern "system" fn push_set(
    buffer: vk::CommandBuffer,
    point: vk::PipelineBindPoint,
    layout: vk::PipelineLayout,
    set: u32,
    count: u32,
    writes: *const vk::WriteDescriptorSet<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let Some(layout) = handle::get::<PipelineLayout>(layout.as_raw()).set(set) else { return };
        let write_all = |pushed: &mut Pushed| {
            for change in raw::slice(writes, count) {
                write(&mut *pushed, change);
            }
        };
        let recording = CommandBuffer::record(buffer);
        if point == vk::PipelineBindPoint::GRAPHICS {
            recording.push_graphics_set(set, layout, write_all);
        } else {
            recording.push_set(set, layout, write_all);
        }
    }
}

unsafe extern "system" fn push_set_with_template(
    buffer: vk::CommandBuffer,
    template: vk::DescriptorUpdateTemplate,
    layout: vk::PipelineLayout,
    set: u32,
    data: *const c_void,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let Some(layout) = handle::get::<PipelineLayout>(layout.as_raw()).set(set) else { return };
        let template = handle::get::<Template>(template.as_raw());
        let recording = CommandBuffer::record(buffer);
        let write_all = |pushed: &mut Pushed| template.apply(pushed, data);
        if template.is_for_graphics() {
            recording.push_graphics_set(set, layout, write_all);
        } else {
            recording.push_set(set, layout, write_all);
        }
    }
}

crate::entry::entry_points! {
    vkCmdPushDescriptorSetKHR = push_set,
    vkCmdPushDescriptorSetWithTemplateKHR = push_set_with_template,
}
