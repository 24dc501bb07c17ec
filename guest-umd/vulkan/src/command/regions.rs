// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host is told of copies and clears of images: a command for each region. In what layout an image is, it needs not
//! know.

use super::stream::HEADER;
use crate::image;
use ash::vk;
use bellhop_protocol::vulkan::{
    ClearImage, CopyImage, CopyImageToMemory, CopyMemoryToImage, Image as Description,
};

/// The first texel of a region, none of whose numbers is negative.
const fn first(offset: vk::Offset3D) -> [u32; 3] {
    [offset.x as u32, offset.y as u32, offset.z as u32]
}

/// Texels of a region.
const fn size(extent: vk::Extent3D) -> [u32; 3] {
    [extent.width, extent.height, extent.depth]
}

/// A copy between images.
pub(super) fn copy_image(
    source: Description,
    destination: Description,
    region: &vk::ImageCopy,
) -> CopyImage {
    CopyImage {
        header: HEADER,
        source,
        destination,
        from: image::layers(&source, &region.src_subresource),
        to: image::layers(&destination, &region.dst_subresource),
        from_offset: first(region.src_offset),
        to_offset: first(region.dst_offset),
        extent: size(region.extent),
        reserved: 0,
    }
}

/// A copy into an image from a buffer at `address`.
pub(super) fn copy_to_image(
    address: u64,
    image: Description,
    region: &vk::BufferImageCopy,
) -> CopyMemoryToImage {
    CopyMemoryToImage {
        header: HEADER,
        address: address + region.buffer_offset,
        image,
        layers: image::layers(&image, &region.image_subresource),
        offset: first(region.image_offset),
        extent: size(region.image_extent),
        row_length: region.buffer_row_length,
        height: region.buffer_image_height,
    }
}

/// A copy out of an image to a buffer at `address`: the same numbers, for the other way.
pub(super) fn copy_from_image(
    address: u64,
    image: Description,
    region: &vk::BufferImageCopy,
) -> CopyImageToMemory {
    let CopyMemoryToImage { header, address, image, layers, offset, extent, row_length, height } =
        copy_to_image(address, image, region);
    CopyImageToMemory { header, address, image, layers, offset, extent, row_length, height }
}

/// A clear of one range.
pub(super) fn clear(
    image: Description,
    color: [u32; 4],
    range: &vk::ImageSubresourceRange,
) -> ClearImage {
    ClearImage { header: HEADER, image, color, range: image::range(&image, range) }
}

/// A region of `vkCmdCopyImage2` as one of `vkCmdCopyImage`.
pub(super) const fn image_region(region: &vk::ImageCopy2<'_>) -> vk::ImageCopy {
    vk::ImageCopy {
        src_subresource: region.src_subresource,
        src_offset: region.src_offset,
        dst_subresource: region.dst_subresource,
        dst_offset: region.dst_offset,
        extent: region.extent,
    }
}

/// A region of the newer copies between buffers and images as one of the older.
pub(super) const fn buffer_region(region: &vk::BufferImageCopy2<'_>) -> vk::BufferImageCopy {
    vk::BufferImageCopy {
        buffer_offset: region.buffer_offset,
        buffer_row_length: region.buffer_row_length,
        buffer_image_height: region.buffer_image_height,
        image_subresource: region.image_subresource,
        image_offset: region.image_offset,
        image_extent: region.image_extent,
    }
}

#[cfg(test)]
mod tests;
