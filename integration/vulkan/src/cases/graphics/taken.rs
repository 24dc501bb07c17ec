// SPDX-License-Identifier: MIT OR Apache-2.0

//! What shaders of draws take beside vertices ("Push Constant Updates", "Descriptor Set Binding").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, GREEN, Lab, Outcome, Plan, RED, Rendering, Slot, YELLOW, boxed, colour_of, part,
    pictured, rectangle, same, whole, whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("draw.push", "push constants reach both stages, and each draw has its own", push),
    case("draw.uniform", "both stages read uniform and storage buffers of a set", uniform),
    case(
        "draw.dynamic-offset",
        "each draw reads a buffer from the offset that it was bound with",
        offset,
    ),
    case("draw.vertex-store", "vertices store what they are, each of them", vertex_store),
];

fn push(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let source = "
        struct Pushed { area: vec4<f32>, colour: vec4<f32> }
        var<immediate> pushed: Pushed;
        @vertex fn vertex(@builtin(vertex_index) vertex: u32) -> @builtin(position) vec4<f32> {
            let right = f32((0x32u >> vertex) & 1u);
            let low = f32((0x2cu >> vertex) & 1u);
            return vec4(mix(pushed.area.xy, pushed.area.zw, vec2(right, low)), 0.0, 1.0);
        }
        @fragment fn fragment() -> @location(0) vec4<f32> { return pushed.colour; }";
    let mut plan = Plan::bare(source)?;
    plan.push = 32;
    let (brush, canvas) = (gpu.drawer(&plan)?, gpu.colours()?);
    let pushed = |area: [f32; 4], colour| {
        [area, colour_of(colour)].concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush);
        commands.brush_push(&brush, &pushed([-1.0, -1.0, 1.0, 0.0], RED)).draw(6);
        commands.brush_push(&brush, &pushed([-1.0, 0.0, 1.0, 1.0], GREEN)).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, |_, y| if y < 8.0 { RED } else { GREEN })
}

fn uniform(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let source = "
        @group(0) @binding(0) var<uniform> move_by: vec4<f32>;
        @group(0) @binding(1) var<storage, read> colours: array<vec4<f32>>;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> {
            return place + move_by * colours[0].y;
        }
        @fragment fn fragment() -> @location(0) vec4<f32> { return colours[1] + move_by * 0.0; }";
    let mut plan = Plan::of(source)?;
    let kinds = [vk::DescriptorType::UNIFORM_BUFFER, vk::DescriptorType::STORAGE_BUFFER];
    plan.slots = vec![Slot(0, kinds[0], 1), Slot(1, kinds[1], 1)];
    let brush = gpu.drawer(&plan)?;
    let numbers = |all: &[f32]| all.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    let moved = gpu.buffer_of(&numbers(&[0.25, 0.5, 0.0, 0.0]))?;
    let colours = gpu.buffer_of(&numbers(&[0.0, 2.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0]))?;
    let set = gpu.empty_set(&brush, 0)?;
    for (binding, (kind, buffer)) in (0..).zip(kinds.into_iter().zip([moved, colours])) {
        gpu.write(set, binding, kind, &[whole(&buffer)]);
    }
    let vertices = gpu.corners(&rectangle([1.0, 1.0, 5.0, 5.0], RED))?;
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).brush_sets(&brush, &[set], &[]);
        commands.vertices(&vertices).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed([5.0, 9.0, 9.0, 13.0], YELLOW, BLANK))
}

fn offset(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let source = "
        @group(0) @binding(0) var<uniform> colour: vec4<f32>;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment() -> @location(0) vec4<f32> { return colour; }";
    let mut plan = Plan::of(source)?;
    let kind = vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC;
    plan.slots = vec![Slot(0, kind, 1)];
    let brush = gpu.drawer(&plan)?;
    // Every device allows offsets of 256 bytes.
    let colours = gpu.buffer(128)?;
    for (place, colour) in [(0, RED), (64, GREEN)] {
        colours.write_at(place, &colour_of(colour).map(f32::to_bits));
    }
    let set = gpu.empty_set(&brush, 0)?;
    gpu.write(set, 0, kind, &[part(&colours, 0, 16)]);
    let left = [0.0, 0.0, 8.0, 16.0];
    let vertices = gpu.corners(&[whole_area(RED), rectangle(left, RED)].concat())?;
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.brush_sets(&brush, &[set], &[256]).draw(6);
        commands.brush_sets(&brush, &[set], &[0]).draw_some([6, 1], [6, 0]).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed(left, RED, GREEN))
}

fn vertex_store(lab: &Lab) -> Outcome {
    lab.needs(
        "vertexPipelineStoresAndAtomics",
        lab.features().core.vertex_pipeline_stores_and_atomics,
    )?;
    let gpu = lab.graphics()?;
    let source = "
        @group(0) @binding(0) var<storage, read_write> stored: array<atomic<u32>>;
        @vertex fn vertex(@builtin(vertex_index) vertex: u32, @builtin(instance_index) instance: u32)
            -> @builtin(position) vec4<f32> {
            atomicMax(&stored[instance * 100u + vertex], vertex * 3u + 1u);
            return vec4(0.0, 0.0, 0.0, 1.0);
        }
        @fragment fn fragment() -> @location(0) vec4<f32> { return vec4(1.0); }";
    let mut plan = Plan::bare(source)?;
    plan.topology = vk::PrimitiveTopology::POINT_LIST;
    plan.slots = vec![Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1)];
    let (brush, canvas, stored) = (gpu.drawer(&plan)?, gpu.colours()?, gpu.buffer(300)?);
    let set = gpu.set(&brush, &[stored])?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).brush_sets(&brush, &[set], &[]);
        commands.draw_some([100, 3], [0, 0]).end().barrier();
    })?;
    let right: Vec<_> = (0..300).map(|place| place % 100 * 3 + 1).collect();
    same!(stored.read(), right);
    Ok(())
}
