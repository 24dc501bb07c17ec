// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is drawn on.

use super::super::form::Form;
use super::super::format::aspects;
use super::super::image::Image;
use super::super::{Failure, Gpu, Lab, Outcome, bytes_of};
use ash::vk;

/// Texels of most canvases, in each direction.
pub(crate) const SIZE: u32 = 16;

/// A part of a texel.
pub(crate) const DEPTH: vk::ImageAspectFlags = vk::ImageAspectFlags::DEPTH;
pub(crate) const STENCIL: vk::ImageAspectFlags = vk::ImageAspectFlags::STENCIL;

/// An image that is drawn on, and a view of all of it.
#[derive(Clone, Copy)]
pub(crate) struct Canvas {
    pub(crate) image: Image,
    pub(crate) view: vk::ImageView,
    /// The layout in which it is drawn on.
    pub(crate) layout: vk::ImageLayout,
}

/// A canvas of colours.
pub(crate) const fn colour_form(format: vk::Format) -> Form {
    Form::flat(format, SIZE, SIZE).used(vk::ImageUsageFlags::COLOR_ATTACHMENT)
}

/// A canvas of depths, stencils, or both.
pub(crate) const fn depth_form(format: vk::Format) -> Form {
    Form::flat(format, SIZE, SIZE).used(vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT)
}

impl Gpu<'_> {
    /// A new canvas in its layout. It holds anything.
    pub(crate) fn canvas(&self, form: Form) -> Outcome<Canvas> {
        let kind = match (form.kind, form.layers) {
            (vk::ImageType::TYPE_3D, _) => vk::ImageViewType::TYPE_3D,
            (_, 1) => vk::ImageViewType::TYPE_2D,
            _ => vk::ImageViewType::TYPE_2D_ARRAY,
        };
        let image = self.image(form)?;
        self.canvas_of(image, kind)
    }

    /// A canvas in memory that [`Self::give_back`] takes back. The device does not.
    pub(crate) fn short_lived_canvas(&self, form: Form) -> Outcome<(Canvas, vk::DeviceMemory)> {
        let (image, needs) = self.bare_image(form)?;
        let index = self.memory_type(needs.memory_type_bits, vk::MemoryPropertyFlags::empty())?;
        let memory = self.allocate_to_give_back(needs.size, index)?;
        self.bind_image(image, memory, 0)?;
        Ok((self.canvas_of(image, vk::ImageViewType::TYPE_2D)?, memory))
    }

    fn canvas_of(&self, image: Image, kind: vk::ImageViewType) -> Outcome<Canvas> {
        let form = image.form;
        let layout = match aspects(form.format) {
            vk::ImageAspectFlags::COLOR => vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL,
            _ => vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL,
        };
        self.run(|commands| {
            commands.change(image, [vk::ImageLayout::UNDEFINED, layout]);
        })?;
        Ok(Canvas { image, view: self.view(image.look(kind))?, layout })
    }

    /// A canvas of eight bits for each of four components.
    pub(crate) fn colours(&self) -> Outcome<Canvas> {
        self.canvas(colour_form(vk::Format::R8G8B8A8_UNORM))
    }

    /// The bytes of a part of a canvas's texels, level 0 of all layers. The canvas stays in its layout.
    pub(crate) fn bytes_of_canvas(
        &self,
        canvas: Canvas,
        part: vk::ImageAspectFlags,
    ) -> Outcome<Vec<u8>> {
        let form = canvas.image.form;
        let length = match part {
            STENCIL => Form { format: vk::Format::S8_UINT, ..form }.bytes(0),
            _ => form.bytes(0),
        };
        let mut region = form.whole(0);
        region.image_subresource.aspect_mask = part;
        let buffer = self.buffer(length.div_ceil(4))?;
        let read = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
        self.run(|commands| {
            commands.change(canvas.image, [canvas.layout, read]);
            commands.out_of_image_in((canvas.image, read), &buffer, &[region]);
            commands.change(canvas.image, [read, canvas.layout]).barrier();
        })?;
        let mut bytes = bytes_of(&buffer.read());
        bytes.truncate(length);
        Ok(bytes)
    }

    /// The words of a canvas of colours, one or more for each texel.
    pub(crate) fn words(&self, canvas: Canvas) -> Outcome<Vec<u32>> {
        let bytes = self.bytes_of_canvas(canvas, vk::ImageAspectFlags::COLOR)?;
        Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// The depths of a canvas whose depths are floating-point numbers.
    pub(crate) fn depths(&self, canvas: Canvas) -> Outcome<Vec<f32>> {
        let bytes = self.bytes_of_canvas(canvas, DEPTH)?;
        Ok(bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect())
    }
}

impl Lab {
    /// The first of these formats that depths, stencils or both are drawn with.
    pub(crate) fn depth_format(&self, among: &[vk::Format]) -> Outcome<vk::Format> {
        let draws = vk::FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT;
        let can =
            |format: &&vk::Format| self.format(**format).optimal_tiling_features.contains(draws);
        let found = among.iter().find(can).copied();
        // One of each kind is demanded ("Required Format Support").
        found.ok_or_else(|| Failure::seen("no format has what every device draws depths with"))
    }

    /// A format with depths and stencils.
    pub(crate) fn both_format(&self) -> Outcome<vk::Format> {
        self.depth_format(&[vk::Format::D32_SFLOAT_S8_UINT, vk::Format::D24_UNORM_S8_UINT])
    }
}
