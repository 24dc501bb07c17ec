// SPDX-License-Identifier: MIT OR Apache-2.0

//! Formats that every device stores.

use ash::vk::Format as F;

/// Formats that shaders store on every device, in images and in buffers of texels ("Required Format Support").
pub(crate) const STORED: &[F] = &[
    F::R8G8B8A8_UNORM,
    F::R8G8B8A8_SNORM,
    F::R8G8B8A8_UINT,
    F::R8G8B8A8_SINT,
    F::R16G16B16A16_UINT,
    F::R16G16B16A16_SINT,
    F::R16G16B16A16_SFLOAT,
    F::R32_UINT,
    F::R32_SINT,
    F::R32_SFLOAT,
    F::R32G32_UINT,
    F::R32G32_SINT,
    F::R32G32_SFLOAT,
    F::R32G32B32A32_UINT,
    F::R32G32B32A32_SINT,
    F::R32G32B32A32_SFLOAT,
];
