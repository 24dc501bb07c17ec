// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes its connection")]

//! Whether windows of a visual can be drawn into.

use super::window::Window;
use ash::vk;
use std::ffi::c_void;

unsafe extern "system" fn of_xcb(
    _device: vk::PhysicalDevice,
    _family: u32,
    connection: *mut c_void,
    visual: u32,
) -> vk::Bool32 {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let window = unsafe { Window::of_xcb(connection, 0) };
    window.is_some_and(|window| window.knows(visual)).into()
}

unsafe extern "system" fn of_xlib(
    _device: vk::PhysicalDevice,
    _family: u32,
    display: *mut c_void,
    visual: std::ffi::c_ulong,
) -> vk::Bool32 {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let window = unsafe { Window::of_xlib(display, 0) };
    window.is_some_and(|window| window.knows(visual as u32)).into()
}

crate::entry::entry_points! {
    vkGetPhysicalDeviceXcbPresentationSupportKHR = of_xcb,
    vkGetPhysicalDeviceXlibPresentationSupportKHR = of_xlib,
}
