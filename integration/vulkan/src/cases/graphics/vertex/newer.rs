// SPDX-License-Identifier: MIT OR Apache-2.0

//! What extensions say of vertices: indices of 8 bits, numbers for several instances, lists that begin anew, and bindings without buffers.

use crate::case::{Case, case};
use crate::lab::{
    BLANK, BLUE, GREEN, Lab, Outcome, Plan, RED, Rendering, YELLOW, colour_of, corners, pictured,
    rectangle,
};
use ash::vk;

const BYTES: vk::IndexType = vk::IndexType::UINT8_EXT;

pub(super) const CASES: &[Case] = &[
    case("index.bytes", "indices of 8 bits choose vertices", |lab| {
        indexed(lab, vk::PrimitiveTopology::TRIANGLE_LIST, false, &[3, 4, 5, 0, 1, 2])
    }),
    case("index.restart-bytes", "the greatest index of 8 bits ends a strip", |lab| {
        indexed(lab, vk::PrimitiveTopology::TRIANGLE_STRIP, true, &[0, 1, 2, 0xff, 3, 4, 5])
    }),
    case("index.restart-list", "an index ends a triangle of a list that is not whole", |lab| {
        let list = lab.extended()?.primitive_topology_list_restart.primitive_topology_list_restart;
        lab.needs("primitiveTopologyListRestart", list)?;
        let indices = [0, 1, 2, 2, 0xff, 3, 4, 5];
        indexed(lab, vk::PrimitiveTopology::TRIANGLE_LIST, true, &indices)
    }),
    case("vertex.divisor", "several instances have the same numbers", |lab| {
        let can = lab.extended()?.vertex_attribute_divisor.vertex_attribute_instance_rate_divisor;
        lab.needs("vertexAttributeInstanceRateDivisor", can)?;
        divided(lab, 2, [RED, RED, GREEN, GREEN])?;
        divided(lab, 3, [RED, RED, RED, GREEN])
    }),
    case("vertex.divisor-of-none", "all instances have the numbers of the first", |lab| {
        let of = lab.extended()?.vertex_attribute_divisor;
        let can = of.vertex_attribute_instance_rate_zero_divisor;
        lab.needs("vertexAttributeInstanceRateZeroDivisor", can)?;
        divided(lab, 0, [RED; 4])
    }),
];

/// Draws two triangles by indices of 8 bits.
fn indexed(lab: &Lab, topology: vk::PrimitiveTopology, restart: bool, indices: &[u8]) -> Outcome {
    lab.needs("indexTypeUint8", lab.extended()?.index_type_uint8.index_type_uint8)?;
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    (plan.topology, plan.restart) = (topology, restart);
    let first = corners(&[[0.0, 0.0], [0.0, 7.5], [7.5, 0.0]], GREEN);
    let second = corners(&[[16.0, 16.0], [16.0, 8.5], [8.5, 16.0]], GREEN);
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&[first, second].concat())?);
    // The first byte is of no draw.
    let (bytes, canvas) = ([&[7], indices].concat(), gpu.colours()?);
    let buffer = gpu.buffer_of_bytes(&bytes)?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.indices(&buffer, 1, BYTES).draw_indexed(indices.len() as u32).end();
    })?;
    pictured(&gpu.words(canvas)?, |x, y| if x + y < 7.5 || x + y > 24.5 { GREEN } else { BLANK })
}

/// Draws four instances, each in its own columns, whose colours are from a buffer.
fn divided(lab: &Lab, divisor: u32, right: [u32; 4]) -> Outcome {
    let gpu = lab.graphics()?;
    let source = "
        struct Seen { @builtin(position) place: vec4<f32>, @location(0) colour: vec4<f32> }
        @vertex fn vertex(
            @builtin(instance_index) instance: u32,
            @location(0) place: vec4<f32>,
            @location(1) unused: vec4<f32>,
            @location(2) colour: vec4<f32>,
        ) -> Seen {
            return Seen(place + vec4(f32(instance) / 2.0, 0.0, 0.0, 0.0), colour);
        }
        @fragment fn fragment(seen: Seen) -> @location(0) vec4<f32> { return seen.colour; }";
    let mut plan = Plan::of(source)?;
    plan.binding(1, 16, vk::VertexInputRate::INSTANCE);
    plan.attribute(2, 1, vk::Format::R32G32B32A32_SFLOAT, 0);
    plan.newer.divisors = vec![(1, divisor)];
    let colours: Vec<u32> = [RED, GREEN, BLUE, YELLOW]
        .iter()
        .flat_map(|colour| colour_of(*colour).map(f32::to_bits))
        .collect();
    let (brush, colours) = (gpu.drawer(&plan)?, gpu.buffer_of(&colours)?);
    let (vertices, canvas) = (gpu.corners(&rectangle([0.0, 0.0, 4.0, 16.0], RED))?, gpu.colours()?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush);
        commands.vertices_from(0, &[(&vertices, 0), (&colours, 0)]).draw_some([6, 4], [0, 0]).end();
    })?;
    pictured(&gpu.words(canvas)?, |x, _| right[x as usize / 4])
}
