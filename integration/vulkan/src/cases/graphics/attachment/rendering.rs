// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dynamic renderings: what they may lack, and how one goes on in another command buffer ("Dynamic Render Pass Instances").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, GREEN, Lab, Outcome, Plan, RED, Rendering, Slot, at, boxed, depth_form, pictured,
    rectangle, require, same, whole_area,
};
use ash::vk::{self, RenderingFlags as R};

pub(super) const CASES: &[Case] = &[
    case(
        "rendering.in-turn",
        "renderings of one command buffer draw on their own targets",
        |lab| {
            let gpu = lab.graphics()?;
            let brush = gpu.drawer(&Plan::plain()?)?;
            let vertices = gpu.corners(&[whole_area(RED), whole_area(GREEN)].concat())?;
            let (first, second) = (gpu.colours()?, gpu.colours()?);
            gpu.run(|commands| {
                commands.brush(&brush).vertices(&vertices);
                commands.begin(&Rendering::blank(first)).draw(6).end();
                commands.begin(&Rendering::blank(second)).draw_some([6, 1], [6, 0]).end();
            })?;
            pictured(&gpu.words(first)?, |_, _| RED)?;
            pictured(&gpu.words(second)?, |_, _| GREEN)
        },
    ),
    case(
        "rendering.without-targets",
        "fragments store what they see where there is no target",
        without,
    ),
    case("rendering.depth-alone", "a rendering of depths alone stores these", |lab| {
        let gpu = lab.graphics()?;
        let depths = gpu.canvas(depth_form(vk::Format::D16_UNORM))?;
        let mut plan = Plan::plain()?;
        plan.targets(&[]).with_depth(depths, vk::CompareOp::LESS);
        let rendering = Rendering::of(&[]).depth(depths.filled_to(1.0, 0));
        crate::lab::sketch_on(&gpu, &rendering, &plan, &at(0.0, &whole_area(RED)))?;
        same!(gpu.bytes_of_canvas(depths, crate::lab::DEPTH)?, vec![0; 512]);
        Ok(())
    }),
    case("rendering.unused-depth", "a pipeline that tests no depths draws beside depths", |lab| {
        let gpu = lab.graphics()?;
        let (canvas, depths) = (gpu.colours()?, gpu.canvas(depth_form(vk::Format::D16_UNORM))?);
        let mut plan = Plan::plain()?;
        plan.depth_format = vk::Format::D16_UNORM;
        let rendering = Rendering::blank(canvas).depth(depths.filled_to(0.0, 0));
        crate::lab::sketch_on(&gpu, &rendering, &plan, &at(0.5, &whole_area(RED)))?;
        pictured(&gpu.words(canvas)?, |_, _| RED)
    }),
    case(
        "rendering.suspended",
        "a rendering goes on after it was suspended in a command buffer",
        |lab| suspended(lab, 1),
    ),
    case(
        "rendering.resumed",
        "a rendering goes on in the next command buffer of a submission",
        |lab| suspended(lab, 2),
    ),
    case("rendering.resumed-twice", "a rendering goes on over three command buffers", |lab| {
        suspended(lab, 3)
    }),
    case(
        "rendering.submitted-together",
        "two command buffers of one submission draw in their order",
        together,
    ),
];

fn without(lab: &Lab) -> Outcome {
    lab.needs("fragmentStoresAndAtomics", lab.features().core.fragment_stores_and_atomics)?;
    let gpu = lab.graphics()?;
    let source = "
        @group(0) @binding(0) var<storage, read_write> stored: array<u32>;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment(@builtin(position) place: vec4<f32>) {
            stored[u32(place.x) + 16u * u32(place.y)] = 7u;
        }";
    let mut plan = Plan::of(source)?;
    plan.targets(&[]);
    plan.slots = vec![Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1)];
    let part = [2.0, 3.0, 15.0, 9.0];
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&rectangle(part, RED))?);
    let stored = gpu.buffer(256)?;
    let set = gpu.set(&brush, &[stored])?;
    gpu.run(|commands| {
        commands.begin(&Rendering::of(&[])).brush(&brush).brush_sets(&brush, &[set], &[]);
        commands.vertices(&vertices).draw(6).end().barrier();
    })?;
    pictured(&stored.read(), boxed(part, 7, 0))
}

/// Draws three columns in one rendering that is suspended twice, over so many command buffers.
fn suspended(lab: &Lab, buffers: usize) -> Outcome {
    let gpu = lab.graphics()?;
    let queue = gpu.queue()?;
    let column = |place: f32| rectangle([place, 0.0, place + 4.0, 16.0], RED);
    let vertices = gpu.corners(&[column(0.0), column(4.0), column(12.0)].concat())?;
    let (brush, canvas) = (gpu.drawer(&Plan::plain()?)?, gpu.colours()?);
    let whole = Rendering::of(&[canvas.filled_with([0.0, 1.0, 0.0, 1.0])]);
    let parts = [R::SUSPENDING, R::RESUMING | R::SUSPENDING, R::RESUMING];
    let all: Vec<_> = (0..3).zip(parts.map(|flags| whole.clone().flags(flags))).collect();
    let recorded: Result<Vec<_>, _> = all
        .chunks(3usize.div_ceil(buffers))
        .map(|some| {
            gpu.record(queue, |commands| {
                commands.brush(&brush).vertices(&vertices);
                for (number, part) in some {
                    commands.begin(part).draw_some([6, 1], [6 * number, 0]).end();
                }
            })
        })
        .collect();
    gpu.finish(queue, &recorded?)?;
    let red = |x: f32| !(8.0..12.0).contains(&x);
    pictured(&gpu.words(canvas)?, |x, _| if red(x) { RED } else { GREEN })
}

fn together(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let queue = gpu.queue()?;
    let brush = gpu.drawer(&Plan::plain()?)?;
    let part = [3.0, 3.0, 9.0, 9.0];
    let vertices = gpu.corners(&[whole_area(RED), rectangle(part, GREEN)].concat())?;
    let canvas = gpu.colours()?;
    let first = gpu.record(queue, |commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.draw(6).end().barrier();
    })?;
    let second = gpu.record(queue, |commands| {
        commands.begin(&Rendering::on(canvas)).brush(&brush).vertices(&vertices);
        commands.draw_some([6, 1], [6, 0]).end();
    })?;
    gpu.finish(queue, &[first, second])?;
    let seen = gpu.words(canvas)?;
    require!(!seen.contains(&BLANK), "a part is blank");
    pictured(&seen, boxed(part, GREEN, RED))
}
