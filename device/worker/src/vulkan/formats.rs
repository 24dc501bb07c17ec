// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! What a device can do with texels of each format.

use super::PhysicalDevice;
use ash::vk;
use bellhop_protocol::vulkan::{FORMATS, Texel, Tiling};

/// What commands can use.
const USED: vk::FormatFeatureFlags = vk::FormatFeatureFlags::from_raw(
    vk::FormatFeatureFlags::SAMPLED_IMAGE.as_raw()
        | vk::FormatFeatureFlags::STORAGE_IMAGE.as_raw()
        | vk::FormatFeatureFlags::STORAGE_IMAGE_ATOMIC.as_raw()
        | vk::FormatFeatureFlags::UNIFORM_TEXEL_BUFFER.as_raw()
        | vk::FormatFeatureFlags::STORAGE_TEXEL_BUFFER.as_raw()
        | vk::FormatFeatureFlags::STORAGE_TEXEL_BUFFER_ATOMIC.as_raw()
        | vk::FormatFeatureFlags::SAMPLED_IMAGE_FILTER_LINEAR.as_raw()
        | vk::FormatFeatureFlags::TRANSFER_SRC.as_raw()
        | vk::FormatFeatureFlags::TRANSFER_DST.as_raw()
        | vk::FormatFeatureFlags::SAMPLED_IMAGE_FILTER_MINMAX.as_raw()
        | vk::FormatFeatureFlags::VERTEX_BUFFER.as_raw()
        | vk::FormatFeatureFlags::COLOR_ATTACHMENT.as_raw()
        | vk::FormatFeatureFlags::COLOR_ATTACHMENT_BLEND.as_raw()
        | vk::FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT.as_raw()
        | vk::FormatFeatureFlags::BLIT_SRC.as_raw()
        | vk::FormatFeatureFlags::BLIT_DST.as_raw(),
);

/// Where texels are, in the order of [`Formats::all`].
const LINEAR: usize = 0;
const OPTIMAL: usize = 1;
const BUFFER: usize = 2;

/// What texels of a `VkFormat` of Vulkan 1.0 consist of: nothing, if it is none.
pub fn aspects(format: u32) -> vk::ImageAspectFlags {
    let (depth, stencil) = (vk::ImageAspectFlags::DEPTH, vk::ImageAspectFlags::STENCIL);
    match vk::Format::from_raw(format as i32) {
        vk::Format::D16_UNORM | vk::Format::X8_D24_UNORM_PACK32 | vk::Format::D32_SFLOAT => depth,
        vk::Format::S8_UINT => stencil,
        vk::Format::D16_UNORM_S8_UINT
        | vk::Format::D24_UNORM_S8_UINT
        | vk::Format::D32_SFLOAT_S8_UINT => depth | stencil,
        _ if Texel::of(format).is_some() => vk::ImageAspectFlags::COLOR,
        _ => vk::ImageAspectFlags::empty(),
    }
}

/// What a device can do with texels of each format: nothing, if it makes no images of a process's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formats(Option<Box<[[u32; 3]; FORMATS]>>);

impl Formats {
    /// Those of a device with these features: of linear images, of optimal images, and of buffers.
    pub fn new(features: Box<[[u32; 3]; FORMATS]>) -> Self {
        Self(Some(features))
    }

    /// Those of a device that makes no images.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Whether the device makes images and buffers of texels.
    pub const fn are_there(&self) -> bool {
        self.0.is_some()
    }

    /// The features of all formats.
    pub fn all(&self) -> [[u32; 3]; FORMATS] {
        self.0.as_deref().copied().unwrap_or([[0; 3]; FORMATS])
    }

    /// What can be done with images of a format.
    pub fn of_images(&self, format: u32, tiling: Tiling) -> vk::FormatFeatureFlags {
        self.at(format, if tiling == Tiling::LINEAR { LINEAR } else { OPTIMAL })
    }

    /// What can be done with buffers of texels.
    pub fn of_buffers(&self, format: u32) -> vk::FormatFeatureFlags {
        self.at(format, BUFFER)
    }

    fn at(&self, format: u32, column: usize) -> vk::FormatFeatureFlags {
        let features = self.0.as_ref().and_then(|all| all.get(format as usize)?.get(column));
        vk::FormatFeatureFlags::from_raw(features.copied().unwrap_or_default())
    }
}

impl PhysicalDevice<'_> {
    /// Returns what the device can do with texels.
    ///
    /// Only a program for the processor makes images of a process's memory: each stream makes them anew over what an earlier
    /// one has left there. Such a device has one layout, which follows from the description, and discards nothing.
    pub(super) fn formats(&self, kind: vk::PhysicalDeviceType) -> Formats {
        if kind != vk::PhysicalDeviceType::CPU {
            return Formats::none();
        }
        let mut features = Box::new([[0; 3]; FORMATS]);
        for (format, features) in (0..).zip(features.iter_mut()) {
            if !aspects(format).is_empty() {
                let format = vk::Format::from_raw(format as i32);
                let raw = &self.instance.raw;
                // SAFETY: the handle belongs to this instance.
                let all = unsafe { raw.get_physical_device_format_properties(self.handle, format) };
                *features =
                    [all.linear_tiling_features, all.optimal_tiling_features, all.buffer_features]
                        .map(|of| (of & USED).as_raw());
            }
        }
        Formats::new(features)
    }
}
