// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Samplers: descriptions in memory that the host reads.

use crate::device::Device;
use crate::numbered::Numbered;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::Sampler;

/// Faces of cubes end at their edges.
const SEAMS: vk::SamplerCreateFlags = vk::SamplerCreateFlags::NON_SEAMLESS_CUBE_MAP_EXT;

/// What extensions say of a sampler's border.
#[derive(Default)]
struct Border<'s> {
    custom: Option<&'s vk::SamplerCustomBorderColorCreateInfoEXT<'s>>,
    swizzle: Option<&'s vk::SamplerBorderColorComponentMappingCreateInfoEXT<'s>>,
}

/// A sampler as the host reads it.
fn describe(
    serial: u64,
    information: &vk::SamplerCreateInfo<'_>,
    reduction: vk::SamplerReductionMode,
    border: &Border<'_>,
) -> Sampler {
    let modes =
        [information.address_mode_u, information.address_mode_v, information.address_mode_w];
    Sampler {
        serial,
        mag_filter: information.mag_filter.as_raw() as u32,
        min_filter: information.min_filter.as_raw() as u32,
        mipmap_mode: information.mipmap_mode.as_raw() as u32,
        address_modes: modes.map(|mode| mode.as_raw() as u32),
        lod_bias: information.mip_lod_bias,
        is_anisotropic: information.anisotropy_enable,
        most_anisotropy: information.max_anisotropy,
        compares: information.compare_enable,
        compare_op: information.compare_op.as_raw() as u32,
        min_lod: information.min_lod,
        max_lod: information.max_lod,
        border_color: information.border_color.as_raw() as u32,
        is_unnormalised: information.unnormalized_coordinates,
        reduction: reduction.as_raw() as u32,
        has_seams: u32::from(information.flags.contains(SEAMS)),
        custom_border: custom_color(border.custom),
        custom_format: border.custom.map_or(0, |of| of.format.as_raw() as u32),
        swizzles_border: border.swizzle.is_some().into(),
        border_swizzle: border.swizzle.map_or([0; 4], |of| {
            let vk::ComponentMapping { r, g, b, a } = of.components;
            [r, g, b, a].map(|component| component.as_raw() as u32)
        }),
        is_border_srgb: border.swizzle.map_or(0, |of| of.srgb),
    }
}

/// The bits of a border's own colour.
fn custom_color(custom: Option<&vk::SamplerCustomBorderColorCreateInfoEXT<'_>>) -> [u32; 4] {
    // SAFETY: whatever numbers a colour has are bits.
    custom.map_or([0; 4], |of| unsafe { of.custom_border_color.uint32 })
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::SamplerCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    sampler: *mut vk::Sampler,
) -> vk::Result {
    type Reduction<'a> = vk::SamplerReductionModeCreateInfo<'a>;
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let (device, information) = (Device::get(device), &*information);
        if !device.caps.have_images() {
            return vk::Result::ERROR_FEATURE_NOT_PRESENT;
        }
        let reduction = raw::find::<Reduction<'_>>(information.p_next);
        let average = vk::SamplerReductionMode::WEIGHTED_AVERAGE;
        let reduction = reduction.map_or(average, |asked| asked.reduction_mode);
        let border = Border {
            custom: raw::find(information.p_next),
            swizzle: raw::find(information.p_next),
        };
        let serial = device.next_serial();
        let description = describe(serial, information, reduction, &border);
        match Numbered::new(&device.heap, serial, &description) {
            Ok(made) => *sampler = vk::Sampler::from_raw(handle::create(made)),
            Err(error) => return error,
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    sampler: vk::Sampler,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Numbered>(sampler.as_raw()) };
}

crate::entry::entry_points! {
    vkCreateSampler = create,
    vkDestroySampler = destroy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampler_is_described_by_vulkan_s_numbers() {
        let information = vk::SamplerCreateInfo::default()
            .mag_filter(vk::Filter::LINEAR)
            .min_filter(vk::Filter::NEAREST)
            .mipmap_mode(vk::SamplerMipmapMode::LINEAR)
            .address_mode_u(vk::SamplerAddressMode::MIRRORED_REPEAT)
            .address_mode_v(vk::SamplerAddressMode::CLAMP_TO_EDGE)
            .address_mode_w(vk::SamplerAddressMode::CLAMP_TO_BORDER)
            .mip_lod_bias(0.5)
            .anisotropy_enable(true)
            .max_anisotropy(8.0)
            .compare_enable(true)
            .compare_op(vk::CompareOp::GREATER)
            .min_lod(1.0)
            .max_lod(vk::LOD_CLAMP_NONE)
            .border_color(vk::BorderColor::INT_OPAQUE_WHITE)
            .unnormalized_coordinates(false);
        let expected = Sampler {
            serial: 3,
            mag_filter: 1,
            min_filter: 0,
            mipmap_mode: 1,
            address_modes: [1, 2, 3],
            lod_bias: 0.5,
            is_anisotropic: 1,
            most_anisotropy: 8.0,
            compares: 1,
            compare_op: 4,
            min_lod: 1.0,
            max_lod: 1000.0,
            border_color: 5,
            is_unnormalised: 0,
            reduction: 2,
            has_seams: 0,
            custom_border: [0; 4],
            custom_format: 0,
            swizzles_border: 0,
            border_swizzle: [0; 4],
            is_border_srgb: 0,
        };
        let max = vk::SamplerReductionMode::MAX;
        assert_eq!(describe(3, &information, max, &Border::default()), expected);
        let color = vk::ClearColorValue { uint32: [1, 2, 3, 4] };
        let custom = vk::SamplerCustomBorderColorCreateInfoEXT::default()
            .custom_border_color(color)
            .format(vk::Format::R8G8B8A8_UNORM);
        let swizzle = vk::SamplerBorderColorComponentMappingCreateInfoEXT::default()
            .components(vk::ComponentMapping { g: vk::ComponentSwizzle::A, ..Default::default() })
            .srgb(true);
        let information = information.flags(SEAMS).border_color(vk::BorderColor::FLOAT_CUSTOM_EXT);
        let border = Border { custom: Some(&custom), swizzle: Some(&swizzle) };
        let expected = Sampler {
            has_seams: 1,
            border_color: 1_000_287_003,
            custom_border: [1, 2, 3, 4],
            custom_format: 37,
            swizzles_border: 1,
            border_swizzle: [0, 6, 0, 0],
            is_border_srgb: 1,
            ..expected
        };
        assert_eq!(describe(3, &information, max, &border), expected);
    }
}
