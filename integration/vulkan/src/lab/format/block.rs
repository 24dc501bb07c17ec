// SPDX-License-Identifier: MIT OR Apache-2.0

//! How large the texels are of the formats that behaviours use.

use ash::vk;

/// A texel, or a block of texels of a compressed format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) bytes: u32,
    /// Texels in each direction.
    pub(crate) extent: [u32; 3],
}

const fn texel(bytes: u32) -> Block {
    Block { bytes, extent: [1, 1, 1] }
}

const fn compressed(bytes: u32) -> Block {
    Block { bytes, extent: [4, 4, 1] }
}

/// The block of a format. Those without a line of their own have four bytes.
pub(crate) const fn block(format: vk::Format) -> Block {
    use vk::Format as F;
    match format {
        F::R8_UNORM | F::R8_UINT | F::R8_SINT | F::R8_SNORM => texel(1),
        F::R16_UINT | F::R16_SFLOAT | F::R8G8_UNORM | F::R8G8_UINT | F::D16_UNORM => texel(2),
        F::R16G16B16A16_SFLOAT
        | F::R16G16B16A16_UINT
        | F::R16G16B16A16_SINT
        | F::R32G32_UINT
        | F::R32G32_SINT
        | F::R32G32_SFLOAT => texel(8),
        F::R32G32B32A32_SFLOAT | F::R32G32B32A32_UINT | F::R32G32B32A32_SINT => texel(16),
        F::BC1_RGBA_UNORM_BLOCK | F::ETC2_R8G8B8_UNORM_BLOCK => compressed(8),
        F::ASTC_4X4_UNORM_BLOCK => compressed(16),
        _ => texel(4),
    }
}
