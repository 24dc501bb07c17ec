// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands that copy and clear images. Each region is a command of the stream, which waits for no other.

use super::buffer::CommandBuffer;
use super::regions::{
    buffer_region, clear, copy_from_image, copy_image, copy_to_image, image_region,
};
use crate::buffer::Buffer;
use crate::image::Image;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::{Encoded, Image as Description};

/// Records a command between two images for each region: what makes it of their descriptions and the region, and its argument.
///
/// # Safety
/// The handles are those of a call that records.
pub(super) unsafe fn between<R, C: Encoded>(
    buffer: vk::CommandBuffer,
    [source, destination]: [vk::Image; 2],
    regions: impl Iterator<Item = R>,
    argument: u32,
    command: impl Fn(Description, Description, &R) -> C,
) {
    // SAFETY: as the caller says.
    let (recording, source, destination) = unsafe {
        let source = Image::get(source).description();
        (CommandBuffer::record(buffer), source, Image::get(destination).description())
    };
    for region in regions {
        recording.push(argument, command(source, destination, &region), []);
    }
}

/// Records copies from a buffer to an image.
///
/// # Safety
/// The handles are those of a call that records.
unsafe fn copy_to_images(
    buffer: vk::CommandBuffer,
    source: vk::Buffer,
    destination: vk::Image,
    regions: impl Iterator<Item = vk::BufferImageCopy>,
) {
    // SAFETY: as the caller says.
    let (recording, address, image) = unsafe {
        let address = handle::get::<Buffer>(source.as_raw()).address();
        (CommandBuffer::record(buffer), address, Image::get(destination).description())
    };
    for region in regions {
        recording.push(0, copy_to_image(address, image, &region), []);
    }
}

/// Records copies from an image to a buffer.
///
/// # Safety
/// The handles are those of a call that records.
unsafe fn copy_from_images(
    buffer: vk::CommandBuffer,
    source: vk::Image,
    destination: vk::Buffer,
    regions: impl Iterator<Item = vk::BufferImageCopy>,
) {
    // SAFETY: as the caller says.
    let (recording, address, image) = unsafe {
        let address = handle::get::<Buffer>(destination.as_raw()).address();
        (CommandBuffer::record(buffer), address, Image::get(source).description())
    };
    for region in regions {
        recording.push(0, copy_from_image(address, image, &region), []);
    }
}

unsafe extern "system" fn copy(
    buffer: vk::CommandBuffer,
    source: vk::Image,
    _source_layout: vk::ImageLayout,
    destination: vk::Image,
    _destination_layout: vk::ImageLayout,
    count: u32,
    regions: *const vk::ImageCopy,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let regions = raw::slice(regions, count).iter().copied();
        between(buffer, [source, destination], regions, 0, copy_image);
    }
}

unsafe extern "system" fn copy_2(
    buffer: vk::CommandBuffer,
    information: *const vk::CopyImageInfo2<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let vk::CopyImageInfo2 { src_image, dst_image, region_count, p_regions, .. } = *information;
        let regions = raw::slice(p_regions, region_count).iter().map(image_region);
        between(buffer, [src_image, dst_image], regions, 0, copy_image);
    }
}

unsafe extern "system" fn copy_to(
    buffer: vk::CommandBuffer,
    source: vk::Buffer,
    destination: vk::Image,
    _layout: vk::ImageLayout,
    count: u32,
    regions: *const vk::BufferImageCopy,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let regions = raw::slice(regions, count).iter().copied();
        copy_to_images(buffer, source, destination, regions);
    }
}

unsafe extern "system" fn copy_to_2(
    buffer: vk::CommandBuffer,
    information: *const vk::CopyBufferToImageInfo2<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let vk::CopyBufferToImageInfo2 { src_buffer, dst_image, region_count, p_regions, .. } =
            *information;
        let regions = raw::slice(p_regions, region_count).iter().map(buffer_region);
        copy_to_images(buffer, src_buffer, dst_image, regions);
    }
}

unsafe extern "system" fn copy_from(
    buffer: vk::CommandBuffer,
    source: vk::Image,
    _layout: vk::ImageLayout,
    destination: vk::Buffer,
    count: u32,
    regions: *const vk::BufferImageCopy,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let regions = raw::slice(regions, count).iter().copied();
        copy_from_images(buffer, source, destination, regions);
    }
}

unsafe extern "system" fn copy_from_2(
    buffer: vk::CommandBuffer,
    information: *const vk::CopyImageToBufferInfo2<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let vk::CopyImageToBufferInfo2 { src_image, dst_buffer, region_count, p_regions, .. } =
            *information;
        let regions = raw::slice(p_regions, region_count).iter().map(buffer_region);
        copy_from_images(buffer, src_image, dst_buffer, regions);
    }
}

unsafe extern "system" fn clear_color(
    buffer: vk::CommandBuffer,
    image: vk::Image,
    _layout: vk::ImageLayout,
    color: *const vk::ClearColorValue,
    count: u32,
    ranges: *const vk::ImageSubresourceRange,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it. Whatever numbers the color has are bits.
    unsafe {
        let (image, color) = (Image::get(image).description(), (*color).uint32);
        let recording = CommandBuffer::record(buffer);
        for range in raw::slice(ranges, count) {
            recording.push(0, clear(image, color, range), []);
        }
    }
}

crate::entry::entry_points! {
    vkCmdCopyImage = copy,
    vkCmdCopyImage2 = copy_2,
    vkCmdCopyImage2KHR = copy_2,
    vkCmdCopyBufferToImage = copy_to,
    vkCmdCopyBufferToImage2 = copy_to_2,
    vkCmdCopyBufferToImage2KHR = copy_to_2,
    vkCmdCopyImageToBuffer = copy_from,
    vkCmdCopyImageToBuffer2 = copy_from_2,
    vkCmdCopyImageToBuffer2KHR = copy_from_2,
    vkCmdClearColorImage = clear_color,
}
