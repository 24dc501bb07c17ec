// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Samplers.

use super::image::format;
use super::{Called, Device, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan as protocol;

/// A sampler.
pub struct Sampler<'d> {
    device: &'d Device<'d>,
    pub(super) raw: vk::Sampler,
}

impl<'d> Device<'d> {
    /// Makes a sampler. Vulkan allows the description, and so does the device.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn sampler(&'d self, of: &protocol::Sampler) -> Result<Sampler<'d>, VulkanError> {
        let filter = |filter: u32| vk::Filter::from_raw(filter as i32);
        let [u, v, w] = of.address_modes.map(|mode| vk::SamplerAddressMode::from_raw(mode as i32));
        let reduction = vk::SamplerReductionMode::from_raw(of.reduction as i32);
        let mut reduces = vk::SamplerReductionModeCreateInfo::default().reduction_mode(reduction);
        let mut information = vk::SamplerCreateInfo::default()
            .mag_filter(filter(of.mag_filter))
            .min_filter(filter(of.min_filter))
            .mipmap_mode(vk::SamplerMipmapMode::from_raw(of.mipmap_mode as i32))
            .address_mode_u(u)
            .address_mode_v(v)
            .address_mode_w(w)
            .mip_lod_bias(of.lod_bias)
            .anisotropy_enable(of.is_anisotropic != 0)
            .max_anisotropy(of.most_anisotropy)
            .compare_enable(of.compares != 0)
            .compare_op(vk::CompareOp::from_raw(of.compare_op as i32))
            .min_lod(of.min_lod)
            .max_lod(of.max_lod)
            .border_color(vk::BorderColor::from_raw(of.border_color as i32))
            .unnormalized_coordinates(of.is_unnormalised != 0);
        if of.has_seams != 0 {
            information = information.flags(vk::SamplerCreateFlags::NON_SEAMLESS_CUBE_MAP_EXT);
        }
        let [r, g, b, a] =
            of.border_swizzle.map(|swizzle| vk::ComponentSwizzle::from_raw(swizzle as i32));
        let mut swizzles = vk::SamplerBorderColorComponentMappingCreateInfoEXT::default()
            .components(vk::ComponentMapping { r, g, b, a })
            .srgb(of.is_border_srgb != 0);
        let mut custom = vk::SamplerCustomBorderColorCreateInfoEXT::default()
            .custom_border_color(vk::ClearColorValue { uint32: of.custom_border })
            .format(format(of.custom_format));
        if of.swizzles_border != 0 {
            information = information.push_next(&mut swizzles);
        }
        if of.has_custom_border() {
            information = information.push_next(&mut custom);
        }
        if reduction != vk::SamplerReductionMode::WEIGHTED_AVERAGE {
            information = information.push_next(&mut reduces);
        }
        // SAFETY: the structures live until the call returns.
        let raw = unsafe { self.raw.create_sampler(&information, None) };
        Ok(Sampler { device: self, raw: raw.called("vkCreateSampler")? })
    }
}

impl Drop for Sampler<'_> {
    fn drop(&mut self) {
        // SAFETY: no command buffer that is pending uses it: recorders keep samplers until they are done.
        unsafe { self.device.raw.destroy_sampler(self.raw, None) };
    }
}
