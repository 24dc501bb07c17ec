// SPDX-License-Identifier: MIT OR Apache-2.0

//! Views of images: what Vulkan and a device allow of them.

use super::copies::check_range;
use super::description::{extent_of, has, texel};
use crate::vulkan::Bounds;
use ash::vk::{
    ComponentSwizzle, FormatFeatureFlags, ImageCreateFlags, ImageUsageFlags, ImageViewType,
};
use bellhop_protocol::vulkan::{DescriptorKind, Image, ImageKind, ImageView};

/// The numbers of the three dimensions, cubes and arrays end here.
const KINDS: u32 = 7;
/// Faces of a cube.
const FACES: u32 = 6;
/// Red, green, blue and alpha are what a view may take a component from; before them are the component itself, 0 and 1.
const COMPONENTS: u32 = 7;
/// What views are for.
const VIEWED: ImageUsageFlags = ImageUsageFlags::from_raw(
    ImageUsageFlags::SAMPLED.as_raw()
        | ImageUsageFlags::STORAGE.as_raw()
        | ImageUsageFlags::COLOR_ATTACHMENT.as_raw()
        | ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT.as_raw()
        | ImageUsageFlags::INPUT_ATTACHMENT.as_raw(),
);

/// Checks a view, whose image has been checked, for a descriptor of a kind.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_view(
    view: &ImageView,
    of: DescriptorKind,
    bounds: &Bounds,
) -> Result<(), &'static str> {
    check(view, bounds)?;
    if !view.range.aspect.is_power_of_two() {
        return Err("a view of several aspects, in a descriptor");
    }
    let (usage, lacks) = match of {
        DescriptorKind::STORAGE_IMAGE => {
            (ImageUsageFlags::STORAGE, "a view that is not for storage, in its descriptor")
        }
        DescriptorKind::INPUT_ATTACHMENT => (
            ImageUsageFlags::INPUT_ATTACHMENT,
            "a view that is not for attachments that are read, in their descriptor",
        ),
        _ => (ImageUsageFlags::SAMPLED, "a view that is not for samplers, in their descriptor"),
    };
    if !ImageUsageFlags::from_raw(view.usage).contains(usage) {
        return Err(lacks);
    }
    if usage == ImageUsageFlags::SAMPLED { Ok(()) } else { check_order(view) }
}

/// Checks a view, whose image has been checked, for an attachment of a rendering, which uses it so.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_attached(
    view: &ImageView,
    usage: ImageUsageFlags,
    bounds: &Bounds,
) -> Result<(), &'static str> {
    check(view, bounds)?;
    if !ImageUsageFlags::from_raw(view.usage).contains(usage) {
        return Err("a view that is not for such an attachment");
    }
    let kind = ImageViewType::from_raw(view.kind as i32);
    if view.range.levels != 1 || kind == ImageViewType::TYPE_3D {
        return Err("an attachment of several levels, or of three dimensions");
    }
    check_order(view)
}

/// Checks that a view shows components as they are.
fn check_order(view: &ImageView) -> Result<(), &'static str> {
    let is_itself = |(own, component): (u32, &u32)| {
        ComponentSwizzle::from_raw(*component as i32) == ComponentSwizzle::IDENTITY
            || *component == own
    };
    let own = ComponentSwizzle::R.as_raw() as u32..;
    if own.zip(&view.components).all(is_itself) {
        Ok(())
    } else {
        Err("a view with components in another order, for what takes none")
    }
}

/// Checks a view for anything.
fn check(view: &ImageView, bounds: &Bounds) -> Result<(), &'static str> {
    let ImageView { image, components, .. } = view;
    if view.reserved != 0 {
        return Err("a view with a reserved field that is not 0");
    }
    check_kind(view, bounds)?;
    check_format(view)?;
    if components.iter().any(|component| *component >= COMPONENTS) {
        return Err("a view with an unknown component");
    }
    let usage = ImageUsageFlags::from_raw(view.usage);
    if view.usage & !image.usage != 0 || !usage.intersects(VIEWED) {
        return Err("a view for what its image is not for, or not for shaders or attachments");
    }
    let features = bounds.formats.of_images(view.format, image.tiling);
    let (color, depth) =
        (FormatFeatureFlags::COLOR_ATTACHMENT, FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT);
    for (usage, feature) in [
        (ImageUsageFlags::SAMPLED, FormatFeatureFlags::SAMPLED_IMAGE),
        (ImageUsageFlags::STORAGE, FormatFeatureFlags::STORAGE_IMAGE),
        (ImageUsageFlags::COLOR_ATTACHMENT, color),
        (ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT, depth),
        (ImageUsageFlags::INPUT_ATTACHMENT, color | depth),
    ] {
        if ImageUsageFlags::from_raw(view.usage).contains(usage) && !features.intersects(feature) {
            return Err("a view for what the device does not do with its format");
        }
    }
    Ok(())
}

