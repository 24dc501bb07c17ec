// SPDX-License-Identifier: MIT OR Apache-2.0

//! How samples become one ("Resolving Multisample Images", "Render Pass Multisample Resolve Operations").

use super::scene::{FOUR, apart, canvas, plan};
use crate::case::{Case, case};
use crate::lab::{
    BLANK, Canvas, DEPTH, GREEN, Gpu, Lab, Outcome, PLAIN, Plan, RED, Rendering, at, boxed,
    colour_form, depth_form, pictured, pictured_nearly, require, same, sketch_on, whole_area,
};
use ash::vk::{self, ImageLayout as L, ResolveModeFlags as Mode};

pub(super) const CASES: &[Case] = &[
    case("resolve.average", "a command makes the mean of a texel's samples", |lab| {
        let gpu = lab.graphics()?;
        let seen = super::scene::resolved(&gpu, quartered(&gpu)?)?;
        pictured_nearly(&seen, 1, |_, _| MEAN)
    }),
    case(
        "resolve.part",
        "a part is resolved to another place, and what is beside it stays",
        |lab| part(lab, false),
    ),
    case("resolve.newer", "a command of Vulkan 1.3 resolves a part", |lab| part(lab, true)),
    case("resolve.rendering", "the end of a rendering resolves its target", |lab| {
        let gpu = lab.graphics()?;
        let (several, one) = (canvas(&gpu)?, gpu.colours()?);
        let target = several.filled_with([0.0, 1.0, 0.0, 1.0]).resolved(Mode::AVERAGE, one);
        quarter(&gpu, target)?;
        pictured_nearly(&gpu.words(one)?, 1, |_, _| MEAN)
    }),
    case("resolve.dropped", "a target is resolved whose samples are not kept", |lab| {
        let gpu = lab.graphics()?;
        let (several, one) = (canvas(&gpu)?, gpu.colours()?);
        let target = several.filled_with([0.0, 1.0, 0.0, 1.0]).resolved(Mode::AVERAGE, one);
        quarter(&gpu, target.dropped())?;
        pictured_nearly(&gpu.words(one)?, 1, |_, _| MEAN)
    }),
    case("resolve.kept", "samples stay what they were where they are resolved and kept", |lab| {
        let gpu = lab.graphics()?;
        let (several, one) = (canvas(&gpu)?, gpu.colours()?);
        let target = several.filled_with([0.0, 1.0, 0.0, 1.0]).resolved(Mode::AVERAGE, one);
        quarter(&gpu, target)?;
        for (sample, texels) in apart(&gpu, several)?.iter().enumerate() {
            pictured(texels, |_, _| if sample == 0 { RED } else { GREEN })?;
        }
        Ok(())
    }),
    case("resolve.integers", "whole numbers are resolved to those of the first sample", integers),
    case("resolve.depth", "depths are resolved to those of the first sample", |lab| {
        depth(lab, Mode::SAMPLE_ZERO, 0.25)
    }),
    case("resolve.depth-least", "depths are resolved to the least", |lab| {
        depth(lab, Mode::MIN, 0.25)
    }),
    case("resolve.depth-greatest", "depths are resolved to the greatest", |lab| {
        depth(lab, Mode::MAX, 1.0)
    }),
    case("resolve.several", "each target of a rendering is resolved to its own", several),
];

/// A quarter of red, and three of green.
const MEAN: u32 = 0xff00_bf40;

/// Draws red on the first sample of a target.
fn quarter(gpu: &Gpu<'_>, target: crate::lab::Target) -> Outcome {
    let mut plan = plan(PLAIN)?;
    plan.mask = Some(1);
    sketch_on(gpu, &Rendering::of(&[target]), &plan, &whole_area(RED))
}

/// A canvas whose first samples are red, and whose others are green.
fn quartered(gpu: &Gpu<'_>) -> Outcome<Canvas> {
    let canvas = canvas(gpu)?;
    quarter(gpu, canvas.filled_with([0.0, 1.0, 0.0, 1.0]))?;
    Ok(canvas)
}

