// SPDX-License-Identifier: MIT OR Apache-2.0

//! Questions about images that could be.

use super::description::{check_kind, check_shape};
use crate::vulkan::Device;
use ash::vk;
use bellhop_protocol::vulkan::{Image, ImageFormat, ImageNeeds, QueryImage, QueryImageFormat};

/// What there can be none of.
const NONE: i32 = vk::Result::ERROR_FORMAT_NOT_SUPPORTED.as_raw();

/// Checks that a question about an image is about none that is somewhere.
///
/// # Errors
/// When it is, or a field is not 0 that must be.
pub fn check_question(image: &Image) -> Result<(), &'static str> {
    if image.address != 0 || image.size != 0 || image.reserved != 0 {
        return Err("a question about an image with an address, a size, or a reserved field");
    }
    Ok(())
}

/// Checks that a question about a kind of images is about no image.
///
/// # Errors
/// When it is, or a field is not 0 that must be.
pub fn check_kind_in_question(image: &Image) -> Result<(), &'static str> {
    let Image { samples, extent: [width, height, depth], levels, layers, .. } = *image;
    if [samples, width, height, depth, levels, layers] != [0; 6] {
        return Err("a question about a kind of images with samples, an extent, levels or layers");
    }
    check_question(image)
}

/// What an image in question needs.
pub fn needs_of(query: &QueryImage, device: &Device<'_>) -> ImageNeeds {
    let none = |result| ImageNeeds { result, ..ImageNeeds::default() };
    if !device.bounds().formats.are_there() || check_shape(&query.image).is_err() {
        return none(NONE);
    }
    let shape = match device.shape(&query.image) {
        Ok(shape) => shape,
        Err(result) => return none(result.as_raw()),
    };
    let place = shape.place(&query.image, &query.layers).unwrap_or_default();
    ImageNeeds {
        result: vk::Result::SUCCESS.as_raw(),
        reserved: 0,
        size: shape.size(),
        alignment: shape.alignment(),
        offset: place.offset,
        length: place.size,
        row_pitch: place.row_pitch,
        array_pitch: place.array_pitch,
        depth_pitch: place.depth_pitch,
    }
}

/// Which images of a kind in question there can be.
pub fn format_of(query: &QueryImageFormat, device: &Device<'_>) -> ImageFormat {
    if !device.bounds().formats.are_there() || check_kind(&query.image).is_err() {
        return ImageFormat { result: NONE, ..ImageFormat::default() };
    }
    device.image_format(&query.image)
}
