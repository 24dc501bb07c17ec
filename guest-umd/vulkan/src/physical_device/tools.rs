// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers")]

//! Tools: the driver is none.

use crate::list;
use ash::vk;

unsafe extern "system" fn tools(
    _device: vk::PhysicalDevice,
    count: *mut u32,
    properties: *mut vk::PhysicalDeviceToolProperties<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::copy([], count, properties) }
}

crate::entry::entry_points! {
    vkGetPhysicalDeviceToolProperties = tools,
    vkGetPhysicalDeviceToolPropertiesEXT = tools,
}
