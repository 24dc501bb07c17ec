// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Views of images: descriptions in memory that the host reads.

use super::description::range_of_view;
use super::object::Image;
use super::targets;
use crate::device::Device;
use crate::numbered::Numbered;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::{Image as Description, ImageView};

/// A view of an image as the host reads it. `usage` is what it is used for, if that is not what its image is.
fn describe(
    serial: u64,
    image: Description,
    information: &vk::ImageViewCreateInfo<'_>,
    usage: Option<vk::ImageUsageFlags>,
) -> ImageView {
    let vk::ComponentMapping { r, g, b, a } = information.components;
    ImageView {
        serial,
        kind: information.view_type.as_raw() as u32,
        format: information.format.as_raw() as u32,
        components: [r, g, b, a].map(|component| component.as_raw() as u32),
        range: range_of_view(&image, information.view_type, &information.subresource_range),
        usage: usage.map_or(image.usage, |usage| usage.as_raw()),
        image,
        reserved: 0,
    }
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::ImageViewCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    view: *mut vk::ImageView,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it: the image is bound to memory.
    unsafe {
        let (device, information) = (Device::get(device), &*information);
        let usage = raw::find::<vk::ImageViewUsageCreateInfo<'_>>(information.p_next);
        let usage = usage.map(|view| view.usage);
        let image = Image::get(information.image);
        let bound = image.bound();
        let image = image.description();
        let serial = device.next_serial();
        let description = describe(serial, image, information, usage);
        match Numbered::new(&device.heap, serial, &description) {
            Ok(made) => {
                if device.gpus.alternate() {
                    targets::note(made.address(), &image, bound);
                }
                *view = vk::ImageView::from_raw(handle::create(made));
            }
            Err(error) => return error,
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    device: vk::Device,
    view: vk::ImageView,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe {
        if !view.is_null() && Device::get(device).gpus.alternate() {
            targets::forget(handle::get::<Numbered>(view.as_raw()).address());
        }
        handle::destroy::<Numbered>(view.as_raw());
    }
}

crate::entry::entry_points! {
    vkCreateImageView = create,
    vkDestroyImageView = destroy,
}

#[cfg(test)]
mod tests {
    use super::super::description::tests::image;
    use super::*;

    #[test]
    fn a_view_is_described_with_its_image() {
        let image = Description { address: 0x4000, size: 65536, ..image() };
        let part = vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            base_mip_level: 1,
            level_count: vk::REMAINING_MIP_LEVELS,
            base_array_layer: 0,
            layer_count: 6,
        };
        let components =
            vk::ComponentMapping { a: vk::ComponentSwizzle::ONE, ..Default::default() };
        let information = vk::ImageViewCreateInfo::default()
            .view_type(vk::ImageViewType::CUBE)
            .format(vk::Format::R8G8B8A8_SRGB)
            .components(components)
            .subresource_range(part);
        let view = describe(9, image, &information, None);
        assert_eq!((view.serial, view.image, view.usage), (9, image, image.usage));
        assert_eq!((view.kind, view.format, view.components), (3, 43, [0, 0, 0, 2]));
        assert_eq!((view.range.level, view.range.levels), (1, 4));
        assert_eq!((view.range.layer, view.range.layers), (0, 6));
        let less = describe(9, image, &information, Some(vk::ImageUsageFlags::SAMPLED));
        assert_eq!(less, ImageView { usage: 4, ..view });
    }
}
