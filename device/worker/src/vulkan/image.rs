// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Images: what a device says of their descriptions, and those that it makes of imported memory.

use super::device::HOST;
use super::{Binding, Called, Device, Imported, VulkanError, aspects};
use ash::vk;
use bellhop_protocol::vulkan::{self as protocol, ImageFormat, Layers, Tiling};
use std::rc::Rc;

/// An image that has no memory yet.
pub struct Shape<'d> {
    device: &'d Device<'d>,
    raw: vk::Image,
    needs: vk::MemoryRequirements,
    /// What its texels consist of.
    aspects: vk::ImageAspectFlags,
}

/// An image in imported memory.
pub struct Image<'d> {
    // The image is destroyed before its memory is let go of.
    shape: Shape<'d>,
    _memory: Rc<Imported<'d>>,
}

impl Device<'_> {
    /// Returns which images there can be of a description's format, kind, tiling, usage and flags: values that Vulkan
    /// knows.
    pub fn image_format(&self, of: &protocol::Image) -> ImageFormat {
        let mut external = vk::PhysicalDeviceExternalImageFormatInfo::default().handle_type(HOST);
        let question = vk::PhysicalDeviceImageFormatInfo2::default()
            .format(format(of.format))
            .ty(vk::ImageType::from_raw(of.kind.0 as i32))
            .tiling(vk::ImageTiling::from_raw(of.tiling.0 as i32))
            .usage(vk::ImageUsageFlags::from_raw(of.usage))
            .flags(vk::ImageCreateFlags::from_raw(of.flags))
            .push_next(&mut external);
        let mut imports = vk::ExternalImageFormatProperties::default();
        let mut answer = vk::ImageFormatProperties2::default().push_next(&mut imports);
        let (raw, handle) = (&self.physical.instance.raw, self.physical.handle);
        // SAFETY: the structures live until the call returns, and the handle belongs to this instance.
        let asked = unsafe {
            raw.get_physical_device_image_format_properties2(handle, &question, &mut answer)
        };
        let properties = answer.image_format_properties;
        let features = imports.external_memory_properties.external_memory_features;
        let can_import = features.contains(vk::ExternalMemoryFeatureFlags::IMPORTABLE)
            && !features.contains(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY);
        match asked {
            Ok(()) if can_import => ImageFormat {
                result: vk::Result::SUCCESS.as_raw(),
                extent: [
                    properties.max_extent.width,
                    properties.max_extent.height,
                    properties.max_extent.depth,
                ],
                levels: properties.max_mip_levels,
                layers: properties.max_array_layers,
                samples: properties.sample_counts.as_raw(),
                reserved: 0,
                size: properties.max_resource_size,
            },
            Ok(()) | Err(_) => ImageFormat {
                result: vk::Result::ERROR_FORMAT_NOT_SUPPORTED.as_raw(),
                ..ImageFormat::default()
            },
        }
    }

    /// Makes an image without memory, of a description that Vulkan allows.
    ///
    /// # Errors
    /// When the device offers no such image.
    pub fn shape(&self, of: &protocol::Image) -> Result<Shape<'_>, vk::Result> {
        if !fits(of, &self.image_format(of)) {
            return Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED);
        }
        let [width, height, depth] = of.extent;
        let mut external = vk::ExternalMemoryImageCreateInfo::default().handle_types(HOST);
        let information = vk::ImageCreateInfo::default()
            .flags(vk::ImageCreateFlags::from_raw(of.flags))
            .image_type(vk::ImageType::from_raw(of.kind.0 as i32))
            .format(format(of.format))
            .extent(vk::Extent3D { width, height, depth })
            .mip_levels(of.levels)
            .array_layers(of.layers)
            .samples(vk::SampleCountFlags::from_raw(of.samples))
            .tiling(vk::ImageTiling::from_raw(of.tiling.0 as i32))
            .usage(vk::ImageUsageFlags::from_raw(of.usage))
            .push_next(&mut external);
        // SAFETY: the structures live until the call returns, and the device has just said that it makes such images.
        let raw = unsafe { self.raw.create_image(&information, None) }?;
        // SAFETY: the image is live.
        let needs = unsafe { self.raw.get_image_memory_requirements(raw) };
        Ok(Shape { device: self, raw, needs, aspects: aspects(of.format) })
    }
}

