// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands that begin and end render passes and renderings.

use super::super::buffer::CommandBuffer;
use super::super::drawn::Instance;
use super::super::recording::Recording;
use crate::rendering::{Framebuffer, OfGroup, RenderPass, Rendering, begin_dynamic, views};
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::sync::Arc;

impl Recording {
    /// Begins a render pass with its first subpass.
    fn begin_pass(&mut self, instance: Instance) {
        if instance.pass.waits_before {
            self.barrier();
        }
        self.begin_rendering(instance.rendering(), Some(instance));
    }

    /// Goes on with the next subpass, which waits for the one before.
    fn next_subpass(&mut self) {
        let Some(instance) = self.end_rendering() else { return };
        let instance = Instance { index: instance.index.saturating_add(1), ..instance };
        self.barrier();
        self.begin_rendering(instance.rendering(), Some(instance));
    }

    /// Ends a render pass.
    fn end_pass(&mut self) {
        if self.end_rendering().is_some_and(|instance| instance.pass.waits_after) {
            self.barrier();
        }
        self.end_divided();
    }

    /// Begins a rendering that is of no render pass. One that was suspended waits for what was before it.
    fn begin_plain(&mut self, rendering: Rendering, is_resumed: bool) {
        if is_resumed {
            self.barrier();
        }
        self.begin_rendering(rendering, None);
    }
}

/// The render pass that a structure begins.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn instance(information: &vk::RenderPassBeginInfo<'_>) -> Instance {
    type Attachments<'a> = vk::RenderPassAttachmentBeginInfo<'a>;
    // SAFETY: a valid structure's chain, pointers and handles are. Whatever numbers a value has are bits.
    unsafe {
        let pass = handle::get::<Arc<RenderPass>>(information.render_pass.as_raw());
        let framebuffer = handle::get::<Framebuffer>(information.framebuffer.as_raw());
        let named = raw::find::<Attachments<'_>>(information.p_next);
        let views = match named.filter(|named| named.attachment_count > 0) {
            Some(named) => views(named.p_attachments, named.attachment_count),
            None => framebuffer.views.clone(),
        };
        let clears = raw::slice(information.p_clear_values, information.clear_value_count);
        Instance {
            pass: Arc::clone(pass),
            index: 0,
            views,
            clears: clears.iter().map(|clear| clear.color.uint32).collect(),
            area: information.render_area,
            layers: framebuffer.layers,
        }
    }
}

unsafe extern "system" fn begin_pass(
    buffer: vk::CommandBuffer,
    information: *const vk::RenderPassBeginInfo<'_>,
    _contents: vk::SubpassContents,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let recording = CommandBuffer::record(buffer);
        recording.begin_divided(OfGroup::of((*information).p_next));
        recording.begin_pass(instance(&*information));
    }
}

unsafe extern "system" fn begin_pass_2(
    buffer: vk::CommandBuffer,
    information: *const vk::RenderPassBeginInfo<'_>,
    _subpass: *const vk::SubpassBeginInfo<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let recording = CommandBuffer::record(buffer);
        recording.begin_divided(OfGroup::of((*information).p_next));
        recording.begin_pass(instance(&*information));
    }
}

unsafe extern "system" fn next_subpass(buffer: vk::CommandBuffer, _contents: vk::SubpassContents) {
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.next_subpass();
}

unsafe extern "system" fn next_subpass_2(
    buffer: vk::CommandBuffer,
    _begin: *const vk::SubpassBeginInfo<'_>,
    _end: *const vk::SubpassEndInfo<'_>,
) {
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.next_subpass();
}

unsafe extern "system" fn end_pass(buffer: vk::CommandBuffer) {
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.end_pass();
}

unsafe extern "system" fn end_pass_2(
    buffer: vk::CommandBuffer,
    _end: *const vk::SubpassEndInfo<'_>,
) {
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.end_pass();
}

unsafe extern "system" fn begin(
    buffer: vk::CommandBuffer,
    information: *const vk::RenderingInfo<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let is_resumed = (*information).flags.contains(vk::RenderingFlags::RESUMING);
        let recording = CommandBuffer::record(buffer);
        recording.begin_divided(OfGroup::of((*information).p_next));
        recording.begin_plain(begin_dynamic(&*information), is_resumed);
    }
}

unsafe extern "system" fn end(buffer: vk::CommandBuffer) {
    // SAFETY: the call is the only one with this handle.
    let recording = unsafe { CommandBuffer::record(buffer) };
    let _ = recording.end_rendering();
    recording.end_divided();
}

crate::entry::entry_points! {
    vkCmdBeginRenderPass = begin_pass,
    vkCmdBeginRenderPass2 = begin_pass_2,
    vkCmdBeginRenderPass2KHR = begin_pass_2,
    vkCmdNextSubpass = next_subpass,
    vkCmdNextSubpass2 = next_subpass_2,
    vkCmdNextSubpass2KHR = next_subpass_2,
    vkCmdEndRenderPass = end_pass,
    vkCmdEndRenderPass2 = end_pass_2,
    vkCmdEndRenderPass2KHR = end_pass_2,
    vkCmdBeginRendering = begin,
    vkCmdBeginRenderingKHR = begin,
    vkCmdEndRendering = end,
    vkCmdEndRenderingKHR = end,
}

#[cfg(test)]
mod tests;
