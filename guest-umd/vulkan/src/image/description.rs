// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host is told of images, and of parts of them.

use ash::vk;
use bellhop_protocol::vulkan::{Image, ImageKind, Layers, Range, Tiling};

/// An image that a program asks for, without address and size, whose stencils are also for `stencil_usage`. Which formats its
/// views may have changes nothing: the flags have it.
pub(super) fn describe(
    information: &vk::ImageCreateInfo<'_>,
    stencil_usage: vk::ImageUsageFlags,
) -> Image {
    let vk::Extent3D { width, height, depth } = information.extent;
    // Whichever GPU's part is bound to whichever GPU's memory, that is one.
    let flags = information.flags & !vk::ImageCreateFlags::SPLIT_INSTANCE_BIND_REGIONS;
    Image {
        address: 0,
        size: 0,
        format: information.format.as_raw() as u32,
        kind: ImageKind(information.image_type.as_raw() as u32),
        tiling: Tiling(information.tiling.as_raw() as u32),
        usage: (information.usage | stencil_usage).as_raw(),
        flags: flags.as_raw(),
        samples: information.samples.as_raw(),
        extent: [width, height, depth],
        levels: information.mip_levels,
        layers: information.array_layers,
        reserved: 0,
    }
}

/// A count, or what is left of `all` from `first` on (`VK_REMAINING_...`).
const fn count(count: u32, first: u32, all: u32) -> u32 {
    const { assert!(vk::REMAINING_ARRAY_LAYERS == vk::REMAINING_MIP_LEVELS) };
    if count == vk::REMAINING_ARRAY_LAYERS { all.saturating_sub(first) } else { count }
}

/// Layers that a copy reads or writes.
pub(crate) fn layers(image: &Image, layers: &vk::ImageSubresourceLayers) -> Layers {
    Layers {
        aspect: layers.aspect_mask.as_raw(),
        level: layers.mip_level,
        first: layers.base_array_layer,
        count: count(layers.layer_count, layers.base_array_layer, image.layers),
    }
}

/// What a clear reaches.
pub(crate) fn range(image: &Image, range: &vk::ImageSubresourceRange) -> Range {
    Range {
        aspect: range.aspect_mask.as_raw(),
        level: range.base_mip_level,
        levels: count(range.level_count, range.base_mip_level, image.levels),
        layer: range.base_array_layer,
        layers: count(range.layer_count, range.base_array_layer, image.layers),
        reserved: 0,
    }
}

/// What a view reaches. The layers of a flat view of an image with planes are these.
pub(super) fn range_of_view(
    image: &Image,
    kind: vk::ImageViewType,
    part: &vk::ImageSubresourceRange,
) -> Range {
    let is_flat = matches!(kind, vk::ImageViewType::TYPE_2D | vk::ImageViewType::TYPE_2D_ARRAY);
    let [_, _, depth] = image.extent;
    let layers = match image.kind {
        ImageKind::THREE if is_flat => depth.checked_shr(part.base_mip_level).unwrap_or(0).max(1),
        _ => image.layers,
    };
    range(&Image { layers, ..*image }, part)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An image of 64x32 with 5 levels and 6 layers.
    pub(in super::super) fn image() -> Image {
        let extent = vk::Extent3D { width: 64, height: 32, depth: 1 };
        let information = vk::ImageCreateInfo::default()
            .flags(vk::ImageCreateFlags::CUBE_COMPATIBLE)
            .image_type(vk::ImageType::TYPE_2D)
            .format(vk::Format::R8G8B8A8_UNORM)
            .extent(extent)
            .mip_levels(5)
            .array_layers(6)
            .samples(vk::SampleCountFlags::TYPE_1)
            .tiling(vk::ImageTiling::LINEAR)
            .usage(vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_DST);
        describe(&information, vk::ImageUsageFlags::empty())
    }

    #[test]
    fn an_image_is_described_by_vulkan_s_numbers() {
        let expected = Image {
            address: 0,
            size: 0,
            format: 37,
            kind: ImageKind::TWO,
            tiling: Tiling::LINEAR,
            usage: 0x4 | 0x2,
            flags: 0x10,
            samples: 1,
            extent: [64, 32, 1],
            levels: 5,
            layers: 6,
            reserved: 0,
        };
        assert_eq!(image(), expected);
    }

    #[test]
    fn the_rest_of_an_image_is_a_number() {
        let remaining = vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            base_mip_level: 2,
            level_count: vk::REMAINING_MIP_LEVELS,
            base_array_layer: 1,
            layer_count: vk::REMAINING_ARRAY_LAYERS,
        };
        let reached = range(&image(), &remaining);
        let numbers =
            (reached.aspect, reached.level, reached.levels, reached.layer, reached.layers);
        assert_eq!(numbers, (1, 2, 3, 1, 5));
        let some = vk::ImageSubresourceRange { level_count: 1, layer_count: 2, ..remaining };
        let reached = range(&image(), &some);
        assert_eq!((reached.levels, reached.layers), (1, 2));
        let part = vk::ImageSubresourceLayers {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            mip_level: 3,
            base_array_layer: 4,
            layer_count: vk::REMAINING_ARRAY_LAYERS,
        };
        let expected = Layers { aspect: 1, level: 3, first: 4, count: 2 };
        assert_eq!(layers(&image(), &part), expected);
    }

    #[test]
    fn a_flat_view_has_the_planes_of_its_level_as_layers() {
        let image = Image { kind: ImageKind::THREE, extent: [8, 8, 16], layers: 1, ..image() };
        let remaining = vk::ImageSubresourceRange {
            base_mip_level: 1,
            level_count: 1,
            base_array_layer: 3,
            layer_count: vk::REMAINING_ARRAY_LAYERS,
            ..Default::default()
        };
        let reached = |kind| range_of_view(&image, kind, &remaining).layers;
        assert_eq!(reached(vk::ImageViewType::TYPE_2D_ARRAY), 5);
        let whole = vk::ImageSubresourceRange { base_array_layer: 0, ..remaining };
        assert_eq!(range_of_view(&image, vk::ImageViewType::TYPE_3D, &whole).layers, 1);
    }
}
