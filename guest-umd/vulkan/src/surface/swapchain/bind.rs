// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Binds images: to memory, or to the place of a swap chain's image.

use super::object::Swapchain;
use crate::image::Image;
use crate::memory::Memory;
use crate::raw;
use ash::vk::{self, Handle as _};

unsafe extern "system" fn bind(
    _device: vk::Device,
    count: u32,
    information: *const vk::BindImageMemoryInfo<'_>,
) -> vk::Result {
    type Place<'a> = vk::BindImageMemorySwapchainInfoKHR<'a>;
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        for one in raw::slice(information, count) {
            let image = Image::get(one.image);
            let place = raw::find::<Place<'_>>(one.p_next);
            match place.filter(|place| !place.swapchain.is_null()) {
                Some(place) => {
                    Swapchain::get(place.swapchain).images.bind(image, place.image_index)
                }
                None => image.bind_to(Memory::get(one.memory), one.memory_offset),
            }
        }
    }
    vk::Result::SUCCESS
}

crate::entry::entry_points! {
    vkBindImageMemory2 = bind,
    vkBindImageMemory2KHR = bind,
}
