// SPDX-License-Identifier: MIT OR Apache-2.0

//! Shaders of whole primitives ("Geometry Shading").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, BLUE, Corner, GREEN, Lab, Outcome, Plan, RED, Rendering, YELLOW, area, boxed,
    colour_form, corner, corners, pictured, rectangle, sketch, sketch_on, stage, triangle,
    viewport, whole_area,
};
use ash::vk;

const GEOMETRY: vk::ShaderStageFlags = vk::ShaderStageFlags::GEOMETRY;

pub(super) const CASES: &[Case] = &[
    case("geometry.points", "a shader makes a square of each point", |lab| {
        let points = |plan: &mut Plan<'_>| plan.topology = vk::PrimitiveTopology::POINT_LIST;
        let seen =
            drawn(lab, stage!("quad.geom"), points, &corners(&[[4.0, 5.0], [11.0, 12.0]], RED))?;
        pictured(&seen, |x, y| {
            boxed([9.0, 10.0, 13.0, 14.0], RED, boxed([2.0, 3.0, 6.0, 7.0], RED, BLANK)(x, y))(x, y)
        })
    }),
    case("geometry.invocations", "a shader runs several times for each triangle", |lab| {
        let seen = drawn(lab, stage!("twice.geom"), |_| (), &rectangle([1.0, 2.0, 6.0, 9.0], RED))?;
        pictured(&seen, |x, y| {
            boxed([10.0, 2.0, 15.0, 9.0], BLUE, boxed([1.0, 2.0, 6.0, 9.0], RED, BLANK)(x, y))(x, y)
        })
    }),
    case("geometry.neighbours", "a shader sees the neighbours of a line", |lab| {
        let lines =
            |plan: &mut Plan<'_>| plan.topology = vk::PrimitiveTopology::LINE_LIST_WITH_ADJACENCY;
        let line = |y: f32, first, colour| {
            let places = [[1.0, y], [5.0, 1.0], [6.0, 1.0], [14.0, y]];
            let mut all: Vec<Corner> = corners(&places, colour);
            all[0] = corner(places[0], first);
            all
        };
        // The second is left out, since its first neighbour is blue.
        let all = [line(4.5, RED, GREEN), line(7.5, BLUE, GREEN), line(10.5, RED, YELLOW)].concat();
        let seen = drawn(lab, stage!("lines.geom"), lines, &all)?;
        pictured(&seen, |x, y| match y {
            4.5 if (1.0..14.0).contains(&x) => GREEN,
            10.5 if (1.0..14.0).contains(&x) => YELLOW,
            _ => BLANK,
        })
    }),
    case("geometry.number", "a shader gives fragments a number of their triangle", |lab| {
        let fragment = |plan: &mut Plan<'_>| {
            plan.stage(vk::ShaderStageFlags::FRAGMENT, stage!("number.frag"));
        };
        let both = [
            triangle([[0.0, 0.0], [0.0, 7.5], [7.5, 0.0]], RED),
            triangle([[16.0, 16.0], [16.0, 8.5], [8.5, 16.0]], RED),
        ];
        let seen = drawn(lab, stage!("number.geom"), fragment, &both.concat())?;
        pictured(&seen, |x, y| match x + y {
            ..7.5 => 0xff00_0007,
            24.5.. => 0xff00_0011,
            _ => BLANK,
        })
    }),
    case("geometry.layer", "a shader draws on the layer that it names", layer),
    case("geometry.viewport", "a shader draws in the viewport that it names", |lab| {
        lab.needs("multiViewport", lab.features().core.multi_viewport)?;
        let viewports = |plan: &mut Plan<'_>| {
            plan.viewports =
                vec![viewport([0.0, 0.0], [8.0, 16.0]), viewport([8.0, 4.0], [8.0, 8.0])];
            plan.scissors = vec![area([0, 0], [16, 16]), area([9, 0], [16, 16])];
            plan.values = &[(0, &[0, 0, 0, 0])];
        };
        let seen = drawn(
            lab,
            stage!("layer.geom"),
            viewports,
            &[whole_area(RED), whole_area(GREEN)].concat(),
        )?;
        pictured(&seen, |x, y| {
            boxed([0.0, 0.0, 8.0, 16.0], RED, boxed([9.0, 4.0, 16.0, 12.0], GREEN, BLANK)(x, y))(
                x, y,
            )
        })
    }),
    case("geometry.constant", "a shader has the constants of its pipeline", |lab| {
        let off = |plan: &mut Plan<'_>| plan.values = &[(0, &[0, 0, 0, 0])];
        let seen = drawn(lab, stage!("layer.geom"), off, &rectangle([1.0, 2.0, 6.0, 9.0], RED))?;
        pictured(&seen, boxed([1.0, 2.0, 6.0, 9.0], RED, BLANK))
    }),
    case("geometry.limits", "a device that has such shaders lets them give enough", limits),
];

fn needs(lab: &Lab) -> Outcome {
    lab.needs("geometryShader", lab.features().core.geometry_shader)
}

fn drawn(
    lab: &Lab,
    geometry: &[u8],
    differ: impl FnOnce(&mut Plan<'_>),
    corners: &[Corner],
) -> Outcome<Vec<u32>> {
    needs(lab)?;
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    plan.stage(GEOMETRY, geometry);
    differ(&mut plan);
    sketch(&gpu, &plan, corners)
}

fn layer(lab: &Lab) -> Outcome {
    needs(lab)?;
    let gpu = lab.graphics()?;
    let canvas = gpu.canvas(colour_form(vk::Format::R8G8B8A8_UNORM).layers(3))?;
    let mut plan = Plan::plain()?;
    plan.stage(GEOMETRY, stage!("layer.geom"));
    let all =
        [whole_area(RED), rectangle([1.0, 2.0, 6.0, 9.0], GREEN), whole_area(YELLOW)].concat();
    sketch_on(&gpu, &Rendering::blank(canvas).layers(3), &plan, &all)?;
    let seen = gpu.words(canvas)?;
    pictured(&seen[..256], |_, _| RED)?;
    pictured(&seen[256..512], boxed([1.0, 2.0, 6.0, 9.0], GREEN, BLANK))?;
    pictured(&seen[512..], |_, _| YELLOW)
}

fn limits(lab: &Lab) -> Outcome {
    lab.graphics()?;
    needs(lab)?;
    let limits = lab.description().properties.limits;
    let least = [
        ("maxGeometryShaderInvocations", limits.max_geometry_shader_invocations, 32),
        ("maxGeometryInputComponents", limits.max_geometry_input_components, 64),
        ("maxGeometryOutputComponents", limits.max_geometry_output_components, 64),
        ("maxGeometryOutputVertices", limits.max_geometry_output_vertices, 256),
        ("maxGeometryTotalOutputComponents", limits.max_geometry_total_output_components, 1024),
    ];
    super::limit::at_least(&least)
}
