// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Where parts of linear images are in their memory.

use super::object::Image;
use crate::device::Device;
use ash::vk;
use bellhop_protocol::vulkan::{Image as Description, ImageNeeds, Layers};

/// The place of a part, from what the host says of it.
const fn place(needs: &ImageNeeds) -> vk::SubresourceLayout {
    vk::SubresourceLayout {
        offset: needs.offset,
        size: needs.length,
        row_pitch: needs.row_pitch,
        array_pitch: needs.array_pitch,
        depth_pitch: needs.depth_pitch,
    }
}

unsafe extern "system" fn layout(
    device: vk::Device,
    image: vk::Image,
    part: *const vk::ImageSubresource,
    layout: *mut vk::SubresourceLayout,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let vk::ImageSubresource { aspect_mask, mip_level, array_layer } = *part;
        let layers =
            Layers { aspect: aspect_mask.as_raw(), level: mip_level, first: array_layer, count: 1 };
        // The answer is the same for all images like this one.
        let image = Description { address: 0, size: 0, ..Image::get(image).description() };
        let needs = Device::get(device).gpus.first().image_needs(image, layers);
        // There is a place unless the device is lost.
        *layout = place(&needs.unwrap_or_default());
    }
}

crate::entry::entry_points! {
    vkGetImageSubresourceLayout = layout,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_the_host_s_numbers() {
        let needs = ImageNeeds {
            offset: 1,
            length: 2,
            row_pitch: 3,
            array_pitch: 4,
            depth_pitch: 5,
            ..Default::default()
        };
        let place = place(&needs);
        assert_eq!((place.offset, place.size, place.row_pitch), (1, 2, 3));
        assert_eq!((place.array_pitch, place.depth_pitch), (4, 5));
    }
}
