// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Records what moves texels of images, which are all in Vulkan's layout `GENERAL`.

use super::recorder::LAYOUT;
use super::view::range;
use super::{Binding, Image, Recorder, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan::{BlitImage, CopyImage, Layers, Range, ResolveImage};

/// Texels of an image, and how they lie in memory.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// Their layers.
    pub layers: Layers,
    /// The first texel in the image.
    pub offset: [u32; 3],
    /// Texels in each dimension.
    pub extent: [u32; 3],
    /// Texels from a row to the next in memory, or 0.
    pub row_length: u32,
    /// Rows from a plane or layer to the next in memory, or 0.
    pub height: u32,
}

impl Region {
    /// Vulkan's region of a buffer, where the texels begin at an offset.
    fn at(&self, offset: u64) -> vk::BufferImageCopy {
        vk::BufferImageCopy::default()
            .buffer_offset(offset)
            .buffer_row_length(self.row_length)
            .buffer_image_height(self.height)
            .image_subresource(layers(&self.layers))
            .image_offset(corner(self.offset))
            .image_extent(size(self.extent))
    }
}

impl<'d> Recorder<'d> {
    /// Records a copy between images of this recording. The command's parts are in them, as Vulkan demands.
    pub fn copy_image(&self, copy: &CopyImage, from: &Image<'d>, to: &Image<'d>) {
        let region = [vk::ImageCopy::default()
            .src_subresource(layers(&copy.from))
            .src_offset(corner(copy.from_offset))
            .dst_subresource(layers(&copy.to))
            .dst_offset(corner(copy.to_offset))
            .extent(size(copy.extent))];
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        // SAFETY: the command buffer is being recorded. `self` keeps the images, and the region is in them.
        unsafe { raw.cmd_copy_image(commands, from.raw(), LAYOUT, to.raw(), LAYOUT, &region) };
    }

    /// Records a copy of a range, in which a region's texels lie, into an image of this recording, in which the region is.
    ///
    /// # Errors
    /// When there are too many.
    pub fn copy_to_image(
        &mut self,
        from: &Binding<'d>,
        to: &Image<'d>,
        region: &Region,
    ) -> Result<(), VulkanError> {
        self.keep(from)?;
        let region = [region.at(from.offset)];
        let (raw, commands, buffer) = (&self.device.raw, self.commands.raw, from.memory.buffer);
        // SAFETY: the command buffer is being recorded. `self` keeps buffer and image, and the region is in both.
        unsafe { raw.cmd_copy_buffer_to_image(commands, buffer, to.raw(), LAYOUT, &region) };
        Ok(())
    }

    /// Records the reverse of [`Self::copy_to_image`].
    ///
    /// # Errors
    /// When there are too many.
    pub fn copy_from_image(
        &mut self,
        from: &Image<'d>,
        to: &Binding<'d>,
        region: &Region,
    ) -> Result<(), VulkanError> {
        self.keep(to)?;
        let region = [region.at(to.offset)];
        let (raw, commands, buffer) = (&self.device.raw, self.commands.raw, to.memory.buffer);
        // SAFETY: as in `copy_to_image`.
        unsafe { raw.cmd_copy_image_to_buffer(commands, from.raw(), LAYOUT, buffer, &region) };
        Ok(())
    }

    /// Records that all texels of a range of an image of this recording get a colour. The format is not compressed.
    pub fn clear_image(&self, image: &Image<'d>, color: [u32; 4], of: &Range) {
        let (color, ranges) = (vk::ClearColorValue { uint32: color }, [range(of)]);
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        // SAFETY: the command buffer is being recorded. `self` keeps the image, and the range is in it.
        unsafe { raw.cmd_clear_color_image(commands, image.raw(), LAYOUT, &color, &ranges) };
    }

    /// Records that all texels of a range of an image of this recording get a depth, whose bits these are, and a stencil.
    pub fn clear_depth(&self, image: &Image<'d>, [depth, stencil]: [u32; 2], of: &Range) {
        let value = vk::ClearDepthStencilValue { depth: f32::from_bits(depth), stencil };
        let (raw, commands, ranges) = (&self.device.raw, self.commands.raw, [range(of)]);
        // SAFETY: as in `clear_image`.
        unsafe {
            raw.cmd_clear_depth_stencil_image(commands, image.raw(), LAYOUT, &value, &ranges);
        }
    }

    /// Records that samples become one, in images of this recording. The command's parts are in them, as Vulkan demands.
    pub fn resolve(&self, resolve: &ResolveImage, from: &Image<'d>, to: &Image<'d>) {
        let region = [vk::ImageResolve::default()
            .src_subresource(layers(&resolve.from))
            .src_offset(corner(resolve.from_offset))
            .dst_subresource(layers(&resolve.to))
            .dst_offset(corner(resolve.to_offset))
            .extent(size(resolve.extent))];
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        // SAFETY: as in `copy_image`.
        unsafe { raw.cmd_resolve_image(commands, from.raw(), LAYOUT, to.raw(), LAYOUT, &region) };
    }

    /// Records a blit between images of this recording. The command's parts are in them, as Vulkan demands, and have texels.
    pub fn blit(&self, blit: &BlitImage, from: &Image<'d>, to: &Image<'d>) {
        let region = [vk::ImageBlit::default()
            .src_subresource(layers(&blit.from))
            .src_offsets(blit.from_corners.map(corner))
            .dst_subresource(layers(&blit.to))
            .dst_offsets(blit.to_corners.map(corner))];
        let filter = vk::Filter::from_raw(blit.header.argument as i32);
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        // SAFETY: as in `copy_image`.
        unsafe {
            raw.cmd_blit_image(commands, from.raw(), LAYOUT, to.raw(), LAYOUT, &region, filter);
        }
    }
}

fn layers(of: &Layers) -> vk::ImageSubresourceLayers {
    vk::ImageSubresourceLayers::default()
        .aspect_mask(vk::ImageAspectFlags::from_raw(of.aspect))
        .mip_level(of.level)
        .base_array_layer(of.first)
        .layer_count(of.count)
}

fn corner([x, y, z]: [u32; 3]) -> vk::Offset3D {
    vk::Offset3D { x: x as i32, y: y as i32, z: z as i32 }
}

fn size([width, height, depth]: [u32; 3]) -> vk::Extent3D {
    vk::Extent3D { width, height, depth }
}
