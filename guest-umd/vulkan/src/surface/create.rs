// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Creates surfaces and destroys them.

use super::display::Monitor;
use super::object::Surface;
use super::screen::Headless;
use super::x11::Window;
use crate::handle;
use ash::vk::{self, Handle as _};

unsafe extern "system" fn create_headless(
    _instance: vk::Instance,
    _information: *const vk::HeadlessSurfaceCreateInfoEXT<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    surface: *mut vk::SurfaceKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *surface = Surface::create(Headless) };
    vk::Result::SUCCESS
}

unsafe extern "system" fn create_of_display(
    _instance: vk::Instance,
    information: *const vk::DisplaySurfaceCreateInfoKHR<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    surface: *mut vk::SurfaceKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let vk::DisplaySurfaceCreateInfoKHR { display_mode, plane_index, .. } = *information;
        match Monitor::open(display_mode, plane_index) {
            Some(monitor) => *surface = Surface::create(monitor),
            None => return vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        }
    }
    vk::Result::SUCCESS
}

/// Makes a surface of a window.
///
/// # Safety
/// The place is valid.
unsafe fn put(window: Option<Window>, surface: *mut vk::SurfaceKHR) -> vk::Result {
    match window {
        // SAFETY: the caller says that it is valid.
        Some(window) => unsafe { *surface = Surface::create(window) },
        None => return vk::Result::ERROR_OUT_OF_HOST_MEMORY,
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn create_xcb(
    _instance: vk::Instance,
    information: *const vk::XcbSurfaceCreateInfoKHR<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    surface: *mut vk::SurfaceKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it: a connection that lives longer than the surface, and a
    // window of it.
    unsafe {
        let vk::XcbSurfaceCreateInfoKHR { connection, window, .. } = *information;
        put(Window::of_xcb(connection.cast(), window), surface)
    }
}

unsafe extern "system" fn create_xlib(
    _instance: vk::Instance,
    information: *const vk::XlibSurfaceCreateInfoKHR<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    surface: *mut vk::SurfaceKHR,
) -> vk::Result {
    // SAFETY: as in `create_xcb`, with Xlib's display.
    unsafe {
        let vk::XlibSurfaceCreateInfoKHR { dpy, window, .. } = *information;
        put(Window::of_xlib(dpy.cast(), window as u32), surface)
    }
}

unsafe extern "system" fn destroy(
    _instance: vk::Instance,
    surface: vk::SurfaceKHR,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once, after its swap chains.
    unsafe { handle::destroy::<Surface>(surface.as_raw()) };
}

crate::entry::entry_points! {
    vkCreateHeadlessSurfaceEXT = create_headless,
    vkCreateDisplayPlaneSurfaceKHR = create_of_display,
    vkCreateXcbSurfaceKHR = create_xcb,
    vkCreateXlibSurfaceKHR = create_xlib,
    vkDestroySurfaceKHR = destroy,
}
