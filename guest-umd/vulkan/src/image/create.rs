// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Creates images and destroys them.

use super::description::describe;
use super::object::Image;
use crate::device::Device;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::Image as Description;

/// The image that a program asks for.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
pub(super) unsafe fn asked(information: &vk::ImageCreateInfo<'_>) -> Description {
    type Stencils<'a> = vk::ImageStencilUsageCreateInfo<'a>;
    // SAFETY: a valid structure's chain is.
    let stencils = unsafe { raw::find::<Stencils<'_>>(information.p_next) };
    describe(information, stencils.map(|of| of.stencil_usage).unwrap_or_default())
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::ImageCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    image: *mut vk::Image,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        match Image::new(Device::get(device), asked(&*information)) {
            Ok(made) => *image = vk::Image::from_raw(handle::create(made)),
            Err(error) => return error,
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    image: vk::Image,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Image>(image.as_raw()) };
}

crate::entry::entry_points! {
    vkCreateImage = create,
    vkDestroyImage = destroy,
}
