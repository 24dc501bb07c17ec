// SPDX-License-Identifier: MIT OR Apache-2.0

//! What shaders see of each format's texels.

use super::apart::run;
use super::probe::plain;
use crate::case::{Case, case};
use crate::lab::{Code, Form, Kind, Lab, Outcome, require, srgb};
use ash::vk;
use ash::vk::Format as F;

/// Declares a case for each format: its name, its number, its components, and how they are stored.
macro_rules! cases {
    ($($name:literal, $format:ident, $components:literal, $kind:ident;)*) => {
        pub(super) const CASES: &[Case] = &[$(
            case(
                concat!("sampler.format.", $name),
                concat!("a shader fetches texels of the format ", $name),
                |lab| fetched(lab, Code::new(F::$format, "", $components, Kind::$kind)),
            ),
        )*
            case("sampler.format.srgb", "colours are decoded, alpha is not", decoded),
        ];
    };
}

cases! {
    "r8", R8_UNORM, 1, Unorm;
    "rg8", R8G8_UNORM, 2, Unorm;
    "rgba8", R8G8B8A8_UNORM, 4, Unorm;
    "rgba8-snorm", R8G8B8A8_SNORM, 4, Snorm;
    "r8ui", R8_UINT, 1, Uint;
    "rgba8ui", R8G8B8A8_UINT, 4, Uint;
    "rgba8i", R8G8B8A8_SINT, 4, Sint;
    "r16ui", R16_UINT, 1, Uint;
    "r16f", R16_SFLOAT, 1, Float;
    "rgba16f", R16G16B16A16_SFLOAT, 4, Float;
    "r32f", R32_SFLOAT, 1, Float;
    "r32ui", R32_UINT, 1, Uint;
    "rg32ui", R32G32_UINT, 2, Uint;
    "rgba32i", R32G32B32A32_SINT, 4, Sint;
    "rgba32f", R32G32B32A32_SFLOAT, 4, Float;
}

/// Has a shader fetch all texels of a row.
fn row(lab: &Lab, format: F, number: &str, bytes: Vec<u8>, texels: u32) -> Outcome<Vec<u32>> {
    let gpu = lab.gpu()?;
    let image = gpu.image_of(Form::flat(format, texels, 1).sampled(), &[bytes])?;
    let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D))?;
    let body = "return bitcast<vec4<u32>>(textureLoad(image, vec2<u32>(p.x, 0u), 0));";
    let places: Vec<u32> = (0..texels).flat_map(|x| [x, 0, 0, 0]).collect();
    let kind = format!("texture_2d<{number}>");
    run(&gpu, (&kind, body), (view, gpu.sampler(plain())?), &places)
}

fn fetched(lab: &Lab, code: Code) -> Outcome {
    let seen = row(lab, code.format, code.number(), code.bytes(100), 100)?;
    let expected = code.words(100);
    require!(code.are_near(&seen, &expected), "{seen:x?}, not {expected:x?}");
    Ok(())
}

fn decoded(lab: &Lab) -> Outcome {
    let bytes = (0..=255).flat_map(|byte: u8| [byte, 255 - byte, byte, byte]).collect();
    let seen = row(lab, F::R8G8B8A8_SRGB, "f32", bytes, 256)?;
    for (byte, texel) in (0..=255u8).zip(seen.chunks(4)) {
        let seen = [0, 1, 2, 3].map(|part| f64::from(f32::from_bits(texel[part])));
        // Each is nearer to its own byte than to a neighbour.
        for (part, expected) in [byte, 255 - byte, byte].into_iter().enumerate() {
            let again = srgb(seen[part]) * 255.0;
            require!((again - f64::from(expected)).abs() < 0.5, "{expected} is {}", seen[part]);
        }
        require!((seen[3] * 255.0 - f64::from(byte)).abs() < 1e-4, "alpha {byte} is {}", seen[3]);
    }
    Ok(())
}
