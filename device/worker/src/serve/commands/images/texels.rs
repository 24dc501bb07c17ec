// SPDX-License-Identifier: MIT OR Apache-2.0

//! Buffers of texels: what Vulkan and a device allow of them.

use super::description::texel;
use crate::vulkan::Bounds;
use ash::vk::FormatFeatureFlags;
use bellhop_protocol::vulkan::{Descriptor, DescriptorKind};

/// Checks a descriptor of a buffer of texels, wherever the buffer is.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_texels(
    descriptor: &Descriptor,
    of: DescriptorKind,
    bounds: &Bounds,
) -> Result<(), &'static str> {
    let Descriptor { address, length, about, .. } = *descriptor;
    let format = u32::try_from(about).map_err(|_| "a format that is no colour's")?;
    let bytes = u64::from(texel(format)?.bytes);
    let feature = if of == DescriptorKind::UNIFORM_TEXEL_BUFFER {
        FormatFeatureFlags::UNIFORM_TEXEL_BUFFER
    } else {
        FormatFeatureFlags::STORAGE_TEXEL_BUFFER
    };
    if !bounds.formats.of_buffers(format).contains(feature) {
        return Err("a buffer of texels of a format that the device does not take there");
    }
    if !address.is_multiple_of(bounds.texel_alignment) {
        return Err("a buffer of texels that is not aligned");
    }
    if !length.is_multiple_of(bytes) || !(1..=bounds.most_texels).contains(&(length / bytes)) {
        return Err("a buffer of an impossible number of texels");
    }
    Ok(())
}
