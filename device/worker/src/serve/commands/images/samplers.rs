// SPDX-License-Identifier: MIT OR Apache-2.0

//! Samplers: what Vulkan and a device allow of them.

use crate::vulkan::OfSamplers;
use ash::vk;
use bellhop_protocol::vulkan::{FORMATS, Sampler};

/// Each number of Vulkan 1.0 in these fields is less.
const FILTERS: u32 = 2;
const MIPMAP_MODES: u32 = 2;
const COMPARISONS: u32 = 8;
const BORDER_COLORS: u32 = 6;
const REDUCTIONS: u32 = 3;
const SWIZZLES: u32 = 7;
const MIRROR_ONCE: u32 = vk::SamplerAddressMode::MIRROR_CLAMP_TO_EDGE.as_raw() as u32;
const CLAMPS: [u32; 2] = [
    vk::SamplerAddressMode::CLAMP_TO_EDGE.as_raw() as u32,
    vk::SamplerAddressMode::CLAMP_TO_BORDER.as_raw() as u32,
];
const NEAREST: u32 = vk::SamplerMipmapMode::NEAREST.as_raw() as u32;

/// Checks a sampler.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_sampler(sampler: &Sampler, bounds: &OfSamplers) -> Result<(), &'static str> {
    let Sampler { lod_bias, most_anisotropy, min_lod, max_lod, reduction, .. } = *sampler;
    let are_known = sampler.mag_filter < FILTERS
        && sampler.min_filter < FILTERS
        && sampler.mipmap_mode < MIPMAP_MODES
        && sampler.address_modes.iter().all(|mode| *mode <= MIRROR_ONCE)
        && sampler.compare_op < COMPARISONS
        && (sampler.border_color < BORDER_COLORS || sampler.has_custom_border())
        && sampler.border_swizzle.iter().all(|swizzle| *swizzle < SWIZZLES)
        && sampler.custom_format < FORMATS as u32
        && reduction < REDUCTIONS;
    let booleans = [
        sampler.is_anisotropic,
        sampler.compares,
        sampler.is_unnormalised,
        sampler.has_seams,
        sampler.swizzles_border,
        sampler.is_border_srgb,
    ];
    if !are_known || booleans.iter().any(|boolean| *boolean > 1) {
        return Err("a sampler with an unknown number");
    }
    if ![lod_bias, most_anisotropy, min_lod, max_lod].iter().all(|number| number.is_finite()) {
        return Err("a sampler with a number that is not finite");
    }
    if lod_bias.abs() > bounds.most_lod_bias || min_lod > max_lod {
        return Err("a sampler of impossible levels");
    }
    if sampler.address_modes.contains(&MIRROR_ONCE) && !bounds.mirror_once {
        return Err("a sampler that mirrors once, on a device that cannot");
    }
    if reduction != 0 && !(bounds.reduce && sampler.compares == 0) {
        return Err("a sampler that reduces, on a device that cannot, or that compares as well");
    }
    let [custom, without_format] = bounds.custom_borders;
    if (sampler.has_custom_border() && !(custom && (without_format || sampler.custom_format != 0)))
        || (sampler.swizzles_border != 0 && !bounds.swizzle_borders)
        || (sampler.has_seams != 0 && !bounds.have_seams)
    {
        return Err("a sampler with a border or seams that the device does not have");
    }
    let most = bounds.most_anisotropy.unwrap_or_default();
    if sampler.is_anisotropic != 0 && !(1.0..=most).contains(&most_anisotropy) {
        return Err("a sampler with more anisotropy than the device has");
    }
    let has_one_level = sampler.mag_filter == sampler.min_filter
        && sampler.mipmap_mode == NEAREST
        && [min_lod, max_lod] == [0.0; 2]
        && sampler.address_modes.iter().take(2).all(|mode| CLAMPS.contains(mode))
        && sampler.is_anisotropic == 0
        && sampler.compares == 0;
    if sampler.is_unnormalised != 0 && !has_one_level {
        return Err("a sampler of texels by their numbers that does more than it can");
    }
    Ok(())
}
