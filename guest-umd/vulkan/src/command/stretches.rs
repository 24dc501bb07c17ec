// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands that stretch images, make one sample of several, and clear depths and stencils. Each region is a command of the stream.

use super::buffer::CommandBuffer;
use super::images::between;
use super::regions::copy_image;
use super::stream::HEADER;
use crate::image::{Image, layers, range};
use crate::raw;
use ash::vk;
use bellhop_protocol::vulkan::{
    BlitImage, ClearDepthStencil, CopyImage, Image as Description, ResolveImage,
};

/// A corner of a region.
const fn corner(offset: &vk::Offset3D) -> [u32; 3] {
    [offset.x as u32, offset.y as u32, offset.z as u32]
}

/// A stretch of one region.
fn blit(source: Description, destination: Description, region: &vk::ImageBlit) -> BlitImage {
    BlitImage {
        header: HEADER,
        source,
        destination,
        from: layers(&source, &region.src_subresource),
        to: layers(&destination, &region.dst_subresource),
        from_corners: region.src_offsets.each_ref().map(corner),
        to_corners: region.dst_offsets.each_ref().map(corner),
    }
}

/// One sample of several, in one region.
fn resolve(
    source: Description,
    destination: Description,
    region: &vk::ImageResolve,
) -> ResolveImage {
    // The numbers are those of a copy.
    let region = vk::ImageCopy {
        src_subresource: region.src_subresource,
        src_offset: region.src_offset,
        dst_subresource: region.dst_subresource,
        dst_offset: region.dst_offset,
        extent: region.extent,
    };
    let CopyImage { header, from, to, from_offset, to_offset, extent, reserved, .. } =
        copy_image(source, destination, &region);
    ResolveImage { header, source, destination, from, to, from_offset, to_offset, extent, reserved }
}

unsafe extern "system" fn blit_1(
    buffer: vk::CommandBuffer,
    source: vk::Image,
    _source_layout: vk::ImageLayout,
    destination: vk::Image,
    _destination_layout: vk::ImageLayout,
    count: u32,
    regions: *const vk::ImageBlit,
    filter: vk::Filter,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let regions = raw::slice(regions, count).iter().copied();
        between(buffer, [source, destination], regions, filter.as_raw() as u32, blit);
    }
}

unsafe extern "system" fn blit_2(
    buffer: vk::CommandBuffer,
    information: *const vk::BlitImageInfo2<'_>,
) {
    let region = |of: &vk::ImageBlit2<'_>| vk::ImageBlit {
        src_subresource: of.src_subresource,
        src_offsets: of.src_offsets,
        dst_subresource: of.dst_subresource,
        dst_offsets: of.dst_offsets,
    };
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let vk::BlitImageInfo2 { src_image, dst_image, region_count, p_regions, filter, .. } =
            *information;
        let regions = raw::slice(p_regions, region_count).iter().map(region);
        between(buffer, [src_image, dst_image], regions, filter.as_raw() as u32, blit);
    }
}

unsafe extern "system" fn resolve_1(
    buffer: vk::CommandBuffer,
    source: vk::Image,
    _source_layout: vk::ImageLayout,
    destination: vk::Image,
    _destination_layout: vk::ImageLayout,
    count: u32,
    regions: *const vk::ImageResolve,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let regions = raw::slice(regions, count).iter().copied();
        between(buffer, [source, destination], regions, 0, resolve);
    }
}

unsafe extern "system" fn resolve_2(
    buffer: vk::CommandBuffer,
    information: *const vk::ResolveImageInfo2<'_>,
) {
    let region = |of: &vk::ImageResolve2<'_>| vk::ImageResolve {
        src_subresource: of.src_subresource,
        src_offset: of.src_offset,
        dst_subresource: of.dst_subresource,
        dst_offset: of.dst_offset,
        extent: of.extent,
    };
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let vk::ResolveImageInfo2 { src_image, dst_image, region_count, p_regions, .. } =
            *information;
        let regions = raw::slice(p_regions, region_count).iter().map(region);
        between(buffer, [src_image, dst_image], regions, 0, resolve);
    }
}

unsafe extern "system" fn clear_depth_stencil(
    buffer: vk::CommandBuffer,
    image: vk::Image,
    _layout: vk::ImageLayout,
    value: *const vk::ClearDepthStencilValue,
    count: u32,
    ranges: *const vk::ImageSubresourceRange,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let (image, value) = (Image::get(image).description(), *value);
        let value = [value.depth.to_bits(), value.stencil];
        let recording = CommandBuffer::record(buffer);
        for of in raw::slice(ranges, count) {
            let range = range(&image, of);
            recording.push(0, ClearDepthStencil { header: HEADER, image, value, range }, []);
        }
    }
}

crate::entry::entry_points! {
    vkCmdBlitImage = blit_1,
    vkCmdBlitImage2 = blit_2,
    vkCmdBlitImage2KHR = blit_2,
    vkCmdResolveImage = resolve_1,
    vkCmdResolveImage2 = resolve_2,
    vkCmdResolveImage2KHR = resolve_2,
    vkCmdClearDepthStencilImage = clear_depth_stencil,
}