/// Checks the view's kind, and what it reaches.
fn check_kind(view: &ImageView, bounds: &Bounds) -> Result<(), &'static str> {
    let ImageView { image, kind, range, .. } = view;
    if *kind >= KINDS {
        return Err("a view of an unknown kind");
    }
    let kind = ImageViewType::from_raw(*kind as i32);
    let has_flag = match (image.kind, kind) {
        (ImageKind::ONE, ImageViewType::TYPE_1D | ImageViewType::TYPE_1D_ARRAY)
        | (ImageKind::TWO, ImageViewType::TYPE_2D | ImageViewType::TYPE_2D_ARRAY)
        | (ImageKind::THREE, ImageViewType::TYPE_3D) => true,
        (ImageKind::TWO, ImageViewType::CUBE) => has(image, ImageCreateFlags::CUBE_COMPATIBLE),
        (ImageKind::TWO, ImageViewType::CUBE_ARRAY) => {
            bounds.cube_arrays && has(image, ImageCreateFlags::CUBE_COMPATIBLE)
        }
        (ImageKind::THREE, ImageViewType::TYPE_2D | ImageViewType::TYPE_2D_ARRAY) => {
            has(image, ImageCreateFlags::TYPE_2D_ARRAY_COMPATIBLE)
        }
        _ => false,
    };
    if !has_flag {
        return Err("a view of a kind that its image does not have");
    }
    let is_of_planes = image.kind == ImageKind::THREE && kind != ImageViewType::TYPE_3D;
    let [.., planes] = extent_of(image, range.level);
    check_range(range, image, if is_of_planes { planes } else { image.layers })?;
    let fits = match kind {
        ImageViewType::CUBE => range.layers == FACES,
        ImageViewType::CUBE_ARRAY => range.layers.is_multiple_of(FACES),
        ImageViewType::TYPE_1D_ARRAY | ImageViewType::TYPE_2D_ARRAY => true,
        _ => range.layers == 1,
    };
    if !fits || (is_of_planes && range.levels != 1) {
        return Err("a view of an impossible number of layers or levels");
    }
    Ok(())
}

/// Checks the view's format against the image's.
fn check_format(view: &ImageView) -> Result<(), &'static str> {
    let ImageView { image, format, range, .. } = view;
    if *format == image.format {
        return Ok(());
    }
    if !has(image, ImageCreateFlags::MUTABLE_FORMAT) {
        return Err("a view of another format than its image's, which stays");
    }
    let (own, other) = (texel(*format)?, texel(image.format)?);
    // Compressed formats are alike in pairs: numbers, and sRGB or with a sign.
    let is_pair = format.div_ceil(2) == image.format.div_ceil(2);
    let are_alike = match (own.width > 1, other.width > 1) {
        (false, false) => own.bytes == other.bytes,
        (true, true) => own == other && is_pair,
        (false, true) => own.bytes == other.bytes && shows_blocks(image, view),
        (true, false) => false,
    };
    let are_one = range.levels == 1 && range.layers == 1;
    if !are_alike || (own.width != other.width && !are_one) {
        return Err("a view of a format that is not like its image's");
    }
    Ok(())
}

/// Whether an image lets a view see its blocks as texels.
fn shows_blocks(image: &Image, view: &ImageView) -> bool {
    has(image, ImageCreateFlags::BLOCK_TEXEL_VIEW_COMPATIBLE)
        && view.kind != ImageViewType::TYPE_3D.as_raw() as u32
}
