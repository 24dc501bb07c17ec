// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "programs call entry points by pointers")]

//! Names, tags and labels for tools, which the loader passes on: there is nobody here who reads them.

use ash::vk;

unsafe extern "system" fn name(
    _device: vk::Device,
    _information: *const vk::DebugUtilsObjectNameInfoEXT<'_>,
) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn tag(
    _device: vk::Device,
    _information: *const vk::DebugUtilsObjectTagInfoEXT<'_>,
) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn label(
    _queue: vk::Queue,
    _information: *const vk::DebugUtilsLabelEXT<'_>,
) {
}

unsafe extern "system" fn end_label(_queue: vk::Queue) {}

crate::entry::entry_points! {
    vkSetDebugUtilsObjectNameEXT = name,
    vkSetDebugUtilsObjectTagEXT = tag,
    vkQueueBeginDebugUtilsLabelEXT = label,
    vkQueueEndDebugUtilsLabelEXT = end_label,
    vkQueueInsertDebugUtilsLabelEXT = label,
}
