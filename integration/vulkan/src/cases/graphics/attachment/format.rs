// SPDX-License-Identifier: MIT OR Apache-2.0

//! Formats of colours that every device draws ("Required Format Support"), and how colours become texels ("Numeric Conversion").

use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, Plan, Rendering, colour_form, same, sketch_on, whole_area};
use ash::vk::{self, Format as F};

/// Declares cases: a format, the type of a component in a shader, a colour to fill with and its texel, and one to draw and its texel.
macro_rules! formats {
    ($($name:literal $format:ident $number:literal $filled:expr, $drawn:literal, $texel:expr;)*) => {
        pub(super) const CASES: &[Case] = &[$(case(
            concat!("attachment.format.", $name),
            concat!("targets of ", $name, " are filled and drawn"),
            |lab| {
                let (value, filled) = $filled;
                stored(lab, F::$format, ($number, $drawn), value, [&filled.concat(), &$texel.concat()])
            },
        ),)*];
    };
}

fn real(float32: [f32; 4]) -> vk::ClearColorValue {
    vk::ClearColorValue { float32 }
}

fn whole(uint32: [u32; 4]) -> vk::ClearColorValue {
    vk::ClearColorValue { uint32 }
}

fn signed(int32: [i32; 4]) -> vk::ClearColorValue {
    vk::ClearColorValue { int32 }
}

