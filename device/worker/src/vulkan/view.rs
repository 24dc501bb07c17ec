// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! What shaders see of memory with texels: views of images, and of buffers.

use super::image::format;
use super::{Binding, Called, Device, Image, Imported, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan::{ImageView, Range};
use std::rc::Rc;

/// A view of an image.
pub struct View<'d> {
    device: &'d Device<'d>,
    pub(super) raw: vk::ImageView,
    _image: Rc<Image<'d>>,
}

/// A view of a buffer of texels.
pub struct Texels<'d> {
    device: &'d Device<'d>,
    pub(super) raw: vk::BufferView,
    _memory: Rc<Imported<'d>>,
}

impl<'d> Device<'d> {
    /// Makes a view of the image that a description names. Vulkan allows the description, and so does the device.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn view(&'d self, of: &ImageView, image: &Rc<Image<'d>>) -> Result<View<'d>, VulkanError> {
        let [r, g, b, a] =
            of.components.map(|component| vk::ComponentSwizzle::from_raw(component as i32));
        let mut usage =
            vk::ImageViewUsageCreateInfo::default().usage(vk::ImageUsageFlags::from_raw(of.usage));
        let information = vk::ImageViewCreateInfo::default()
            .image(image.raw())
            .view_type(vk::ImageViewType::from_raw(of.kind as i32))
            .format(format(of.format))
            .components(vk::ComponentMapping { r, g, b, a })
            .subresource_range(range(&of.range))
            .push_next(&mut usage);
        // SAFETY: the structures live until the call returns. The image is live and in memory.
        let raw = unsafe { self.raw.create_image_view(&information, None) };
        let raw = raw.called("vkCreateImageView")?;
        Ok(View { device: self, raw, _image: Rc::clone(image) })
    }

    /// Makes a view of a range as texels of a format, of which the device makes such views.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn texels(
        &'d self,
        Binding { memory, offset, length }: &Binding<'d>,
        texel: u32,
    ) -> Result<Texels<'d>, VulkanError> {
        let end = offset.checked_add(*length);
        assert!(end.is_some_and(|end| end <= memory.length), "outside the memory");
        let information = vk::BufferViewCreateInfo::default()
            .buffer(memory.buffer)
            .format(format(texel))
            .offset(*offset)
            .range(*length);
        // SAFETY: the structure lives until the call returns. The range is in the buffer, which is live.
        let raw = unsafe { self.raw.create_buffer_view(&information, None) };
        let raw = raw.called("vkCreateBufferView")?;
        Ok(Texels { device: self, raw, _memory: Rc::clone(memory) })
    }
}

/// Vulkan's range.
pub(super) fn range(range: &Range) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange::default()
        .aspect_mask(vk::ImageAspectFlags::from_raw(range.aspect))
        .base_mip_level(range.level)
        .level_count(range.levels)
        .base_array_layer(range.layer)
        .layer_count(range.layers)
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // SAFETY: no command buffer that is pending uses it: recorders keep views until they are done.
        unsafe { self.device.raw.destroy_image_view(self.raw, None) };
    }
}

impl Drop for Texels<'_> {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { self.device.raw.destroy_buffer_view(self.raw, None) };
    }
}
