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
        F::R8_UNORM | F::R8_UINT | F::R8_SINT | F::R8_SNORM | F::S8_UINT => texel(1),
        F::R16_UINT
        | F::R16_SINT
        | F::R16_SFLOAT
        | F::R8G8_UNORM
        | F::R8G8_UINT
        | F::R8G8_SINT
        | F::R8G8_SNORM
        | F::R5G6B5_UNORM_PACK16
        | F::A1R5G5B5_UNORM_PACK16
        | F::D16_UNORM => texel(2),
        F::R16G16B16A16_SFLOAT
        | F::R16G16B16A16_UINT
        | F::R16G16B16A16_SINT
        | F::R32G32_UINT
        | F::R32G32_SINT
        | F::R32G32_SFLOAT => texel(8),
        F::R32G32B32_UINT | F::R32G32B32_SINT | F::R32G32B32_SFLOAT => texel(12),
        F::R32G32B32A32_SFLOAT | F::R32G32B32A32_UINT | F::R32G32B32A32_SINT => texel(16),
        F::BC1_RGBA_UNORM_BLOCK | F::ETC2_R8G8B8_UNORM_BLOCK => compressed(8),
        F::ASTC_4X4_UNORM_BLOCK => compressed(16),
        _ => texel(4),
    }
}

/// What a texel of a format has: a colour, or depth and a stencil.
pub(crate) const fn aspects(format: vk::Format) -> vk::ImageAspectFlags {
    use vk::Format as F;
    use vk::ImageAspectFlags as A;
    match format {
        F::D16_UNORM | F::X8_D24_UNORM_PACK32 | F::D32_SFLOAT => A::DEPTH,
        F::S8_UINT => A::STENCIL,
        F::D16_UNORM_S8_UINT | F::D24_UNORM_S8_UINT | F::D32_SFLOAT_S8_UINT => {
            A::from_raw(A::DEPTH.as_raw() | A::STENCIL.as_raw())
        }
        _ => A::COLOR,
    }
}
