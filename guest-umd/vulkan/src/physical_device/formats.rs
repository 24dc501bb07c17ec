// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! What programs are told of formats.

use super::features::{READ_WITHOUT_FORMAT, WRITE_WITHOUT_FORMAT};
use super::format_table::is_of_depth;
use super::{Caps, PhysicalDevice};
use crate::raw;
use ash::vk;

type Features = vk::FormatFeatureFlags;
type Features2 = vk::FormatFeatureFlags2;

/// The features of a format with those that there is no room for in 32 bits.
fn longer(caps: &Caps, format: vk::Format, features: Features) -> Features2 {
    let mut longer = Features2::from_raw(features.as_raw().into());
    if is_of_depth(format)
        && format != vk::Format::S8_UINT
        && features.contains(Features::SAMPLED_IMAGE)
    {
        longer |= Features2::SAMPLED_IMAGE_DEPTH_COMPARISON;
    }
    if features.intersects(Features::STORAGE_IMAGE | Features::STORAGE_TEXEL_BUFFER) {
        if caps.features.has(READ_WITHOUT_FORMAT) {
            longer |= Features2::STORAGE_READ_WITHOUT_FORMAT;
        }
        if caps.features.has(WRITE_WITHOUT_FORMAT) {
            longer |= Features2::STORAGE_WRITE_WITHOUT_FORMAT;
        }
    }
    longer
}

unsafe extern "system" fn format(
    device: vk::PhysicalDevice,
    format: vk::Format,
    properties: *mut vk::FormatProperties,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *properties = PhysicalDevice::get(device).caps().formats.properties(format) };
}

unsafe extern "system" fn format_2(
    device: vk::PhysicalDevice,
    format: vk::Format,
    properties: *mut vk::FormatProperties2<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let caps = PhysicalDevice::get(device).caps();
        let short = caps.formats.properties(format);
        (*properties).format_properties = short;
        if let Some(long) = raw::find_mut::<vk::FormatProperties3<'_>>((*properties).p_next) {
            long.linear_tiling_features = longer(caps, format, short.linear_tiling_features);
            long.optimal_tiling_features = longer(caps, format, short.optimal_tiling_features);
            long.buffer_features = longer(caps, format, short.buffer_features);
        }
    }
}

crate::entry::entry_points! {
    vkGetPhysicalDeviceFormatProperties = format,
    vkGetPhysicalDeviceFormatProperties2 = format_2,
    vkGetPhysicalDeviceFormatProperties2KHR = format_2,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physical_device::caps::tests::{caps, poor_caps};

    #[test]
    fn longer_features_say_what_needs_no_format() {
        let all = |caps: &Caps| {
            let format = vk::Format::R8G8B8A8_UNORM;
            longer(caps, format, caps.formats.properties(format).optimal_tiling_features)
        };
        let without =
            Features2::STORAGE_READ_WITHOUT_FORMAT | Features2::STORAGE_WRITE_WITHOUT_FORMAT;
        assert!(all(&caps()).contains(without | Features2::TRANSFER_SRC));
        assert!(all(&poor_caps()).is_empty());
        let sampled = |format| longer(&caps(), format, Features::SAMPLED_IMAGE);
        assert!(!sampled(vk::Format::R8_UNORM).intersects(without));
        let compared = Features2::SAMPLED_IMAGE_DEPTH_COMPARISON;
        assert!(sampled(vk::Format::D32_SFLOAT).contains(compared));
        assert!(!sampled(vk::Format::S8_UINT).contains(compared));
    }
}
