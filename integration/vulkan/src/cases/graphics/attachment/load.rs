// SPDX-License-Identifier: MIT OR Apache-2.0

//! What becomes of what a target holds: loaded, filled, stored, and written in part ("Load Operation", "Store Operation").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, BLUE, Canvas, GREEN, Gpu, Lab, Outcome, Plan, RED, Rendering, Target, WHITE, YELLOW,
    area, boxed, pictured, rectangle, sketch_on, whole_area,
};
use ash::vk::{self, AttachmentLoadOp, AttachmentStoreOp};

pub(super) const CASES: &[Case] = &[
    case("attachment.load", "what a target held is there where nothing is drawn", |lab| {
        drawn(lab, Canvas::loaded, boxed(PART, RED, GREEN))
    }),
    case("attachment.fill", "what a target held is gone where it is filled", |lab| {
        drawn(lab, |canvas| canvas.filled_with([0.0, 0.0, 1.0, 1.0]), boxed(PART, RED, BLUE))
    }),
    case("attachment.load-anything", "what is drawn is there whatever was loaded", |lab| {
        let gpu = lab.graphics()?;
        let canvas = green(&gpu)?;
        let target = Target { load: AttachmentLoadOp::DONT_CARE, ..canvas.loaded() };
        sketch_on(&gpu, &Rendering::of(&[target]), &Plan::plain()?, &whole_area(YELLOW))?;
        pictured(&gpu.words(canvas)?, |_, _| YELLOW)
    }),
    case(
        "attachment.store-none",
        "a target that is only read keeps what it held without a store",
        |lab| {
            let gpu = lab.graphics()?;
            let canvas = green(&gpu)?;
            let target = Target { store: AttachmentStoreOp::NONE, ..canvas.loaded() };
            let mut plan = Plan::plain()?;
            plan.blends[0].color_write_mask = vk::ColorComponentFlags::empty();
            sketch_on(&gpu, &Rendering::of(&[target]), &plan, &whole_area(RED))?;
            pictured(&gpu.words(canvas)?, |_, _| GREEN)
        },
    ),
    case("attachment.area", "what is beside the area of a rendering stays", |lab| {
        let gpu = lab.graphics()?;
        let canvas = green(&gpu)?;
        let rendering = Rendering::of(&[canvas.filled_with([0.0, 0.0, 1.0, 1.0])]);
        let rendering = rendering.within(area([2, 3], [9, 7]));
        let mut plan = Plan::plain()?;
        plan.scissors = vec![area([2, 3], [9, 7])];
        sketch_on(&gpu, &rendering, &plan, &rectangle([0.0, 0.0, 5.0, 16.0], RED))?;
        pictured(&gpu.words(canvas)?, |x, y| {
            let inside = boxed([2.0, 3.0, 5.0, 10.0], RED, BLUE)(x, y);
            boxed([2.0, 3.0, 11.0, 10.0], inside, GREEN)(x, y)
        })
    }),
    case("attachment.clear-parts", "parts of a target are filled between draws", |lab| {
        let gpu = lab.graphics()?;
        let canvas = green(&gpu)?;
        let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&rectangle(PART, RED))?);
        let value = vk::ClearValue { color: vk::ClearColorValue { float32: [0.0, 0.0, 1.0, 1.0] } };
        let clear = vk::ClearAttachment::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .clear_value(value);
        let rect = |place, extent| vk::ClearRect {
            rect: area(place, extent),
            base_array_layer: 0,
            layer_count: 1,
        };
        gpu.run(|commands| {
            commands.begin(&Rendering::on(canvas)).brush(&brush).vertices(&vertices).draw(6);
            commands
                .clear_targets(&[clear], &[rect([0, 0], [16, 5]), rect([10, 10], [6, 6])])
                .end();
        })?;
        pictured(&gpu.words(canvas)?, |x, y| match y < 5.0 || (x > 10.0 && y > 10.0) {
            true => BLUE,
            false => boxed(PART, RED, GREEN)(x, y),
        })
    }),
    case("attachment.several", "a fragment gives each of four targets its own colour", several),
    case("attachment.none-between", "a target that is none is passed over", |lab| between(lab, 1)),
    case("attachment.none-first", "the first target may be none", |lab| between(lab, 0)),
    case(
        "attachment.in-turn",
        "many renderings of one canvas each draw on what the last left",
        in_turn,
    ),
    case("attachment.nothing-drawn", "a rendering without draws fills its target", |lab| {
        let gpu = lab.graphics()?;
        let canvas = green(&gpu)?;
        gpu.run(|commands| {
            commands.begin(&Rendering::of(&[canvas.filled_with([1.0; 4])])).end();
        })?;
        pictured(&gpu.words(canvas)?, |_, _| WHITE)
    }),
];

