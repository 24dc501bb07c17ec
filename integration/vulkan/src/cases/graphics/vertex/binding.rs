// SPDX-License-Identifier: MIT OR Apache-2.0

//! Buffers of vertices, and where shaders find them ("Vertex Input Description", "Programmable Primitive Shading").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, BLUE, Corner, GREEN, Lab, Outcome, Plan, RED, Rendering, YELLOW, boxed, colour_of,
    pictured, rectangle, require, whole_area,
};
use ash::vk;

const FLOATS: vk::Format = vk::Format::R32G32B32A32_SFLOAT;
const EACH_VERTEX: vk::VertexInputRate = vk::VertexInputRate::VERTEX;
const EACH_INSTANCE: vk::VertexInputRate = vk::VertexInputRate::INSTANCE;
const AREA: [f32; 4] = [3.0, 2.0, 11.0, 13.0];

pub(super) const CASES: &[Case] = &[
    case("vertex.offset", "a buffer of vertices begins at the byte that it is bound from", |lab| {
        one_buffer(lab, [48, 32, 0])
    }),
    case("vertex.stride", "vertices are as far apart as the pipeline says", |lab| {
        one_buffer(lab, [0, 52, 0])
    }),
    case("vertex.attribute-offset", "numbers of a vertex begin at their own bytes", |lab| {
        one_buffer(lab, [16, 64, 20])
    }),
    case(
        "vertex.dynamic-stride",
        "vertices are as far apart as the command says that binds them",
        dynamic_stride,
    ),
    case("vertex.several-buffers", "numbers of a vertex come from several buffers", several),
    case(
        "vertex.bound-apart",
        "buffers are bound one by one, and the last at a binding counts",
        apart,
    ),
    case(
        "vertex.instance",
        "numbers of an instance are the same for all of its vertices",
        instance,
    ),
    case(
        "vertex.first-instance",
        "numbers of instances are read from the first instance on",
        |lab| instances(lab, [2, 2], [BLUE, YELLOW]),
    ),
    case("vertex.stride-of-none", "vertices that are no bytes apart are the same", none_apart),
    case("vertex.many", "a vertex has numbers at sixteen locations, from as many buffers", many),
];

/// Draws from one buffer, whose vertices begin at a byte, are so far apart, and have bytes before their numbers.
fn one_buffer(lab: &Lab, [offset, stride, before]: [u32; 3]) -> Outcome {
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    plan.bindings[0].stride = stride;
    plan.attributes[0].offset += before;
    plan.attributes[1].offset += before;
    let corners = rectangle(AREA, GREEN);
    let mut words = vec![0x7fff_ffff; (offset / 4) as usize];
    for corner in &corners {
        let start = words.len();
        words.extend(vec![0x7fff_ffff; (before / 4) as usize]);
        words.extend(corner.iter().map(|number| number.to_bits()));
        words.resize(start + (stride / 4) as usize, 0x7fff_ffff);
    }
    let (brush, vertices, canvas) = (gpu.drawer(&plan)?, gpu.buffer_of(&words)?, gpu.colours()?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush);
        commands.vertices_from(0, &[(&vertices, u64::from(offset))]).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed(AREA, GREEN, BLANK))
}

fn dynamic_stride(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    plan.bindings[0].stride = 0;
    plan.dynamic = vec![vk::DynamicState::VERTEX_INPUT_BINDING_STRIDE];
    // Every other corner is of another picture.
    let pairs = rectangle(AREA, GREEN).into_iter().zip(whole_area(RED));
    let corners: Vec<Corner> = pairs.flat_map(|(first, second)| [first, second]).collect();
    let (brush, vertices, canvas) = (gpu.drawer(&plan)?, gpu.corners(&corners)?, gpu.colours()?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush);
        commands.vertices_apart(&vertices, [32, 32 * 11, 64]).draw(6);
        commands.vertices_apart(&vertices, [0, 32 * 11, 64]).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed(AREA, GREEN, RED))
}

/// A plan with places and colours in buffers of their own.
fn split<'a>(rate: vk::VertexInputRate, bindings: [u32; 2]) -> Outcome<Plan<'a>> {
    let mut plan = Plan::plain()?;
    plan.bindings.clear();
    plan.attributes.clear();
    plan.binding(bindings[0], 16, EACH_VERTEX).binding(bindings[1], 16, rate);
    plan.attribute(0, bindings[0], FLOATS, 0).attribute(1, bindings[1], FLOATS, 0);
    Ok(plan)
}

/// The words of corners' places.
fn places(corners: &[Corner]) -> Vec<u32> {
    corners.iter().flat_map(|corner| corner[..4].iter().map(|number| number.to_bits())).collect()
}

/// The words of colours.
fn colours(all: &[u32]) -> Vec<u32> {
    all.iter().flat_map(|colour| colour_of(*colour).map(f32::to_bits)).collect()
}

