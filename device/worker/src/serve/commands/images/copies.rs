// SPDX-License-Identifier: MIT OR Apache-2.0

//! Copies and clears of images: what Vulkan allows of them on any device.

use super::description::{check_aspects, check_image, is_for, texel, texel_of};
use super::part::Part;
use crate::serve::commands::wrong::Why;
use crate::serve::memory::Memory;
use crate::vulkan::{Region, aspects};
use ash::vk;
use bellhop_protocol::vulkan::{
    ClearDepthStencil, ClearImage, CopyImage, CopyImageToMemory, CopyMemoryToImage, Image,
    ImageKind, Range,
};

pub(super) const SOURCE: vk::ImageUsageFlags = vk::ImageUsageFlags::TRANSFER_SRC;
pub(super) const DESTINATION: vk::ImageUsageFlags = vk::ImageUsageFlags::TRANSFER_DST;
/// Most bytes from a row to the next.
const LONGEST_ROW: u64 = i32::MAX as u64;

/// Checks a copy between images.
///
/// # Errors
/// What is wrong with it.
pub fn check_copy(copy: &CopyImage, memory: &Memory) -> Result<(), Why> {
    let (source, destination) = (&copy.source, &copy.destination);
    check_image(source, memory)?;
    check_image(destination, memory)?;
    if copy.reserved != 0 {
        return Err("a copy with a reserved field that is not 0".into());
    }
    if !is_for(source, SOURCE) || !is_for(destination, DESTINATION) {
        return Err("a copy between images that are not for copies".into());
    }
    if copy.from.aspect != copy.to.aspect {
        return Err("a copy between different aspects".into());
    }
    let are_alike = match (texel(source.format), texel(destination.format)) {
        (Ok(one), Ok(other)) => one.bytes == other.bytes,
        _ => source.format == destination.format,
    };
    if !are_alike {
        return Err("a copy between texels of different sizes, or of different depths".into());
    }
    if source.samples != destination.samples {
        return Err("a copy between images with different numbers of samples".into());
    }
    let are_alike = source.kind == destination.kind
        || (source.kind != ImageKind::ONE && destination.kind != ImageKind::ONE);
    if !are_alike {
        return Err("a copy between images of different dimensions".into());
    }
    let from = Part { image: source, layers: &copy.from, offset: copy.from_offset };
    let to = Part { image: destination, layers: &copy.to, offset: copy.to_offset };
    // Planes of an image of three dimensions are layers of another.
    let [width, height, depth] = copy.extent;
    if from.planes(depth) != to.planes(depth) {
        return Err("a copy between different numbers of layers".into());
    }
    let depth_in = |image: &Image, other: &Image| {
        let are_layers = image.kind != ImageKind::THREE && other.kind == ImageKind::THREE;
        if are_layers { 1 } else { depth }
    };
    let [columns, rows, _] = from.of_texels([width, height, depth_in(source, destination)])?;
    let blocks = to.of_blocks([columns, rows, depth_in(destination, source)])?;
    if source == destination && from.overlaps(&to, blocks) {
        return Err("a copy within an image between parts that overlap".into());
    }
    Ok(())
}

/// A copy between an image and memory, where texels lie in rows.
pub struct Rows<'c> {
    /// The first byte in memory.
    pub address: u64,
    /// The image.
    pub image: &'c Image,
    /// What is copied.
    pub region: Region,
    /// What the image must be for.
    usage: vk::ImageUsageFlags,
}

/// Both commands have the same fields, and the image is for one of two things.
macro_rules! rows_of {
    ($($command:ty: $usage:expr,)*) => {
        $(impl<'c> From<&'c $command> for Rows<'c> {
            fn from(copy: &'c $command) -> Self {
                let region = Region {
                    layers: copy.layers,
                    offset: copy.offset,
                    extent: copy.extent,
                    row_length: copy.row_length,
                    height: copy.height,
                };
                Self { address: copy.address, image: &copy.image, region, usage: $usage }
            }
        })*
    };
}
rows_of! {
    CopyMemoryToImage: DESTINATION,
    CopyImageToMemory: SOURCE,
}

