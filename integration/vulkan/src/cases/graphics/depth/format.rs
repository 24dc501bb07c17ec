// SPDX-License-Identifier: MIT OR Apache-2.0

//! Formats of depths and stencils, and how exact they are.

use crate::case::{Case, case};
use crate::lab::{
    DEPTH, Lab, Outcome, Plan, RED, Rendering, STENCIL, aspects, at, depth_form, require, same,
    sketch_on, whole_area,
};
use ash::vk::{self, Format as F};

/// Declares cases of formats, of which a device may lack some.
macro_rules! formats {
    ($($name:literal $format:ident $bits:expr;)*) => {
        pub(super) const CASES: &[Case] = &[
            case("depth.format.required", "a device has the formats of depths that Vulkan demands", required),
            $(case(
                concat!("depth.format.", $name),
                concat!("depths of ", $name, " are filled, drawn and read"),
                |lab| stored(lab, F::$format, $bits),
            ),)*
            case("depth.format.s8", "stencils of s8 are filled and read without depths", |lab| {
                stencils(lab, F::S8_UINT)
            }),
            case("depth.format.s8-of-d24s8", "stencils of d24s8 are filled and read apart from depths", |lab| {
                stencils(lab, F::D24_UNORM_S8_UINT)
            }),
            case("depth.format.s8-of-d32s8", "stencils of d32s8 are filled and read apart from depths", |lab| {
                stencils(lab, F::D32_SFLOAT_S8_UINT)
            }),
        ];
    };
}

formats! {
    "d16" D16_UNORM Some(16);
    "x8d24" X8_D24_UNORM_PACK32 Some(24);
    "d24s8" D24_UNORM_S8_UINT Some(24);
    "d32" D32_SFLOAT None;
    "d32s8" D32_SFLOAT_S8_UINT None;
}

fn required(lab: &Lab) -> Outcome {
    lab.graphics()?;
    let draws = vk::FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT;
    let can = |format| lab.format(format).optimal_tiling_features.contains(draws);
    require!(can(F::D16_UNORM), "D16_UNORM is not drawn with");
    let either = |formats: [F; 2]| formats.into_iter().any(can);
    require!(either([F::X8_D24_UNORM_PACK32, F::D32_SFLOAT]), "no depths of 24 bits or more");
    require!(either([F::D24_UNORM_S8_UINT, F::D32_SFLOAT_S8_UINT]), "no depths with stencils");
    Ok(())
}

/// Fills with a depth, and draws another over a part.
fn stored(lab: &Lab, format: F, bits: Option<u32>) -> Outcome {
    lab.needs_feature(format, vk::FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT)?;
    let gpu = lab.graphics()?;
    let depths = gpu.canvas(depth_form(format))?;
    let mut plan = Plan::plain()?;
    plan.targets(&[]).with_depth(depths, vk::CompareOp::LESS);
    plan.scissors = vec![crate::lab::area([0, 0], [16, 8])];
    let mut rendering = Rendering::of(&[]).depth(depths.filled_to(0.75, 0));
    if aspects(format).contains(STENCIL) {
        rendering = rendering.stencil(depths.filled_to(0.75, 0));
    }
    sketch_on(&gpu, &rendering, &plan, &at(0.3, &whole_area(RED)))?;
    let bytes = gpu.bytes_of_canvas(depths, DEPTH)?;
    let width = bytes.len() / 256;
    for (place, texel) in bytes.chunks(width).enumerate() {
        let mut word = [0; 4];
        word[..width].copy_from_slice(texel);
        let word = u32::from_le_bytes(word);
        let right = if place < 128 { 0.3 } else { 0.75 };
        let seen = match bits {
            // Where there are 24 bits, the other eight mean nothing.
            Some(bits) => {
                let most = (1u32 << bits) - 1;
                f64::from(word & most) / f64::from(most)
            }
            None => f64::from(f32::from_bits(word)),
        };
        let off = bits.map_or(1e-6, |bits| 1.5 / f64::from(1u32 << bits));
        require!((seen - right).abs() <= off, "texel {place} is {seen}, not {right}");
    }
    Ok(())
}

fn stencils(lab: &Lab, format: F) -> Outcome {
    lab.needs_feature(format, vk::FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT)?;
    let gpu = lab.graphics()?;
    let canvas = gpu.canvas(depth_form(format))?;
    let filled = Rendering::of(&[]).stencil(canvas.filled_to(0.5, 0xa7));
    gpu.run(|commands| {
        commands.begin(&filled).end();
    })?;
    same!(gpu.bytes_of_canvas(canvas, STENCIL)?, vec![0xa7; 256]);
    Ok(())
}