fn several(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let brush = gpu.drawer(&split(EACH_VERTEX, [0, 1])?)?;
    let first = gpu.buffer_of(&places(&rectangle(AREA, RED)))?;
    let second = gpu.buffer_of(&[vec![0; 4], colours(&[BLUE; 6])].concat())?;
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush);
        commands.vertices_from(0, &[(&first, 0), (&second, 16)]).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed(AREA, BLUE, BLANK))
}

fn apart(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let brush = gpu.drawer(&split(EACH_VERTEX, [1, 3])?)?;
    let first = gpu.buffer_of(&places(&rectangle(AREA, RED)))?;
    let [blue, green] = [BLUE, GREEN].map(|colour| gpu.buffer_of(&colours(&[colour; 6])));
    let (blue, green, canvas) = (blue?, green?, gpu.colours()?);
    gpu.run(|commands| {
        commands.vertices_from(3, &[(&blue, 0)]).vertices_from(1, &[(&blue, 0)]);
        commands.begin(&Rendering::blank(canvas)).brush(&brush);
        commands.vertices_from(1, &[(&first, 0)]).vertices_from(3, &[(&green, 0)]).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed(AREA, GREEN, BLANK))
}

fn instance(lab: &Lab) -> Outcome {
    instances(lab, [2, 0], [RED, GREEN])
}

/// Draws two instances, from one on: the first over all, the second over the left.
fn instances(lab: &Lab, [count, first]: [u32; 2], [under, over]: [u32; 2]) -> Outcome {
    let gpu = lab.graphics()?;
    let source = "
        struct Seen { @builtin(position) place: vec4<f32>, @location(0) colour: vec4<f32> }
        @vertex fn vertex(@location(0) place: vec4<f32>, @location(1) colour: vec4<f32>,
            @builtin(instance_index) instance: u32) -> Seen {
            let is_second = f32(instance & 1u);
            return Seen(place * vec4(1.0 - is_second * 0.5, 1.0, 1.0, 1.0) - vec4(is_second * 0.5, 0.0, 0.0, 0.0), colour);
        }
        @fragment fn fragment(seen: Seen) -> @location(0) vec4<f32> { return seen.colour; }";
    let mut plan = split(EACH_INSTANCE, [0, 1])?;
    plan.stages = Plan::bare(source)?.stages;
    let brush = gpu.drawer(&plan)?;
    let corners = gpu.buffer_of(&places(&whole_area(RED)))?;
    let each = gpu.buffer_of(&colours(&[RED, GREEN, BLUE, YELLOW]))?;
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush);
        commands.vertices_from(0, &[(&corners, 0), (&each, 0)]);
        commands.draw_some([6, count], [0, first]).end();
    })?;
    pictured(&gpu.words(canvas)?, |x, _| if x < 8.0 { over } else { under })
}

fn none_apart(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let mut plan = split(EACH_VERTEX, [0, 1])?;
    plan.bindings[1].stride = 0;
    let brush = gpu.drawer(&plan)?;
    let first = gpu.buffer_of(&places(&rectangle(AREA, RED)))?;
    let second = gpu.buffer_of(&colours(&[YELLOW]))?;
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush);
        commands.vertices_from(0, &[(&first, 0), (&second, 0)]).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed(AREA, YELLOW, BLANK))
}

fn many(lab: &Lab) -> Outcome {
    let limits = lab.description().properties.limits;
    let least = limits.max_vertex_input_attributes.min(limits.max_vertex_input_bindings);
    let gpu = lab.graphics()?;
    require!(least >= 16, "a vertex has at most {least} numbers or buffers");
    let taken = (1..16).map(|at| format!("@location({at}) n{at}: f32"));
    let sum: Vec<_> = (1..16).map(|at| format!("n{at} * f32({at})")).collect();
    let source = format!(
        "struct Seen {{ @builtin(position) place: vec4<f32>, @location(0) sum: f32 }}
        @vertex fn vertex(@location(0) place: vec4<f32>, {}) -> Seen {{ return Seen(place, {}); }}
        @fragment fn fragment(seen: Seen) -> @location(0) vec4<f32> {{ return vec4(seen.sum / 255.0, 0.0, 0.0, 1.0); }}",
        taken.collect::<Vec<_>>().join(", "),
        sum.join(" + ")
    );
    let mut plan = Plan::bare(&source)?;
    plan.binding(0, 16, EACH_VERTEX).attribute(0, 0, FLOATS, 0);
    for at in 1..16 {
        plan.binding(at, 4, EACH_VERTEX).attribute(at, at, vk::Format::R32_SFLOAT, 0);
    }
    let brush = gpu.drawer(&plan)?;
    let corners = gpu.buffer_of(&places(&whole_area(RED)))?;
    // Number 1 is 2, and all others are 1.
    let [ones, twos] = [1f32, 2.0].map(|number| gpu.buffer_of(&[number.to_bits(); 6]));
    let (ones, twos, canvas) = (ones?, twos?, gpu.colours()?);
    let mut all = [(&ones, 0); 16];
    all[0].0 = &corners;
    all[1].0 = &twos;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush);
        commands.vertices_from(0, &all).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, |_, _| 0xff00_0000 | (120 + 1))
}
