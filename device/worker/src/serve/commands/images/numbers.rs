// SPDX-License-Identifier: MIT OR Apache-2.0

//! What numbers the components of a format are.

use ash::vk::Format;

/// What shaders see of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// A number with a point.
    Real,
    /// An integer with a sign.
    Signed,
    /// An integer without one.
    Unsigned,
}

/// The numbers of a colour's `VkFormat`.
pub const fn numbers(format: u32) -> Numbers {
    match Format::from_raw(format as i32) {
        Format::R8_UINT
        | Format::R8G8_UINT
        | Format::R8G8B8_UINT
        | Format::B8G8R8_UINT
        | Format::R8G8B8A8_UINT
        | Format::B8G8R8A8_UINT
        | Format::A8B8G8R8_UINT_PACK32
        | Format::A2R10G10B10_UINT_PACK32
        | Format::A2B10G10R10_UINT_PACK32
        | Format::R16_UINT
        | Format::R16G16_UINT
        | Format::R16G16B16_UINT
        | Format::R16G16B16A16_UINT
        | Format::R32_UINT
        | Format::R32G32_UINT
        | Format::R32G32B32_UINT
        | Format::R32G32B32A32_UINT
        | Format::R64_UINT
        | Format::R64G64_UINT
        | Format::R64G64B64_UINT
        | Format::R64G64B64A64_UINT => Numbers::Unsigned,
        Format::R8_SINT
        | Format::R8G8_SINT
        | Format::R8G8B8_SINT
        | Format::B8G8R8_SINT
        | Format::R8G8B8A8_SINT
        | Format::B8G8R8A8_SINT
        | Format::A8B8G8R8_SINT_PACK32
        | Format::A2R10G10B10_SINT_PACK32
        | Format::A2B10G10R10_SINT_PACK32
        | Format::R16_SINT
        | Format::R16G16_SINT
        | Format::R16G16B16_SINT
        | Format::R16G16B16A16_SINT
        | Format::R32_SINT
        | Format::R32G32_SINT
        | Format::R32G32B32_SINT
        | Format::R32G32B32A32_SINT
        | Format::R64_SINT
        | Format::R64G64_SINT
        | Format::R64G64B64_SINT
        | Format::R64G64B64A64_SINT => Numbers::Signed,
        _ => Numbers::Real,
    }
}