impl Rows<'_> {
    /// Bytes from the first byte in memory to the end of the last row.
    ///
    /// # Errors
    /// What is wrong with the copy.
    pub fn length(&self) -> Result<u64, &'static str> {
        let Region { ref layers, offset, extent, row_length, height } = self.region;
        let texel = texel_of(self.image.format, layers.aspect)?;
        let part = Part { image: self.image, layers, offset };
        let [columns, rows, depth] = part.of_texels(extent)?;
        let fits = |length: u32, extent: u32, block: u32| {
            length == 0 || (length >= extent && length.is_multiple_of(block))
        };
        if !fits(row_length, extent[0], texel.width) || !fits(height, extent[1], texel.height) {
            return Err("rows in memory that are too short, or of parts of blocks");
        }
        let pitch = |length: u32, block: u32, blocks: u32| {
            u64::from(if length == 0 { blocks } else { length / block })
        };
        let row = pitch(row_length, texel.width, columns) * u64::from(texel.bytes);
        if row > LONGEST_ROW {
            return Err("rows in memory that are too long");
        }
        let last = u64::from(columns) * u64::from(texel.bytes);
        let before = u64::from(part.planes(depth) - 1)
            .checked_mul(pitch(height, texel.height, rows))
            .and_then(|before| before.checked_add(u64::from(rows) - 1))
            .and_then(|before| before.checked_mul(row));
        before.and_then(|before| before.checked_add(last)).ok_or("more bytes than there can be")
    }
}

/// Checks a copy between an image and memory.
///
/// # Errors
/// What is wrong with it.
pub fn check_rows<'c>(copy: impl Into<Rows<'c>>, memory: &Memory) -> Result<(), Why> {
    let rows = copy.into();
    check_image(rows.image, memory)?;
    if !is_for(rows.image, rows.usage) {
        return Err("a copy with an image that is not for copies".into());
    }
    if rows.image.samples != 1 {
        return Err("a copy between memory and an image with several samples".into());
    }
    // A texel of three components is a multiple of one of them, and one of depth or stencil of four bytes, whatever it has.
    let unit = match texel(rows.image.format) {
        Ok(texel) => 1 << texel.bytes.trailing_zeros(),
        Err(_) => 4,
    };
    if !rows.address.is_multiple_of(unit) {
        return Err("texels in memory that are not aligned".into());
    }
    Ok(memory.check(rows.address, rows.length()?)?)
}

/// Checks that an image is cleared.
///
/// # Errors
/// What is wrong with it.
pub fn check_clear(clear: &ClearImage, memory: &Memory) -> Result<(), Why> {
    let ClearImage { image, range, .. } = clear;
    check_image(image, memory)?;
    if !is_for(image, DESTINATION) {
        return Err("an image to clear that is not for it".into());
    }
    if texel(image.format)?.width > 1 {
        return Err("a compressed image to clear".into());
    }
    Ok(check_range(range, image, image.layers)?)
}

/// Checks that depth or stencil of an image are cleared.
///
/// # Errors
/// What is wrong with it.
pub fn check_clear_depth(clear: &ClearDepthStencil, memory: &Memory) -> Result<(), Why> {
    let ClearDepthStencil { image, range, value: [depth, _], .. } = clear;
    check_image(image, memory)?;
    if !is_for(image, DESTINATION) {
        return Err("an image to clear that is not for it".into());
    }
    if aspects(image.format).contains(vk::ImageAspectFlags::COLOR) {
        return Err("a depth for an image that has a colour".into());
    }
    check_depth(*depth)?;
    Ok(check_range(range, image, image.layers)?)
}

/// Checks that the bits of a depth to clear with are one.
///
/// # Errors
/// If they are not.
pub fn check_depth(bits: u32) -> Result<(), &'static str> {
    if (0.0..=1.0).contains(&f32::from_bits(bits)) {
        Ok(())
    } else {
        Err("a depth that is not from 0 to 1")
    }
}

/// Checks which part of an image a view or a clear reaches, of so many layers.
///
/// # Errors
/// What is wrong with it.
pub fn check_range(range: &Range, image: &Image, most: u32) -> Result<(), &'static str> {
    let Range { aspect, level, levels, layer, layers, reserved } = *range;
    if reserved != 0 {
        return Err("a range with a reserved field that is not 0");
    }
    check_aspects(image, aspect)?;
    let is_inside = |first: u32, count: u32, most: u32| {
        count > 0 && first.checked_add(count).is_some_and(|end| end <= most)
    };
    if !is_inside(level, levels, image.levels) || !is_inside(layer, layers, most) {
        return Err("a level or layer that the image does not have");
    }
    Ok(())
}
