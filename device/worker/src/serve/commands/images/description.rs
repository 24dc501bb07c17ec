// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptions of images: what Vulkan allows of them on any device.

use crate::serve::commands::wrong::Why;
use crate::serve::memory::Memory;
use crate::vulkan::aspects;
use ash::vk;
use bellhop_protocol::vulkan::{Image, ImageKind, Texel, Tiling};

/// What images may be used for.
const USAGES: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::SAMPLED.as_raw()
        | vk::ImageUsageFlags::STORAGE.as_raw()
        | vk::ImageUsageFlags::TRANSFER_SRC.as_raw()
        | vk::ImageUsageFlags::TRANSFER_DST.as_raw()
        | ATTACHMENTS.as_raw()
        | TRANSIENT.as_raw(),
);
/// What renderings use images for.
const ATTACHMENTS: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::COLOR_ATTACHMENT.as_raw()
        | vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT.as_raw()
        | vk::ImageUsageFlags::INPUT_ATTACHMENT.as_raw(),
);
const TRANSIENT: vk::ImageUsageFlags = vk::ImageUsageFlags::TRANSIENT_ATTACHMENT;
const MUTABLE: vk::ImageCreateFlags = vk::ImageCreateFlags::MUTABLE_FORMAT;
const CUBE: vk::ImageCreateFlags = vk::ImageCreateFlags::CUBE_COMPATIBLE;
const PLANES: vk::ImageCreateFlags = vk::ImageCreateFlags::TYPE_2D_ARRAY_COMPATIBLE;
const BLOCKS: vk::ImageCreateFlags = vk::ImageCreateFlags::BLOCK_TEXEL_VIEW_COMPATIBLE;
/// How they may be made.
const FLAGS: vk::ImageCreateFlags = vk::ImageCreateFlags::from_raw(
    MUTABLE.as_raw()
        | CUBE.as_raw()
        | PLANES.as_raw()
        | BLOCKS.as_raw()
        | vk::ImageCreateFlags::EXTENDED_USAGE.as_raw()
        | vk::ImageCreateFlags::ALIAS.as_raw(),
);
/// The most samples that Vulkan has a bit for.
const MOST_SAMPLES: u32 = 64;

/// Whether an image was made with a flag.
pub fn has(image: &Image, flag: vk::ImageCreateFlags) -> bool {
    vk::ImageCreateFlags::from_raw(image.flags).contains(flag)
}

/// Whether an image may be used so.
pub fn is_for(image: &Image, usage: vk::ImageUsageFlags) -> bool {
    vk::ImageUsageFlags::from_raw(image.usage).contains(usage)
}

/// The texels of a colour's format, or blocks of them.
pub fn texel(format: u32) -> Result<Texel, &'static str> {
    Texel::of(format).ok_or("a format that is no colour's")
}

/// The texels of an aspect of a format, as they lie in memory, or blocks of them.
pub fn texel_of(format: u32, aspect: u32) -> Result<Texel, &'static str> {
    let of_format = aspects(format);
    let aspect = vk::ImageAspectFlags::from_raw(aspect);
    let is_one = aspect.as_raw().is_power_of_two() && of_format.contains(aspect);
    if !is_one {
        return Err("an aspect that the format does not have, or several");
    }
    let bytes = match (aspect, vk::Format::from_raw(format as i32)) {
        (vk::ImageAspectFlags::COLOR, _) => return texel(format),
        (vk::ImageAspectFlags::STENCIL, _) => 1,
        (_, vk::Format::D16_UNORM | vk::Format::D16_UNORM_S8_UINT) => 2,
        _ => 4,
    };
    Ok(Texel { bytes, width: 1, height: 1 })
}

/// Checks that an aspect is one or several of an image's format.
pub fn check_aspects(image: &Image, aspect: u32) -> Result<(), &'static str> {
    let of_format = aspects(image.format);
    if aspect != 0 && of_format.contains(vk::ImageAspectFlags::from_raw(aspect)) {
        Ok(())
    } else {
        Err("an aspect that the image does not have")
    }
}

/// Texels of a level in each dimension.
pub fn extent_of(image: &Image, level: u32) -> [u32; 3] {
    image.extent.map(|extent| extent.checked_shr(level).unwrap_or_default().max(1))
}

/// Checks what an image is asked about with: format, kind, tiling, usage and flags.
///
/// # Errors
/// The first rule of Vulkan that it breaks.
pub fn check_kind(image: &Image) -> Result<(), &'static str> {
    if aspects(image.format).is_empty() {
        return Err("a format that Vulkan does not know");
    }
    if image.kind.name().is_none() || image.tiling.name().is_none() {
        return Err("an image of an unknown kind or tiling");
    }
    if image.usage == 0 || image.usage & !USAGES.as_raw() != 0 {
        return Err("an image for no use, or for an unknown one");
    }
    let usage = vk::ImageUsageFlags::from_raw(image.usage);
    if usage.contains(TRANSIENT)
        && (!usage.intersects(ATTACHMENTS) || !(ATTACHMENTS | TRANSIENT).contains(usage))
    {
        return Err("an image that renderings alone use, for something else");
    }
    if image.flags & !FLAGS.as_raw() != 0 {
        return Err("an image with an unknown flag");
    }
    if has(image, CUBE) && image.kind != ImageKind::TWO {
        return Err("an image for cubes that has not two dimensions");
    }
    if has(image, PLANES) && image.kind != ImageKind::THREE {
        return Err("an image for views of its planes that has not three dimensions");
    }
    let is_compressed = Texel::of(image.format).is_some_and(|texel| texel.width > 1);
    if has(image, BLOCKS) && !(is_compressed && has(image, MUTABLE)) {
        return Err("an image for views of its blocks that has none, or whose format stays");
    }
    Ok(())
}

/// Checks an image that could be, wherever its memory is.
///
/// # Errors
/// The first rule of Vulkan that it breaks.
pub fn check_shape(image: &Image) -> Result<(), &'static str> {
    check_kind(image)?;
    let Image { extent: [width, height, depth], levels, layers, samples, .. } = *image;
    if image.reserved != 0 {
        return Err("an image with a reserved field that is not 0");
    }
    if !samples.is_power_of_two() || samples > MOST_SAMPLES {
        return Err("an image with an impossible number of samples");
    }
    if [width, height, depth, levels, layers].contains(&0) {
        return Err("an image without a texel");
    }
    if (image.kind == ImageKind::ONE && height != 1)
        || (image.kind != ImageKind::THREE && depth != 1)
    {
        return Err("an image with more dimensions than its kind");
    }
    if image.kind == ImageKind::THREE && layers != 1 {
        return Err("an image of three dimensions with several layers");
    }
    if levels - 1 > width.max(height).max(depth).ilog2() {
        return Err("an image with more levels than there can be");
    }
    if has(image, CUBE) && (width != height || layers < 6) {
        return Err("an image for cubes that has none");
    }
    let can_have_samples = image.kind == ImageKind::TWO
        && image.tiling == Tiling::OPTIMAL
        && levels == 1
        && !has(image, CUBE);
    if samples > 1 && !can_have_samples {
        return Err("an image with several samples that cannot have them");
    }
    Ok(())
}

/// Checks an image in memory.
///
/// # Errors
/// The first rule of Vulkan that it breaks, or that its memory is not in the window.
pub fn check_image(image: &Image, memory: &Memory) -> Result<(), Why> {
    check_shape(image)?;
    Ok(memory.check(image.address, image.size)?)
}
