// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "programs call entry points by pointers")]

//! Names of objects, which messages have; and tags and labels for tools, which nobody here reads.

use crate::attached;
use ash::vk;
use std::ffi::{CStr, CString};

unsafe extern "system" fn name(
    _device: vk::Device,
    information: *const vk::DebugUtilsObjectNameInfoEXT<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it: the name is null or a text.
    let (object, name) = unsafe {
        let vk::DebugUtilsObjectNameInfoEXT { object_handle, p_object_name, .. } = *information;
        let name = p_object_name.as_ref().map(|name| CStr::from_ptr(name).to_owned());
        (object_handle, name)
    };
    attached::set_name(object, name.unwrap_or_else(CString::default));
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
