// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Secondary command buffers, device masks, and labels, which nobody reads.

use super::buffer::CommandBuffer;
use crate::device::DeviceMask;
use crate::raw;
use ash::vk;

unsafe extern "system" fn execute(
    buffer: vk::CommandBuffer,
    count: u32,
    others: *const vk::CommandBuffer,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it: the others are secondary ones, which have ended.
    unsafe {
        let recording = CommandBuffer::record(buffer);
        for other in raw::slice(others, count) {
            recording.execute(CommandBuffer::other(*other));
        }
    }
}

unsafe extern "system" fn set_device_mask(buffer: vk::CommandBuffer, mask: u32) {
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.set_devices(mask as DeviceMask);
}

unsafe extern "system" fn label(
    _buffer: vk::CommandBuffer,
    _label: *const vk::DebugUtilsLabelEXT<'_>,
) {
}

unsafe extern "system" fn end_label(_buffer: vk::CommandBuffer) {}

crate::entry::entry_points! {
    vkCmdExecuteCommands = execute,
    vkCmdSetDeviceMask = set_device_mask,
    vkCmdSetDeviceMaskKHR = set_device_mask,
    vkCmdBeginDebugUtilsLabelEXT = label,
    vkCmdInsertDebugUtilsLabelEXT = label,
    vkCmdEndDebugUtilsLabelEXT = end_label,
}
