// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Views of images and of buffers, and samplers.

use super::image::Image;
use super::{Buffer, Gpu, Outcome};
use ash::vk;

/// What a view has of an image.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    image: Image,
    kind: vk::ImageViewType,
    format: vk::Format,
    range: vk::ImageSubresourceRange,
    components: vk::ComponentMapping,
    usage: vk::ImageUsageFlags,
}

impl Image {
    /// All of the image, as it is.
    pub(crate) fn look(self, kind: vk::ImageViewType) -> Look {
        Look {
            image: self,
            kind,
            format: self.form.format,
            range: self.form.range(),
            components: vk::ComponentMapping::default(),
            usage: self.form.usage,
        }
    }
}

impl Look {
    /// A part of the image.
    pub(crate) fn at(self, range: vk::ImageSubresourceRange) -> Self {
        Self { range, ..self }
    }

    /// Its texels as those of another format.
    pub(crate) fn format(self, format: vk::Format) -> Self {
        Self { format, ..self }
    }

    /// Its components in another order.
    pub(crate) fn order(self, [r, g, b, a]: [vk::ComponentSwizzle; 4]) -> Self {
        Self { components: vk::ComponentMapping { r, g, b, a }, ..self }
    }

    /// Used for less than the image.
    pub(crate) fn usage(self, usage: vk::ImageUsageFlags) -> Self {
        Self { usage, ..self }
    }
}

impl Gpu<'_> {
    /// A view.
    pub(crate) fn view(&self, look: Look) -> Outcome<vk::ImageView> {
        let view = self.bare_view(look)?;
        // SAFETY: nothing executes when this is called, and nobody else destroys it.
        self.later(move |device| unsafe { device.destroy_image_view(view, None) });
        Ok(view)
    }

    fn bare_view(&self, look: Look) -> Result<vk::ImageView, vk::Result> {
        let mut usage = vk::ImageViewUsageCreateInfo::default().usage(look.usage);
        let information = vk::ImageViewCreateInfo::default()
            .image(look.image.raw)
            .view_type(look.kind)
            .format(look.format)
            .components(look.components)
            .subresource_range(look.range)
            .push_next(&mut usage);
        // SAFETY: the image is the device's, and has memory. The structures live until the call returns.
        unsafe { self.raw.create_image_view(&information, None) }
    }

    /// Lends a view, and destroys it once nothing executes.
    pub(crate) fn with_view(
        &self,
        look: Look,
        act: impl FnOnce(vk::ImageView) -> Outcome,
    ) -> Outcome {
        let view = self.bare_view(look)?;
        act(view)?;
        self.wait_idle()?;
        // SAFETY: the device was waited for, and the view was lent for the call alone.
        unsafe { self.raw.destroy_image_view(view, None) };
        Ok(())
    }

    /// Bytes of a buffer as texels.
    pub(crate) fn texels(
        &self,
        buffer: &Buffer<'_>,
        format: vk::Format,
        [offset, range]: [u64; 2],
    ) -> Outcome<vk::BufferView> {
        let information = vk::BufferViewCreateInfo::default()
            .buffer(buffer.raw)
            .format(format)
            .offset(offset)
            .range(range);
        // SAFETY: the buffer is the device's, and has memory. The structure lives until the call returns.
        let view = unsafe { self.raw.create_buffer_view(&information, None) }?;
        // SAFETY: nothing executes when this is called, and nobody else destroys it.
        self.later(move |device| unsafe { device.destroy_buffer_view(view, None) });
        Ok(view)
    }

    /// A sampler.
    pub(crate) fn sampler(&self, information: vk::SamplerCreateInfo<'_>) -> Outcome<vk::Sampler> {
        // SAFETY: the device is open. The structure lives until the call returns.
        let sampler = unsafe { self.raw.create_sampler(&information, None) }?;
        // SAFETY: nothing executes when this is called, and nobody else destroys it.
        self.later(move |device| unsafe { device.destroy_sampler(sampler, None) });
        Ok(sampler)
    }
}