/// Whether a device that offers this offers an image with these extents, levels, layers and samples.
fn fits(image: &protocol::Image, offer: &ImageFormat) -> bool {
    offer.result == vk::Result::SUCCESS.as_raw()
        && image.extent.iter().zip(offer.extent).all(|(extent, most)| *extent <= most)
        && image.levels <= offer.levels
        && image.layers <= offer.layers
        && image.samples & !offer.samples == 0
}

impl<'d> Shape<'d> {
    /// Bytes of memory that it needs.
    pub fn size(&self) -> u64 {
        self.needs.size
    }

    /// What its memory's address is a multiple of.
    pub fn alignment(&self) -> u64 {
        self.needs.alignment.max(1)
    }

    /// Returns where a level of a layer begins, if this is an image of a description that is linear and has them.
    pub fn place(&self, of: &protocol::Image, part: &Layers) -> Option<vk::SubresourceLayout> {
        let aspect = vk::ImageAspectFlags::from_raw(part.aspect);
        let is_there = part.aspect.is_power_of_two()
            && self.aspects.contains(aspect)
            && part.level < of.levels
            && part.first < of.layers;
        let subresource = vk::ImageSubresource::default()
            .aspect_mask(aspect)
            .mip_level(part.level)
            .array_layer(part.first);
        (of.tiling == Tiling::LINEAR && is_there).then(|| {
            // SAFETY: the image is live and linear, and has the level and the layer.
            unsafe { self.device.raw.get_image_subresource_layout(self.raw, subresource) }
        })
    }

    /// Puts the image at the beginning of a range of memory.
    ///
    /// # Errors
    /// When the device does not take the memory for it.
    pub fn bind(self, range: &Binding<'d>) -> Result<Image<'d>, VulkanError> {
        let Binding { memory, offset, length } = range;
        let end = offset.checked_add(*length);
        assert!(end.is_some_and(|end| end <= memory.length), "outside the memory");
        let takes = 1_u32.checked_shl(memory.memory_type).unwrap_or_default();
        if *length < self.size() || !offset.is_multiple_of(self.alignment()) {
            return Err(VulkanError::Lacks("room for the image in its memory"));
        }
        if self.needs.memory_type_bits & takes == 0 {
            return Err(VulkanError::Lacks("memory type for images in imported memory"));
        }
        // SAFETY: the image has no memory yet. This memory is of a type that it takes, and has room for it at this offset.
        unsafe { self.device.raw.bind_image_memory(self.raw, memory.memory, *offset) }
            .called("vkBindImageMemory")?;
        Ok(Image { shape: self, _memory: Rc::clone(memory) })
    }
}

impl Image<'_> {
    /// Vulkan's handle.
    pub(super) fn raw(&self) -> vk::Image {
        self.shape.raw
    }

    /// What its texels consist of.
    pub(super) fn aspects(&self) -> vk::ImageAspectFlags {
        self.shape.aspects
    }
}

/// Vulkan's format of a number that is one's.
pub(super) fn format(number: u32) -> vk::Format {
    vk::Format::from_raw(number as i32)
}

impl Drop for Shape<'_> {
    fn drop(&mut self) {
        // SAFETY: no command buffer that is pending uses it: recorders keep images until they are done.
        unsafe { self.device.raw.destroy_image(self.raw, None) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn an_image_fits_what_a_device_offers_if_nothing_of_it_is_more() {
        let offer = ImageFormat {
            extent: [64, 32, 16],
            levels: 7,
            layers: 4,
            samples: 0b101,
            ..ImageFormat::default()
        };
        let good = protocol::Image {
            extent: [64, 32, 16],
            levels: 7,
            layers: 4,
            samples: 4,
            ..protocol::Image::new_zeroed()
        };
        assert!(fits(&good, &offer));
        for more in [
            protocol::Image { extent: [65, 1, 1], ..good },
            protocol::Image { extent: [1, 33, 1], ..good },
            protocol::Image { extent: [1, 1, 17], ..good },
            protocol::Image { levels: 8, ..good },
            protocol::Image { layers: 5, ..good },
            protocol::Image { samples: 2, ..good },
        ] {
            assert!(!fits(&more, &offer), "{more:?}");
        }
        let none = vk::Result::ERROR_FORMAT_NOT_SUPPORTED.as_raw();
        assert!(!fits(&good, &ImageFormat { result: none, ..offer }));
    }
}