fn part(lab: &Lab, newer: bool) -> Outcome {
    let gpu = lab.graphics()?;
    let (several, one) = (quartered(&gpu)?, gpu.colours()?);
    let layers = one.image.form.layers_of(0, 0, 1);
    let region = vk::ImageResolve::default()
        .src_subresource(layers)
        .src_offset(vk::Offset3D { x: 1, y: 2, z: 0 })
        .dst_subresource(layers)
        .dst_offset(vk::Offset3D { x: 5, y: 3, z: 0 })
        .extent(vk::Extent3D { width: 7, height: 9, depth: 1 });
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(one)).end();
        commands.change(several.image, [several.layout, L::TRANSFER_SRC_OPTIMAL]);
        commands.change(one.image, [one.layout, L::TRANSFER_DST_OPTIMAL]);
        match newer {
            true => commands.resolve_2(several.image, one.image, region),
            false => commands.resolve(several.image, one.image, &[region]),
        };
        commands.change(one.image, [L::TRANSFER_DST_OPTIMAL, one.layout]);
    })?;
    pictured_nearly(&gpu.words(one)?, 1, boxed([5.0, 3.0, 12.0, 12.0], MEAN, BLANK))
}

fn integers(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let form = colour_form(vk::Format::R32_UINT);
    let counts = lab.description().since_1_2.framebuffer_integer_color_sample_counts;
    if !counts.contains(FOUR) {
        return Err(crate::lab::Failure::not_offered("whole numbers of four samples"));
    }
    let (several, one) = (gpu.canvas(form.samples(FOUR))?, gpu.canvas(form)?);
    let source = "
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment() -> @location(0) u32 { return 4000000001u; }";
    let mut plan = plan(source)?;
    plan.targets(&[vk::Format::R32_UINT]).mask = Some(1);
    let target = several.filled_with_words([3; 4]).resolved(Mode::SAMPLE_ZERO, one);
    sketch_on(&gpu, &Rendering::of(&[target]), &plan, &whole_area(RED))?;
    same!(gpu.words(one)?, vec![4_000_000_001; 256]);
    Ok(())
}

/// The first sample has a depth of a quarter, and the others of 1.
fn depth(lab: &Lab, mode: Mode, right: f32) -> Outcome {
    let modes = lab.description().since_1_2.supported_depth_resolve_modes;
    if mode == Mode::SAMPLE_ZERO {
        lab.graphics()?;
        require!(modes.contains(mode), "a device must resolve depths to the first sample's");
    }
    lab.needs("the mode of resolving depths", vk::Bool32::from(modes.contains(mode)))?;
    let gpu = lab.graphics()?;
    let form = depth_form(vk::Format::D16_UNORM);
    let (several, one) = (gpu.canvas(form.samples(FOUR))?, gpu.canvas(form)?);
    let mut plan = plan(PLAIN)?;
    plan.targets(&[]).with_depth(several, vk::CompareOp::LESS).mask = Some(1);
    let target = several.filled_to(1.0, 0).resolved(mode, one);
    sketch_on(&gpu, &Rendering::of(&[]).depth(target), &plan, &at(0.25, &whole_area(RED)))?;
    let bytes = gpu.bytes_of_canvas(one, DEPTH)?;
    let near =
        |texel: &[u8; 2]| (f32::from(u16::from_le_bytes(*texel)) / 65535.0 - right).abs() < 3e-5;
    require!(bytes.as_chunks().0.iter().all(near), "{:?} is not {right}", bytes.first_chunk::<2>());
    Ok(())
}

fn several(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let source = "
        struct Both { @location(0) first: vec4<f32>, @location(1) second: vec4<f32> }
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment() -> Both { return Both(vec4(1.0, 0.0, 0.0, 1.0), vec4(0.0, 1.0, 0.0, 1.0)); }";
    let mut plan: Plan<'_> = plan(source)?;
    plan.targets(&[vk::Format::R8G8B8A8_UNORM; 2]).mask = Some(0b0110);
    let (first, second) = (gpu.colours()?, gpu.colours()?);
    let target = |one| -> Outcome<_> {
        Ok(canvas(&gpu)?.filled_with([0.0; 4]).resolved(Mode::AVERAGE, one).dropped())
    };
    let rendering = Rendering::of(&[target(first)?, target(second)?]);
    sketch_on(&gpu, &rendering, &plan, &whole_area(RED))?;
    pictured_nearly(&gpu.words(first)?, 1, |_, _| 0x8000_0080)?;
    pictured_nearly(&gpu.words(second)?, 1, |_, _| 0x8000_8000)
}
