// SPDX-License-Identifier: MIT OR Apache-2.0

//! How blending is set, and what it is done to.

use crate::case::{Case, case};
use crate::lab::{
    BLANK, GREEN, Lab, Outcome, Plan, RED, Rendering, State, WHITE, YELLOW, colour_form, pictured,
    pictured_nearly, require, same, sketch, sketch_on, srgb, whole_area,
};
use ash::vk::{self, BlendFactor as F, ColorComponentFlags as C};

pub(super) const CASES: &[Case] = &[
    case("blend.off", "what is drawn replaces what was there where nothing is blended", |lab| {
        let gpu = lab.graphics()?;
        let all = [whole_area(WHITE), whole_area(0x1234_5678)].concat();
        pictured(&sketch(&gpu, &Plan::plain()?, &all)?, |_, _| 0x1234_5678)
    }),
    case("blend.in-order", "triangles of one draw are blended in their order", |lab| {
        let gpu = lab.graphics()?;
        let mut plan = Plan::plain()?;
        // Each halves what is there, and adds a half of its own.
        plan.blends[0] = halves(F::SRC_ALPHA, F::ONE_MINUS_SRC_ALPHA);
        let half = |colour: u32| colour & 0x00ff_ffff | 0x8000_0000;
        let all = [GREEN, RED, GREEN, RED].map(|colour| whole_area(half(colour))).concat();
        // A half, and an eighth; a quarter and a sixteenth.
        pictured_nearly(
            &sketch(&gpu, &plan, &all)?.iter().map(|it| it & 0x00ff_ffff).collect::<Vec<_>>(),
            2,
            |_, _| 0x0000_509f,
        )
    }),
    case("blend.constants-dynamic", "a command sets the constants", |lab| {
        let gpu = lab.graphics()?;
        let mut plan = Plan::plain()?;
        plan.blends[0] = halves(F::CONSTANT_COLOR, F::ZERO);
        plan.dynamic = vec![vk::DynamicState::BLEND_CONSTANTS];
        let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&whole_area(WHITE))?);
        let canvas = gpu.colours()?;
        gpu.run(|commands| {
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
            commands.state(State::BlendConstants([1.0, 0.2, 0.0, 1.0])).draw(6).end();
        })?;
        pictured_nearly(&gpu.words(canvas)?, 1, |_, _| 0xff00_33ff)
    }),
    case("blend.float", "numbers of floating point are not kept in a range", |lab| {
        let gpu = lab.graphics()?;
        let source = "
            @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
            @fragment fn fragment() -> @location(0) vec4<f32> { return vec4(3.0, -2.0, 0.5, 1.0); }";
        let mut plan = Plan::of(source)?;
        let format = vk::Format::R16G16B16A16_SFLOAT;
        plan.targets(&[format]);
        plan.blends[0] = halves(F::ONE, F::ONE);
        let canvas = gpu.canvas(colour_form(format))?;
        sketch_on(
            &gpu,
            &Rendering::of(&[canvas.filled_with([1.0, -6.0, 8.0, 0.0])]),
            &plan,
            &whole_area(RED),
        )?;
        let texel = gpu.words(canvas)?;
        // 4, -8, 8.5 and 1 as halves.
        same!(texel[..2], [0xc800_4400, 0x3c00_4840]);
        Ok(())
    }),
    case("blend.kept-in-range", "sums are kept in the range of their target", |lab| {
        let gpu = lab.graphics()?;
        let mut plan = Plan::plain()?;
        plan.blends[0] = halves(F::ONE, F::ONE);
        let all = [whole_area(0xff80_c0ff), whole_area(0xff90_c0ff)].concat();
        pictured(&sketch(&gpu, &plan, &all)?, |_, _| WHITE)
    }),
    case("blend.srgb", "colours of sRGB are blended as linear ones", |lab| {
        let gpu = lab.graphics()?;
        let format = vk::Format::R8G8B8A8_SRGB;
        lab.needs_feature(format, vk::FormatFeatureFlags::COLOR_ATTACHMENT_BLEND)?;
        let mut plan = Plan::plain()?;
        plan.targets(&[format]);
        plan.blends[0] = halves(F::SRC_ALPHA, F::ONE_MINUS_SRC_ALPHA);
        let canvas = gpu.canvas(colour_form(format))?;
        let rendering = Rendering::of(&[canvas.filled_with([0.0, 0.0, 0.0, 1.0])]);
        sketch_on(&gpu, &rendering, &plan, &whole_area(0x80ff_ffff))?;
        let seen = gpu.words(canvas)?[0] & 0xff;
        let right = srgb(128.0 / 255.0) * 255.0;
        require!((f64::from(seen) - right).abs() <= 1.6, "{seen} is not {right}");
        Ok(())
    }),
    case("blend.mask", "components that are not written stay", |lab| {
        masked(lab, C::G | C::A, 0xff00_00ff | 0x0000_ff00 & WHITE)
    }),
    case("blend.mask-alpha", "alpha alone is written", |lab| masked(lab, C::A, 0xff00_00ff)),
    case("blend.mask-none", "nothing is written where no component is", |lab| {
        masked(lab, C::empty(), 0x4000_00ff)
    }),
    case("blend.independent", "each target is blended in its own way", independent),
    case(
        "blend.of-one-target",
        "a target that is not blended stays so beside one that is",
        |lab| several(lab, [F::ZERO, F::ONE], &[YELLOW, GREEN]),
    ),
];

