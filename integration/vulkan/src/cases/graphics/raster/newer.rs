// SPDX-License-Identifier: MIT OR Apache-2.0

//! What extensions say of rasterization: depths that are not clipped, or begin with -1, last vertices that count for flat numbers, and
//! lines of other kinds.

use super::provoking::FLAT;
use crate::case::{Case, case};
use crate::lab::{
    BLANK, BLUE, Corner, GREEN, Lab, Outcome, Plan, RED, Rendering, SIZE, WHITE, at, corner,
    corners, depth_form, drawn, is_in, pictured, same, sketch, whole_area,
};
use ash::vk::{self, CompareOp, PrimitiveTopology as T};

pub(super) const CASES: &[Case] = &[
    case(
        "raster.depth.not-clipped",
        "what is beyond the depths is drawn where none are clipped",
        |lab| {
            lab.needs("depthClipEnable", lab.extended()?.depth_clip_enable.depth_clip_enable)?;
            for (clips, depth, is_there) in
                [(false, 1.5, true), (false, -0.5, true), (true, 1.5, false), (true, 0.5, true)]
            {
                let differ = |plan: &mut Plan<'_>| plan.newer.clip = Some(clips);
                let seen = drawn(lab, differ, &at(depth, &whole_area(RED)))?;
                pictured(&seen, |_, _| if is_there { RED } else { BLANK })?;
            }
            Ok(())
        },
    ),
    case(
        "raster.depth.clamped-and-clipped",
        "depths may be clamped, and clipped all the same",
        |lab| {
            lab.needs("depthClipEnable", lab.extended()?.depth_clip_enable.depth_clip_enable)?;
            lab.needs("depthClamp", lab.features().core.depth_clamp)?;
            for (clips, is_there) in [(true, false), (false, true)] {
                let differ = |plan: &mut Plan<'_>| {
                    plan.raster.depth_clamp_enable = vk::TRUE;
                    plan.newer.clip = Some(clips);
                };
                let seen = drawn(lab, differ, &at(1.5, &whole_area(RED)))?;
                pictured(&seen, |_, _| if is_there { RED } else { BLANK })?;
            }
            Ok(())
        },
    ),
    case(
        "raster.depth.from-minus-one",
        "depths from -1 to 1 are stored as depths from 0 to 1",
        |lab| {
            lab.needs("depthClipControl", lab.extended()?.depth_clip_control.depth_clip_control)?;
            let gpu = lab.graphics()?;
            for (depth, stored) in [(-1.0, 0.0), (-0.5, 0.25), (0.0, 0.5), (0.5, 0.75)] {
                let (canvas, depths) =
                    (gpu.colours()?, gpu.canvas(depth_form(vk::Format::D32_SFLOAT))?);
                let mut plan = Plan::plain()?;
                plan.with_depth(depths, CompareOp::ALWAYS);
                plan.newer.from_minus_one = true;
                let corners = at(depth, &whole_area(RED));
                let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&corners)?);
                gpu.run(|commands| {
                    commands.begin(&Rendering::blank(canvas).depth(depths.filled_to(1.0, 0)));
                    commands.brush(&brush).vertices(&vertices).draw(6).end();
                })?;
                pictured(&gpu.words(canvas)?, |_, _| RED)?;
                same!(gpu.depths(depths)?.iter().all(|seen| *seen == stored), true);
            }
            Ok(())
        },
    ),
    case(
        "raster.provoking.last-of-line",
        "a line has the flat numbers of its last vertex",
        |lab| {
            let places = [[0.0, 0.5], [4.0, 0.5], [8.0, 0.5], [12.0, 0.5]];
            last(lab, T::LINE_LIST, &places, &[([2, 0], GREEN), ([10, 0], WHITE)])
        },
    ),
    case("raster.provoking.last-of-triangle", "a triangle has those of its last vertex", |lab| {
        let places = [[0.0, 0.0], [0.0, 8.0], [8.0, 0.0], [16.0, 16.0], [16.0, 8.0], [8.0, 16.0]];
        last(lab, T::TRIANGLE_LIST, &places, &[([1, 1], BLUE), ([14, 14], GREEN)])
    }),
    case(
        "raster.provoking.last-of-strip",
        "a strip's triangle has those of the last of its three",
        |lab| {
            let places = [[0.0, 0.0], [0.0, 16.0], [8.0, 0.0], [8.0, 16.0], [16.0, 0.0]];
            last(
                lab,
                T::TRIANGLE_STRIP,
                &places,
                &[([1, 1], BLUE), ([6, 14], WHITE), ([9, 1], RED)],
            )
        },
    ),
    case("raster.line.bresenham", "a line of Bresenham's covers one texel of each row", |lab| {
        lab.needs("bresenhamLines", lab.extended()?.line_rasterization.bresenham_lines)?;
        let differ = |plan: &mut Plan<'_>| {
            plan.topology = T::LINE_LIST;
            plan.newer.lines = Some((vk::LineRasterizationModeEXT::BRESENHAM, None));
        };
        let seen = drawn(lab, differ, &corners(&[[0.5, 0.5], [15.5, 15.5]], RED))?;
        // The last texel is not the line's.
        pictured(&seen, |x, y| if x == y && x < 15.0 { RED } else { BLANK })
    }),
    case("raster.line.rectangular", "a wide line is a rectangle at right angles to it", |lab| {
        lab.needs("rectangularLines", lab.extended()?.line_rasterization.rectangular_lines)?;
        lab.needs("wideLines", lab.features().core.wide_lines)?;
        let differ = |plan: &mut Plan<'_>| {
            plan.topology = T::LINE_LIST;
            plan.raster.line_width = 4.0;
            plan.newer.lines = Some((vk::LineRasterizationModeEXT::RECTANGULAR, None));
        };
        let seen = drawn(lab, differ, &corners(&[[3.0, 8.0], [12.0, 8.0]], RED))?;
        pictured(&seen, |x, y| if is_in(x, y, [3.0, 6.0, 12.0, 10.0]) { RED } else { BLANK })
    }),
    case("raster.line.stippled", "a line is drawn where its pattern has a bit", |lab| {
        stippled(lab, Some((1, 0b0000_1111_0011_0101)), None, 1)
    }),
    case(
        "raster.line.stippled-apart",
        "each bit of a pattern is for as many texels as the factor says",
        |lab| stippled(lab, Some((2, 0b0011_0101)), None, 2),
    ),
    case("raster.line.stippled-dynamic", "a command sets factor and pattern", |lab| {
        stippled(lab, None, Some((2, 0b0011_0101)), 2)
    }),
];

