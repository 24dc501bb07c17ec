// SPDX-License-Identifier: MIT OR Apache-2.0

//! What images are made as, and their parts.

use super::format::{aspects, block};
use ash::vk;

/// What an image is made as.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) kind: vk::ImageType,
    pub(crate) format: vk::Format,
    /// Texels of level 0.
    pub(crate) extent: [u32; 3],
    pub(crate) levels: u32,
    pub(crate) layers: u32,
    pub(crate) tiling: vk::ImageTiling,
    pub(crate) usage: vk::ImageUsageFlags,
    pub(crate) flags: vk::ImageCreateFlags,
    /// Samples of each texel.
    pub(crate) samples: vk::SampleCountFlags,
}

/// What every copy needs.
const COPIED: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);

impl Form {
    /// An image of one level and one layer that is copied alone.
    const fn new(kind: vk::ImageType, format: vk::Format, extent: [u32; 3]) -> Self {
        let flags = vk::ImageCreateFlags::empty();
        let tiling = vk::ImageTiling::OPTIMAL;
        let samples = vk::SampleCountFlags::TYPE_1;
        Self { kind, format, extent, levels: 1, layers: 1, tiling, usage: COPIED, flags, samples }
    }

    /// A row.
    pub(crate) const fn row(format: vk::Format, width: u32) -> Self {
        Self::new(vk::ImageType::TYPE_1D, format, [width, 1, 1])
    }

    /// Rows.
    pub(crate) const fn flat(format: vk::Format, width: u32, height: u32) -> Self {
        Self::new(vk::ImageType::TYPE_2D, format, [width, height, 1])
    }

    /// Planes of rows.
    pub(crate) const fn solid(format: vk::Format, extent: [u32; 3]) -> Self {
        Self::new(vk::ImageType::TYPE_3D, format, extent)
    }

    /// Six faces of a cube, or of several.
    pub(crate) const fn cube(format: vk::Format, width: u32) -> Self {
        let faces = Self::flat(format, width, width).layers(6);
        faces.flags(vk::ImageCreateFlags::CUBE_COMPATIBLE)
    }

    pub(crate) const fn levels(self, levels: u32) -> Self {
        Self { levels, ..self }
    }

    pub(crate) const fn layers(self, layers: u32) -> Self {
        Self { layers, ..self }
    }

    /// Used so too.
    pub(crate) const fn used(self, usage: vk::ImageUsageFlags) -> Self {
        let both = self.usage.as_raw() | usage.as_raw();
        Self { usage: vk::ImageUsageFlags::from_raw(both), ..self }
    }

    pub(crate) const fn storage(self) -> Self {
        self.used(vk::ImageUsageFlags::STORAGE)
    }

    pub(crate) const fn sampled(self) -> Self {
        self.used(vk::ImageUsageFlags::SAMPLED)
    }

    pub(crate) const fn flags(self, flags: vk::ImageCreateFlags) -> Self {
        let both = self.flags.as_raw() | flags.as_raw();
        Self { flags: vk::ImageCreateFlags::from_raw(both), ..self }
    }

    pub(crate) const fn samples(self, samples: vk::SampleCountFlags) -> Self {
        Self { samples, ..self }
    }

    pub(crate) const fn linear(self) -> Self {
        Self { tiling: vk::ImageTiling::LINEAR, ..self }
    }

    /// Texels of a level.
    pub(crate) fn extent_of(&self, level: u32) -> [u32; 3] {
        self.extent.map(|texels| (texels >> level).max(1))
    }

    /// The same, as Vulkan's structure.
    pub(crate) fn extent_3d(&self, level: u32) -> vk::Extent3D {
        let [width, height, depth] = self.extent_of(level);
        vk::Extent3D { width, height, depth }
    }

    /// Bytes of all layers of a level, without gaps.
    pub(crate) fn bytes(&self, level: u32) -> usize {
        let block = block(self.format);
        let blocks = self.extent_of(level).into_iter().zip(block.extent);
        let blocks: u32 = blocks.map(|(texels, of)| texels.div_ceil(of)).product();
        (blocks * block.bytes * self.layers) as usize
    }

    /// All levels and layers.
    pub(crate) fn range(&self) -> vk::ImageSubresourceRange {
        range([0, self.levels], [0, self.layers]).aspect_mask(aspects(self.format))
    }

    /// Layers of a level, from one on.
    pub(crate) fn layers_of(
        &self,
        level: u32,
        first: u32,
        count: u32,
    ) -> vk::ImageSubresourceLayers {
        layers(level, first, count).aspect_mask(aspects(self.format))
    }

    /// A copy of all of a level, whose rows follow each other in a buffer from its beginning.
    pub(crate) fn whole(&self, level: u32) -> vk::BufferImageCopy {
        vk::BufferImageCopy::default()
            .image_subresource(self.layers_of(level, 0, self.layers))
            .image_extent(self.extent_3d(level))
    }

    /// How Vulkan is told.
    pub(crate) fn information(&self) -> vk::ImageCreateInfo<'static> {
        vk::ImageCreateInfo::default()
            .flags(self.flags)
            .image_type(self.kind)
            .format(self.format)
            .extent(self.extent_3d(0))
            .mip_levels(self.levels)
            .array_layers(self.layers)
            .samples(self.samples)
            .tiling(self.tiling)
            .usage(self.usage)
            .sharing_mode(vk::SharingMode::EXCLUSIVE)
            .initial_layout(vk::ImageLayout::UNDEFINED)
    }
}

/// Levels and layers of colours: the first of each, and how many.
pub(crate) fn range(levels: [u32; 2], layers: [u32; 2]) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange::default()
        .aspect_mask(vk::ImageAspectFlags::COLOR)
        .base_mip_level(levels[0])
        .level_count(levels[1])
        .base_array_layer(layers[0])
        .layer_count(layers[1])
}

/// Layers of one level of colours.
pub(crate) fn layers(level: u32, first: u32, count: u32) -> vk::ImageSubresourceLayers {
    vk::ImageSubresourceLayers::default()
        .aspect_mask(vk::ImageAspectFlags::COLOR)
        .mip_level(level)
        .base_array_layer(first)
        .layer_count(count)
}