/// Colours and alphas are added with these factors.
fn halves(source: F, destination: F) -> vk::PipelineColorBlendAttachmentState {
    vk::PipelineColorBlendAttachmentState::default()
        .blend_enable(true)
        .src_color_blend_factor(source)
        .dst_color_blend_factor(destination)
        .src_alpha_blend_factor(source)
        .dst_alpha_blend_factor(destination)
        .color_write_mask(C::RGBA)
}

/// Draws white over red with a quarter of alpha.
fn masked(lab: &Lab, mask: C, right: u32) -> Outcome {
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    plan.blends[0].color_write_mask = mask;
    let canvas = gpu.colours()?;
    let rendering = Rendering::of(&[canvas.filled_with([1.0, 0.0, 0.0, 64.0 / 255.0])]);
    sketch_on(&gpu, &rendering, &plan, &whole_area(WHITE))?;
    pictured(&gpu.words(canvas)?, |_, _| right)
}

fn independent(lab: &Lab) -> Outcome {
    several(lab, [F::ONE, F::ONE], &[YELLOW, YELLOW])?;
    several(lab, [F::ONE, F::ZERO], &[YELLOW, GREEN])
}

/// Draws green on two red targets: the first adds, and the second has these factors.
fn several(lab: &Lab, [source, destination]: [F; 2], right: &[u32; 2]) -> Outcome {
    lab.needs("independentBlend", lab.features().core.independent_blend)?;
    let gpu = lab.graphics()?;
    let source_of_both = "
        struct Both { @location(0) first: vec4<f32>, @location(1) second: vec4<f32> }
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment() -> Both { return Both(vec4(0.0, 1.0, 0.0, 1.0), vec4(0.0, 1.0, 0.0, 1.0)); }";
    let mut plan = Plan::of(source_of_both)?;
    plan.targets(&[vk::Format::R8G8B8A8_UNORM; 2]);
    plan.blends[0] = halves(F::ONE, F::ONE);
    plan.blends[1] = halves(source, destination);
    if source == F::ZERO {
        plan.blends[1].blend_enable = vk::FALSE;
    }
    let canvases = [gpu.colours()?, gpu.colours()?];
    let red = canvases.map(|canvas| canvas.filled_with([1.0, 0.0, 0.0, 1.0]));
    sketch_on(&gpu, &Rendering::of(&red), &plan, &whole_area(BLANK))?;
    for (canvas, right) in canvases.into_iter().zip(right) {
        pictured(&gpu.words(canvas)?, |_, _| *right)?;
    }
    Ok(())
}
