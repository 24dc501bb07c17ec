// SPDX-License-Identifier: MIT OR Apache-2.0

//! Blits, and copies that make one sample of several: what Vulkan and a device allow of them.

use super::copies::{DESTINATION, SOURCE};
use super::description::{check_aspects, check_image, extent_of, is_for};
use super::numbers::{Numbers, numbers};
use super::part::Part;
use crate::serve::commands::wrong::Why;
use crate::serve::memory::Memory;
use crate::vulkan::{Formats, aspects};
use ash::vk::{Filter, FormatFeatureFlags, ImageAspectFlags};
use bellhop_protocol::vulkan::{BlitImage, Image, ImageKind, Layers, ResolveImage};

/// `VkFilter`s of Vulkan 1.0 are less.
const FILTERS: u32 = 2;

/// Checks that samples become one.
///
/// # Errors
/// What is wrong with it.
pub fn check_resolve(resolve: &ResolveImage, memory: &Memory) -> Result<(), Why> {
    let ResolveImage { source, destination, from, to, extent, .. } = resolve;
    check_image(source, memory)?;
    check_image(destination, memory)?;
    if resolve.reserved != 0 {
        return Err("a copy with a reserved field that is not 0".into());
    }
    if !is_for(source, SOURCE) || !is_for(destination, DESTINATION) {
        return Err("a copy between images that are not for copies".into());
    }
    if source.samples == 1 || destination.samples != 1 {
        return Err("a resolve that is not from several samples to one".into());
    }
    if source.format != destination.format {
        return Err("a resolve to another format".into());
    }
    let color = ImageAspectFlags::COLOR.as_raw();
    if from.aspect != color || to.aspect != color {
        return Err("a resolve of what is no colour".into());
    }
    let from = Part { image: source, layers: from, offset: resolve.from_offset };
    let to = Part { image: destination, layers: to, offset: resolve.to_offset };
    let [.., depth] = *extent;
    if from.layers.count != to.layers.count || depth != 1 {
        return Err("a copy between different numbers of layers".into());
    }
    from.of_texels(*extent)?;
    to.of_texels(*extent)?;
    Ok(())
}

/// Checks what a device must do with the images of a resolve.
///
/// # Errors
/// When it does not.
pub fn check_resolved(resolve: &ResolveImage, formats: &Formats) -> Result<(), &'static str> {
    let ResolveImage { destination, .. } = resolve;
    let features = formats.of_images(destination.format, destination.tiling);
    if features.contains(FormatFeatureFlags::COLOR_ATTACHMENT) {
        Ok(())
    } else {
        Err("a resolve of a format of which the device has no attachments")
    }
}

/// Two corners of an image's texels.
struct Corners<'c> {
    image: &'c Image,
    layers: &'c Layers,
    corners: [[u32; 3]; 2],
}

impl Corners<'_> {
    fn check(&self) -> Result<(), &'static str> {
        let Layers { aspect, level, first, count } = *self.layers;
        check_aspects(self.image, aspect)?;
        let end = first.checked_add(count).filter(|_| count > 0);
        if level >= self.image.levels || end.is_none_or(|end| end > self.image.layers) {
            return Err("a level or layer that the image does not have");
        }
        let extent = extent_of(self.image, level);
        let is_inside = |corner: &[u32; 3]| corner.iter().zip(extent).all(|(at, most)| *at <= most);
        if !self.corners.iter().all(is_inside) {
            return Err("texels that the image does not have");
        }
        // What an image has no dimension for is all of it.
        let [one, other] = self.corners;
        let has = match self.image.kind {
            ImageKind::ONE => 1,
            ImageKind::TWO => 2,
            _ => 3,
        };
        if (has..3).any(|at| [one[at], other[at]] != [0, 1]) {
            return Err("texels of a dimension that the image does not have");
        }
        Ok(())
    }

    /// The first texel and the one behind the last, by dimension.
    fn range(&self, at: usize) -> [u32; 2] {
        let [one, other] = self.corners;
        [one[at].min(other[at]), one[at].max(other[at])]
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (self.layers, other.layers);
        let in_layers = one.first.abs_diff(two.first) < one.count;
        let is_near = |at| {
            let ([start, end], [other_start, other_end]) = (self.range(at), other.range(at));
            start < other_end && other_start < end
        };
        one.level == two.level && in_layers && (0..3).all(is_near)
    }
}

/// Whether a blit has no texels, on one side at least: it does nothing.
pub fn is_empty(blit: &BlitImage) -> bool {
    let is_flat = |[one, other]: [[u32; 3]; 2]| (0..3).any(|at| one[at] == other[at]);
    is_flat(blit.from_corners) || is_flat(blit.to_corners)
}

/// Checks a blit.
///
/// # Errors
/// What is wrong with it.
pub fn check_blit(blit: &BlitImage, memory: &Memory) -> Result<(), Why> {
    let BlitImage { header, source, destination, from, to, from_corners, to_corners } = blit;
    check_image(source, memory)?;
    check_image(destination, memory)?;
    if !is_for(source, SOURCE) || !is_for(destination, DESTINATION) {
        return Err("a copy between images that are not for copies".into());
    }
    if source.samples != 1 || destination.samples != 1 {
        return Err("a blit of images with several samples".into());
    }
    if header.argument >= FILTERS {
        return Err("a blit with an unknown filter".into());
    }
    check_formats(blit)?;
    if from.aspect != to.aspect {
        return Err("a copy between different aspects".into());
    }
    let has_planes = [source, destination].iter().any(|image| image.kind == ImageKind::THREE);
    if from.count != to.count || (has_planes && [from.first, from.count, to.first] != [0, 1, 0]) {
        return Err("a copy between different numbers of layers".into());
    }
    let from = Corners { image: source, layers: from, corners: *from_corners };
    let to = Corners { image: destination, layers: to, corners: *to_corners };
    from.check()?;
    to.check()?;
    if source == destination && from.overlaps(&to) {
        return Err("a copy within an image between parts that overlap".into());
    }
    Ok(())
}

fn check_formats(blit: &BlitImage) -> Result<(), &'static str> {
    let BlitImage { header, source, destination, .. } = blit;
    let are_colors =
        [source, destination].map(|image| aspects(image.format) == ImageAspectFlags::COLOR);
    let is_nearest = header.argument == Filter::NEAREST.as_raw() as u32;
    if are_colors == [true; 2] {
        let (one, other) = (numbers(source.format), numbers(destination.format));
        if one != other {
            return Err("a blit between integers and other numbers");
        }
        return if is_nearest || one == Numbers::Real {
            Ok(())
        } else {
            Err("a blit of integers that makes one of several")
        };
    }
    if source.format != destination.format {
        return Err("a blit between depths or stencils of different formats");
    }
    if is_nearest { Ok(()) } else { Err("a blit of a depth that makes one of several") }
}

/// Checks what a device must do with the images of a blit.
///
/// # Errors
/// When it does not.
pub fn check_blitted(blit: &BlitImage, formats: &Formats) -> Result<(), &'static str> {
    let BlitImage { header, source, destination, .. } = blit;
    let of = |image: &Image| formats.of_images(image.format, image.tiling);
    let linear = FormatFeatureFlags::SAMPLED_IMAGE_FILTER_LINEAR;
    let is_nearest = header.argument == Filter::NEAREST.as_raw() as u32;
    if !of(source).contains(FormatFeatureFlags::BLIT_SRC)
        || !of(destination).contains(FormatFeatureFlags::BLIT_DST)
        || !(is_nearest || of(source).contains(linear))
    {
        return Err("a blit of a format with which the device does none");
    }
    Ok(())
}