const PART: [f32; 4] = [4.0, 2.0, 13.0, 12.0];

/// A green canvas.
fn green(gpu: &Gpu<'_>) -> Outcome<Canvas> {
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::of(&[canvas.filled_with([0.0, 1.0, 0.0, 1.0])])).end();
    })?;
    Ok(canvas)
}

/// Draws a red part of a canvas that was green.
fn drawn(
    lab: &Lab,
    target: impl FnOnce(Canvas) -> Target,
    right: impl Fn(f32, f32) -> u32,
) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = green(&gpu)?;
    let rendering = Rendering::of(&[target(canvas)]);
    sketch_on(&gpu, &rendering, &Plan::plain()?, &rectangle(PART, RED))?;
    pictured(&gpu.words(canvas)?, right)
}

/// Gives targets red, green, blue and yellow.
const FOUR: &str = "
    struct Four {
        @location(0) first: vec4<f32>,
        @location(1) second: vec4<f32>,
        @location(2) third: vec4<f32>,
        @location(3) fourth: vec4<f32>,
    }
    @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
    @fragment fn fragment() -> Four {
        return Four(vec4(1.0, 0.0, 0.0, 1.0), vec4(0.0, 1.0, 0.0, 1.0), vec4(0.0, 0.0, 1.0, 1.0), vec4(1.0, 1.0, 0.0, 1.0));
    }";

fn four(gpu: &Gpu<'_>) -> Outcome<[Canvas; 4]> {
    Ok([gpu.colours()?, gpu.colours()?, gpu.colours()?, gpu.colours()?])
}

fn several(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let canvases = four(&gpu)?;
    let mut plan = Plan::of(FOUR)?;
    plan.targets(&[vk::Format::R8G8B8A8_UNORM; 4]);
    let targets = canvases.map(|canvas| canvas.filled_with([0.0; 4]));
    sketch_on(&gpu, &Rendering::of(&targets), &plan, &rectangle(PART, RED))?;
    for (canvas, colour) in canvases.into_iter().zip([RED, GREEN, BLUE, YELLOW]) {
        pictured(&gpu.words(canvas)?, boxed(PART, colour, BLANK))?;
    }
    Ok(())
}

/// One of four targets is none.
fn between(lab: &Lab, none: usize) -> Outcome {
    let gpu = lab.graphics()?;
    let canvases = four(&gpu)?;
    let mut plan = Plan::of(FOUR)?;
    plan.targets(&[vk::Format::R8G8B8A8_UNORM; 4]);
    plan.targets[none] = vk::Format::UNDEFINED;
    plan.blends[none].color_write_mask = vk::ColorComponentFlags::empty();
    let independent = lab.features().core.independent_blend;
    lab.needs("independentBlend", independent)?;
    let mut rendering = Rendering::of(&canvases.map(|canvas| canvas.filled_with([0.0; 4])));
    rendering.colours[none] = None;
    sketch_on(&gpu, &rendering, &plan, &rectangle(PART, RED))?;
    for (place, colour) in [RED, GREEN, BLUE, YELLOW].into_iter().enumerate() {
        if place != none {
            pictured(&gpu.words(canvases[place])?, boxed(PART, colour, BLANK))?;
        }
    }
    Ok(())
}

fn in_turn(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = gpu.colours()?;
    let column = |x: u32| rectangle([x as f32, 0.0, x as f32 + 1.0, 16.0], 0xff00_0000 | x);
    let vertices = gpu.corners(&(0..16).flat_map(column).collect::<Vec<_>>())?;
    let brush = gpu.drawer(&Plan::plain()?)?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).end().brush(&brush).vertices(&vertices);
        for x in 0..16 {
            commands.barrier().begin(&Rendering::on(canvas)).draw_some([6, 1], [6 * x, 0]).end();
        }
    })?;
    pictured(&gpu.words(canvas)?, |x, _| 0xff00_0000 | x as u32)
}
