// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes handles, and synchronises its use of them")]

//! Command buffers.

use super::recording::Recording;
use super::stream::{Chunk, Uses};
use crate::device::{Device, DeviceMask};
use crate::rendering::RenderPass;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::cell::UnsafeCell;
use std::sync::Arc;

/// A command buffer.
pub struct CommandBuffer {
    recording: UnsafeCell<Recording>,
}

impl CommandBuffer {
    /// A command buffer without commands.
    pub(super) fn new(device: &'static Device, level: vk::CommandBufferLevel) -> Self {
        let is_primary = level == vk::CommandBufferLevel::PRIMARY;
        let mut recording = Recording::new(&device.heap, is_primary, device.gpus.mask());
        recording.stream.uses.ask(device.gpus.alternate());
        Self { recording: UnsafeCell::new(recording) }
    }

    /// What is recorded, in the order in which it is to be executed: each chunk by a packet of its own.
    pub fn chunks(&self) -> &[Chunk] {
        self.recorded().chunks()
    }

    /// What they write.
    pub(crate) fn uses(&self) -> &Uses {
        &self.recorded().stream.uses
    }

    /// Says that the commands were submitted.
    pub fn submitted(&self) {
        self.recorded().submitted();
    }

    fn recorded(&self) -> &Recording {
        // SAFETY: who has a shared reference submits it, or executes it in another. A program does not record, reset or
        // free a command buffer meanwhile (Vulkan, "Command Buffer Lifecycle", "Threading Behavior").
        unsafe { &*self.recording.get() }
    }

    /// What a command buffer records.
    ///
    /// # Safety
    /// A call that Vulkan says to access the command buffer as the only one has this handle.
    #[inline]
    pub(super) unsafe fn record<'a>(buffer: vk::CommandBuffer) -> &'a mut Recording {
        // SAFETY: the handle of a call is live, and no other call accesses it now.
        unsafe { &mut *handle::get_dispatchable::<Self>(buffer.as_raw()).recording.get() }
    }

    /// What another command buffer has recorded.
    ///
    /// # Safety
    /// The handle is live, and its recording has ended.
    pub(super) unsafe fn other<'a>(buffer: vk::CommandBuffer) -> &'a Recording {
        // SAFETY: as the caller says.
        unsafe { handle::get_dispatchable::<Self>(buffer.as_raw()).recorded() }
    }
}

/// The mask of views of the rendering that a secondary command buffer is for.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn view_mask(inherited: &vk::CommandBufferInheritanceInfo<'_>) -> u32 {
    type Rendering<'a> = vk::CommandBufferInheritanceRenderingInfo<'a>;
    // SAFETY: a valid structure's chain and handles are.
    unsafe {
        if inherited.render_pass.is_null() {
            let rendering = raw::find::<Rendering<'_>>(inherited.p_next);
            return rendering.map_or(0, |of| of.view_mask);
        }
        let pass = handle::get::<Arc<RenderPass>>(inherited.render_pass.as_raw());
        pass.subpass(inherited.subpass).map_or(0, |subpass| subpass.view_mask)
    }
}

unsafe extern "system" fn begin(
    buffer: vk::CommandBuffer,
    information: *const vk::CommandBufferBeginInfo<'_>,
) -> vk::Result {
    type Group<'a> = vk::DeviceGroupCommandBufferBeginInfo<'a>;
    // SAFETY: what a program passes is valid, as Vulkan demands it, and the call is the only one with this handle.
    unsafe {
        let recording = CommandBuffer::record(buffer);
        recording.reset(false);
        if let Some(group) = raw::find::<Group<'_>>((*information).p_next) {
            recording.set_devices_now(group.device_mask as DeviceMask);
        }
        let goes_on = vk::CommandBufferUsageFlags::RENDER_PASS_CONTINUE;
        // What a primary one passes for this means nothing.
        if !recording.stream.is_primary()
            && (*information).flags.contains(goes_on)
            && let Some(inherited) = (*information).p_inheritance_info.as_ref()
        {
            recording.inherit(view_mask(inherited));
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn end(buffer: vk::CommandBuffer) -> vk::Result {
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.end()
}

unsafe extern "system" fn reset(
    buffer: vk::CommandBuffer,
    flags: vk::CommandBufferResetFlags,
) -> vk::Result {
    let release = flags.contains(vk::CommandBufferResetFlags::RELEASE_RESOURCES);
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.reset(release);
    vk::Result::SUCCESS
}

crate::entry::entry_points! {
    vkBeginCommandBuffer = begin,
    vkEndCommandBuffer = end,
    vkResetCommandBuffer = reset,
}