/// Requires that some texels have these colours, where each vertex has a colour of its own and the last counts.
fn last(lab: &Lab, topology: T, places: &[[f32; 2]], right: &[([u32; 2], u32)]) -> Outcome {
    lab.needs("provokingVertexLast", lab.extended()?.provoking_vertex.provoking_vertex_last)?;
    let gpu = lab.graphics()?;
    let colours = [RED, GREEN, BLUE, WHITE, RED, GREEN];
    let corners: Vec<Corner> =
        places.iter().zip(colours).map(|(place, colour)| corner(*place, colour)).collect();
    let mut plan = Plan::of(FLAT)?;
    plan.topology = topology;
    plan.newer.last_provokes = true;
    let seen = sketch(&gpu, &plan, &corners)?;
    for ([x, y], colour) in right {
        same!(seen[(y * SIZE + x) as usize], *colour);
    }
    Ok(())
}

/// Draws a line along a row, whose pattern is the pipeline's or a command's. The pattern is `0b0011_0101` or begins with that where it
/// is looked at.
fn stippled(
    lab: &Lab,
    fixed: Option<(u32, u16)>,
    dynamic: Option<(u32, u16)>,
    factor: u32,
) -> Outcome {
    let offered = lab.extended()?.line_rasterization.stippled_bresenham_lines;
    lab.needs("stippledBresenhamLines", offered)?;
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    plan.topology = T::LINE_LIST;
    let stipple = fixed.unwrap_or((1, 0));
    plan.newer.lines = Some((vk::LineRasterizationModeEXT::BRESENHAM, Some(stipple)));
    if fixed.is_none() {
        plan.dynamic = vec![vk::DynamicState::LINE_STIPPLE_EXT];
    }
    let (brush, canvas) = (gpu.drawer(&plan)?, gpu.colours()?);
    let vertices = gpu.corners(&corners(&[[0.5, 4.5], [16.5, 4.5]], RED))?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        if let Some((factor, pattern)) = dynamic {
            commands.stipple(factor, pattern);
        }
        commands.draw(2).end();
    })?;
    let pattern = fixed.map_or(0b0011_0101, |(_, pattern)| pattern);
    pictured(&gpu.words(canvas)?, |x, y| {
        let bit = (x as u32 / factor) % 16;
        if y == 4.5 && pattern >> bit & 1 == 1 { RED } else { BLANK }
    })
}