formats! {
    "r8unorm" R8_UNORM "f32" (real([0.2, 0.0, 0.0, 0.0]), [[51u8]]), "0.6, 1.0, 1.0, 1.0", [[153u8]];
    "rg8unorm" R8G8_UNORM "f32" (real([0.2, 0.8, 0.0, 0.0]), [[51u8, 204]]), "0.6, 1.0, 0.5, 0.5", [[153u8, 255]];
    "rgba8unorm" R8G8B8A8_UNORM "f32" (real([0.2, 0.8, 0.0, 1.0]), [[51u8, 204, 0, 255]]), "0.6, 2.0, -1.0, 0.4", [[153u8, 255, 0, 102]];
    "rgba8srgb" R8G8B8A8_SRGB "f32" (real([0.0, 1.0, 0.0, 0.2]), [[0u8, 255, 0, 51]]), "1.0, 0.0, 1.0, 0.6", [[255u8, 0, 255, 153]];
    "bgra8unorm" B8G8R8A8_UNORM "f32" (real([0.2, 0.8, 0.0, 1.0]), [[0u8, 204, 51, 255]]), "0.6, 1.0, 0.0, 0.4", [[0u8, 255, 153, 102]];
    "bgra8srgb" B8G8R8A8_SRGB "f32" (real([0.0, 1.0, 1.0, 0.2]), [[255u8, 255, 0, 51]]), "1.0, 0.0, 0.0, 0.6", [[0u8, 0, 255, 153]];
    "abgr8unorm" A8B8G8R8_UNORM_PACK32 "f32" (real([0.2, 0.8, 0.0, 1.0]), [[51u8, 204, 0, 255]]), "0.6, 1.0, 0.0, 0.4", [[153u8, 255, 0, 102]];
    "abgr8uint" A8B8G8R8_UINT_PACK32 "u32" (whole([1, 2, 3, 4]), [[1u8, 2, 3, 4]]), "5u, 6u, 255u, 8u", [[5u8, 6, 255, 8]];
    "rgba8uint" R8G8B8A8_UINT "u32" (whole([1, 2, 3, 4]), [[1u8, 2, 3, 4]]), "5u, 6u, 255u, 8u", [[5u8, 6, 255, 8]];
    "rgba8sint" R8G8B8A8_SINT "i32" (signed([1, -2, 3, -4]), [[1u8, 254, 3, 252]]), "-128, 127, 0, -1", [[128u8, 127, 0, 255]];
    "r8uint" R8_UINT "u32" (whole([77, 0, 0, 0]), [[77u8]]), "200u, 1u, 1u, 1u", [[200u8]];
    "rg8sint" R8G8_SINT "i32" (signed([-1, 100, 0, 0]), [[255u8, 100]]), "-100, 3, 1, 1", [[156u8, 3]];
    "a2bgr10unorm" A2B10G10R10_UNORM_PACK32 "f32" (real([0.0, 1.0, 0.0, 1.0]), [(3u32 << 30 | 1023 << 10).to_le_bytes()]),
        "1.0, 0.0, 1.0, 0.0", [(1023u32 << 20 | 1023).to_le_bytes()];
    "a2bgr10uint" A2B10G10R10_UINT_PACK32 "u32" (whole([1, 2, 1000, 2]), [(2u32 << 30 | 1000 << 20 | 2 << 10 | 1).to_le_bytes()]),
        "900u, 3u, 4u, 1u", [(1u32 << 30 | 4 << 20 | 3 << 10 | 900).to_le_bytes()];
    "a1rgb5" A1R5G5B5_UNORM_PACK16 "f32" (real([1.0, 0.0, 0.0, 1.0]), [0xfc00u16.to_le_bytes()]), "0.0, 1.0, 1.0, 0.0", [0x03ffu16.to_le_bytes()];
    "r5g6b5" R5G6B5_UNORM_PACK16 "f32" (real([1.0, 0.0, 1.0, 1.0]), [0xf81fu16.to_le_bytes()]), "0.0, 1.0, 0.0, 0.0", [0x07e0u16.to_le_bytes()];
    "r16uint" R16_UINT "u32" (whole([40_000, 0, 0, 0]), [40_000u16.to_le_bytes()]), "513u, 1u, 1u, 1u", [513u16.to_le_bytes()];
    "r16float" R16_SFLOAT "f32" (real([1.5, 0.0, 0.0, 0.0]), [0x3e00u16.to_le_bytes()]), "-4.0, 1.0, 1.0, 1.0", [0xc400u16.to_le_bytes()];
    "rg16uint" R16G16_UINT "u32" (whole([1, 65_535, 0, 0]), [1u16, 65_535].map(u16::to_le_bytes)), "9u, 300u, 1u, 1u", [9u16, 300].map(u16::to_le_bytes);
    "rg16float" R16G16_SFLOAT "f32" (real([1.0, -2.0, 0.0, 0.0]), [0x3c00u16, 0xc000].map(u16::to_le_bytes)), "0.5, 65504.0, 1.0, 1.0", [0x3800u16, 0x7bff].map(u16::to_le_bytes);
    "rgba16uint" R16G16B16A16_UINT "u32" (whole([1, 2, 3, 65_535]), [1u16, 2, 3, 65_535].map(u16::to_le_bytes)), "9u, 8u, 700u, 6u", [9u16, 8, 700, 6].map(u16::to_le_bytes);
    "rgba16sint" R16G16B16A16_SINT "i32" (signed([1, -2, 3, -32_768]), [1i16, -2, 3, -32_768].map(i16::to_le_bytes)), "-9, 8, -700, 6", [-9i16, 8, -700, 6].map(i16::to_le_bytes);
    "rgba16float" R16G16B16A16_SFLOAT "f32" (real([1.0, -2.0, 0.5, 65_504.0]), [0x3c00u16, 0xc000, 0x3800, 0x7bff].map(u16::to_le_bytes)),
        "0.25, 8.0, -1.0, 0.0", [0x3400u16, 0x4800, 0xbc00, 0].map(u16::to_le_bytes);
    "r32uint" R32_UINT "u32" (whole([0xdead_beef, 0, 0, 0]), [0xdead_beefu32.to_le_bytes()]), "4000000001u, 1u, 1u, 1u", [4_000_000_001u32.to_le_bytes()];
    "r32sint" R32_SINT "i32" (signed([i32::MIN, 0, 0, 0]), [i32::MIN.to_le_bytes()]), "-77, 1, 1, 1", [(-77i32).to_le_bytes()];
    "r32float" R32_SFLOAT "f32" (real([0.1, 0.0, 0.0, 0.0]), [0.1f32.to_le_bytes()]), "-3.5e30, 1.0, 1.0, 1.0", [(-3.5e30f32).to_le_bytes()];
    "rg32uint" R32G32_UINT "u32" (whole([1, u32::MAX, 0, 0]), [1, u32::MAX].map(u32::to_le_bytes)), "5u, 6u, 1u, 1u", [5u32, 6].map(u32::to_le_bytes);
    "rg32float" R32G32_SFLOAT "f32" (real([0.1, 2e9, 0.0, 0.0]), [0.1f32, 2e9].map(f32::to_le_bytes)), "5.5, -6.0, 1.0, 1.0", [5.5f32, -6.0].map(f32::to_le_bytes);
    "rgba32uint" R32G32B32A32_UINT "u32" (whole([1, 2, 3, u32::MAX]), [1, 2, 3, u32::MAX].map(u32::to_le_bytes)), "9u, 8u, 7u, 6u", [9u32, 8, 7, 6].map(u32::to_le_bytes);
    "rgba32sint" R32G32B32A32_SINT "i32" (signed([1, -2, 3, i32::MIN]), [1, -2, 3, i32::MIN].map(i32::to_le_bytes)), "-9, 8, -7, 6", [-9i32, 8, -7, 6].map(i32::to_le_bytes);
    "rgba32float" R32G32B32A32_SFLOAT "f32" (real([0.1, -3.5, 1e20, 0.0]), [0.1f32, -3.5, 1e20, 0.0].map(f32::to_le_bytes)),
        "0.25, 8.0, -1.0, 3.0", [0.25f32, 8.0, -1.0, 3.0].map(f32::to_le_bytes);
}

/// Fills a canvas, and draws the upper half.
fn stored(
    lab: &Lab,
    format: F,
    (number, drawn): (&str, &str),
    color: vk::ClearColorValue,
    [filled, texel]: [&[u8]; 2],
) -> Outcome {
    let gpu = lab.graphics()?;
    let source = format!(
        "@vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> {{ return place; }}
        @fragment fn fragment() -> @location(0) vec4<{number}> {{ return vec4<{number}>({drawn}); }}"
    );
    let mut plan = Plan::of(&source)?;
    plan.targets(&[format]);
    plan.scissors = vec![crate::lab::area([0, 0], [16, 8])];
    let canvas = gpu.canvas(colour_form(format))?;
    let mut target = canvas.filled_with([0.0; 4]);
    target.value = vk::ClearValue { color };
    sketch_on(&gpu, &Rendering::of(&[target]), &plan, &whole_area(0))?;
    let seen = gpu.bytes_of_canvas(canvas, vk::ImageAspectFlags::COLOR)?;
    let (upper, lower) = seen.split_at(seen.len() / 2);
    same!(upper, texel.repeat(128));
    same!(lower, filled.repeat(128));
    Ok(())
}
