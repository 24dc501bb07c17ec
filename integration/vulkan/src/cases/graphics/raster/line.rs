// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lines, points, and polygons that are drawn as these ("Line Segments", "Points", "Polygon Mode").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Corner, Lab, Outcome, Plan, RED, Rendering, State, boxed, corners, drawn, is_in,
    pictured, rectangle, same, sketch, stage,
};
use ash::vk;

const LINES: vk::PrimitiveTopology = vk::PrimitiveTopology::LINE_LIST;

pub(super) const CASES: &[Case] = &[
    case("raster.line.across", "a line along a row of texels covers those that it leaves", |lab| {
        lines(lab, &[[2.0, 7.5], [13.0, 7.5]], |x, y| is_in(x, y, [2.0, 7.0, 13.0, 8.0]))
    }),
    case(
        "raster.line.down",
        "a line along a column of texels covers those that it leaves",
        |lab| lines(lab, &[[4.5, 1.0], [4.5, 15.0]], |x, y| is_in(x, y, [4.0, 1.0, 5.0, 15.0])),
    ),
    case("raster.line.backwards", "a line covers as many texels on its way back", |lab| {
        lines(lab, &[[13.0, 7.5], [2.0, 7.5]], |x, y| is_in(x, y, [2.0, 7.0, 13.0, 8.0]))
    }),
    case("raster.line.clipped", "a line that leaves the canvas is drawn up to its end", |lab| {
        lines(lab, &[[-20.0, 3.5], [40.0, 3.5]], |_, y| y == 3.5)
    }),
    case("raster.line.wide", "a line of five texels covers as many rows", |lab| {
        wide(lab)?;
        let five = |plan: &mut Plan<'_>| {
            plan.topology = LINES;
            plan.raster.line_width = 5.0;
        };
        let seen = drawn(lab, five, &corners(&[[3.0, 7.5], [12.0, 7.5]], RED))?;
        pictured(&seen, boxed([3.0, 5.0, 12.0, 10.0], RED, BLANK))
    }),
    case("raster.line.width-dynamic", "a command sets how wide lines are", |lab| {
        wide(lab)?;
        let gpu = lab.graphics()?;
        let mut plan = Plan::plain()?;
        (plan.topology, plan.dynamic) = (LINES, vec![vk::DynamicState::LINE_WIDTH]);
        let vertices = gpu.corners(&corners(&[[3.0, 7.5], [12.0, 7.5]], RED))?;
        let (brush, canvas) = (gpu.drawer(&plan)?, gpu.colours()?);
        gpu.run(|commands| {
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
            commands.state(State::LineWidth(3.0)).draw(2).end();
        })?;
        pictured(&gpu.words(canvas)?, boxed([3.0, 6.0, 12.0, 9.0], RED, BLANK))
    }),
    case("raster.line.diagonal", "a diagonal line covers one texel of each row", |lab| {
        let diagonal = corners(&[[0.0, 0.0], [16.0, 16.0]], RED);
        let seen = drawn(lab, |plan| plan.topology = LINES, &diagonal)?;
        let row = |row: &[u32]| row.iter().filter(|texel| **texel == RED).count();
        // Where lines are rectangles they cover two at most.
        same!(seen.chunks(16).all(|texels| (1..=2).contains(&row(texels))), true);
        pictured(
            &seen
                .iter()
                .enumerate()
                .map(|(at, texel)| if at % 17 == 0 { *texel } else { BLANK })
                .collect::<Vec<_>>(),
            |x, y| if x == y { RED } else { BLANK },
        )
    }),
    case("raster.fill.line", "polygons are drawn as their edges", |lab| {
        outlined(lab, vk::PolygonMode::LINE, &[], |x, y| {
            let (ends, between) = ([3.5, 11.5], 4.0..11.0);
            ends.contains(&x) && between.contains(&y) || ends.contains(&y) && between.contains(&x)
        })
    }),
    case("raster.fill.point", "polygons are drawn as their corners", |lab| {
        outlined(lab, vk::PolygonMode::POINT, &[], |x, y| {
            [3.5, 11.5].contains(&x) && [3.5, 11.5].contains(&y)
        })
    }),
    case("raster.fill.culled", "a face that is left out has no edges either", |lab| {
        outlined(lab, vk::PolygonMode::LINE, &[vk::CullModeFlags::FRONT], |_, _| false)
    }),
    case("raster.point.large", "a point is a square as large as its shader says", |lab| {
        lab.needs("largePoints", lab.features().core.large_points)?;
        let gpu = lab.graphics()?;
        let mut plan = Plan::plain()?;
        plan.topology = vk::PrimitiveTopology::POINT_LIST;
        plan.stage(vk::ShaderStageFlags::VERTEX, stage!("point.vert"));
        let seen = sketch(&gpu, &plan, &sized([8.0, 6.0], 4.0))?;
        pictured(&seen, boxed([6.0, 4.0, 10.0, 8.0], RED, BLANK))
    }),
    case("raster.point.coordinates", "a fragment of a point knows its place in it", |lab| {
        lab.needs("largePoints", lab.features().core.large_points)?;
        let gpu = lab.graphics()?;
        let mut plan = Plan::plain()?;
        plan.topology = vk::PrimitiveTopology::POINT_LIST;
        plan.stage(vk::ShaderStageFlags::VERTEX, stage!("point.vert"));
        plan.stage(vk::ShaderStageFlags::FRAGMENT, stage!("point.frag"));
        let seen = sketch(&gpu, &plan, &sized([8.0, 8.0], 8.0))?;
        let byte = |place: f32| ((place - 4.0) / 8.0 * 255.0).round() as u32;
        let right = |x, y| 0xff00_0000 | byte(y) << 8 | byte(x);
        crate::lab::pictured_nearly(&seen, 1, |x, y| {
            if is_in(x, y, [4.0, 4.0, 12.0, 12.0]) { right(x, y) } else { BLANK }
        })
    }),
    case("raster.line.bresenham", "a line of Bresenham's covers one texel of each row", |lab| {
        lab.needs("bresenhamLines", lab.extended()?.line_rasterization.bresenham_lines)?;
        let differ = |plan: &mut Plan<'_>| {
            plan.topology = LINES;
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
            plan.topology = LINES;
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

fn wide(lab: &Lab) -> Outcome {
    lab.needs("wideLines", lab.features().core.wide_lines)?;
    match lab.description().properties.limits.line_width_range[1] {
        5.0.. => Ok(()),
        most => Err(crate::lab::Failure::not_offered(format!("lines are at most {most} wide"))),
    }
}

fn lines(lab: &Lab, places: &[[f32; 2]], is_covered: impl Fn(f32, f32) -> bool) -> Outcome {
    let seen = drawn(lab, |plan| plan.topology = LINES, &corners(places, RED))?;
    pictured(&seen, |x, y| if is_covered(x, y) { RED } else { BLANK })
}

/// A point whose size is its colour's first number.
fn sized(place: [f32; 2], size: f32) -> Vec<Corner> {
    let mut corners = corners(&[place], RED);
    corners[0][4] = size;
    corners
}

/// Draws a rectangle's two triangles in a mode. Their common edge is drawn too, and not looked at; nor are the corners where lines
/// meet, which these need not cover.
fn outlined(
    lab: &Lab,
    mode: vk::PolygonMode,
    cull: &[vk::CullModeFlags],
    is_covered: impl Fn(f32, f32) -> bool,
) -> Outcome {
    lab.needs("fillModeNonSolid", lab.features().core.fill_mode_non_solid)?;
    let outlined = |plan: &mut Plan<'_>| {
        plan.raster.polygon_mode = mode;
        plan.raster.cull_mode = cull.first().copied().unwrap_or_default();
    };
    let mut seen = drawn(lab, outlined, &rectangle([3.5, 3.5, 11.5, 11.5], RED))?;
    for (place, texel) in seen.iter_mut().enumerate() {
        let [x, y] = [place % 16, place / 16];
        let is_corner = [3, 11].contains(&x) && [3, 11].contains(&y);
        let is_inner = (4..11).contains(&x) && (4..11).contains(&y);
        if is_inner || (is_corner && mode == vk::PolygonMode::LINE) {
            *texel = BLANK;
        }
    }
    pictured(&seen, |x, y| if is_covered(x, y) { RED } else { BLANK })
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
    plan.topology = LINES;
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
