// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whose vertex a flat number of a primitive is ("Primitive Topologies": provoking vertices are the first, or the last with
//! `VK_EXT_provoking_vertex`).

use crate::case::{Case, case};
use crate::lab::{
    BLUE, Corner, GREEN, Lab, Outcome, Plan, RED, SIZE, WHITE, YELLOW, corner, same, sketch,
};
use ash::vk::PrimitiveTopology as T;

pub(super) const CASES: &[Case] = &[
    case("raster.provoking.lines", "a line has the flat numbers of its first vertex", |lab| {
        flat(lab, T::LINE_LIST, LINES, &[([2, 0], RED), ([10, 0], BLUE)])
    }),
    case(
        "raster.provoking.line-strip",
        "a strip's line has those of the vertex that it begins with",
        |lab| {
            let places = [[0.0, 0.5], [5.0, 0.5], [10.0, 0.5], [15.0, 0.5]];
            flat(lab, T::LINE_STRIP, &places, &[([2, 0], RED), ([7, 0], GREEN), ([12, 0], BLUE)])
        },
    ),
    case(
        "raster.provoking.triangles",
        "a triangle has the flat numbers of its first vertex",
        |lab| flat(lab, T::TRIANGLE_LIST, TRIANGLES, &[([1, 1], RED), ([14, 14], YELLOW)]),
    ),
    case(
        "raster.provoking.strip",
        "a strip's triangle has those of the first of its three",
        |lab| {
            let right = [([1, 1], RED), ([6, 14], GREEN), ([9, 1], BLUE)];
            flat(lab, T::TRIANGLE_STRIP, STRIP, &right)
        },
    ),
    case("raster.provoking.fan", "a fan's triangle has those of the second of its three", |lab| {
        let places = [[0.0, 0.0], [0.0, 16.0], [16.0, 16.0], [16.0, 0.0]];
        flat(lab, T::TRIANGLE_FAN, &places, &[([1, 14], GREEN), ([14, 1], BLUE)])
    }),
    case(
        "raster.provoking.last-of-line",
        "where the last counts, a line has the flat numbers of its last vertex",
        |lab| last(lab, T::LINE_LIST, LINES, &[([2, 0], GREEN), ([10, 0], YELLOW)]),
    ),
    case(
        "raster.provoking.last-of-triangle",
        "where the last counts, a triangle has those of its last vertex",
        |lab| last(lab, T::TRIANGLE_LIST, TRIANGLES, &[([1, 1], BLUE), ([14, 14], RED)]),
    ),
    case(
        "raster.provoking.last-of-strip",
        "where the last counts, a strip's triangle has those of the last of its three",
        |lab| {
            let right = [([1, 1], BLUE), ([6, 14], YELLOW), ([9, 1], WHITE)];
            last(lab, T::TRIANGLE_STRIP, STRIP, &right)
        },
    ),
];

/// Two lines.
const LINES: &[[f32; 2]] = &[[0.0, 0.5], [4.0, 0.5], [8.0, 0.5], [12.0, 0.5]];
/// Two triangles, in opposite corners.
const TRIANGLES: &[[f32; 2]] =
    &[[0.0, 0.0], [0.0, 8.0], [8.0, 0.0], [16.0, 16.0], [16.0, 8.0], [8.0, 16.0]];
/// Three triangles, from left to right.
const STRIP: &[[f32; 2]] = &[[0.0, 0.0], [0.0, 16.0], [8.0, 0.0], [8.0, 16.0], [16.0, 0.0]];

const FLAT: &str = "
    struct Seen {
        @builtin(position) place: vec4<f32>,
        @location(0) @interpolate(flat) colour: vec4<f32>,
    }
    @vertex fn vertex(@location(0) place: vec4<f32>, @location(1) colour: vec4<f32>) -> Seen {
        return Seen(place, colour);
    }
    @fragment fn fragment(seen: Seen) -> @location(0) vec4<f32> { return seen.colour; }";

/// Requires that some texels have these colours, where each vertex has a colour of its own.
fn flat(lab: &Lab, topology: T, places: &[[f32; 2]], right: &[([u32; 2], u32)]) -> Outcome {
    provoked(lab, (topology, false), places, right)
}

/// The same where the last vertex counts.
fn last(lab: &Lab, topology: T, places: &[[f32; 2]], right: &[([u32; 2], u32)]) -> Outcome {
    lab.needs("provokingVertexLast", lab.extended()?.provoking_vertex.provoking_vertex_last)?;
    provoked(lab, (topology, true), places, right)
}

fn provoked(
    lab: &Lab,
    (topology, last_provokes): (T, bool),
    places: &[[f32; 2]],
    right: &[([u32; 2], u32)],
) -> Outcome {
    let gpu = lab.graphics()?;
    let colours = [RED, GREEN, BLUE, YELLOW, WHITE, RED];
    let corners: Vec<Corner> =
        places.iter().zip(colours).map(|(place, colour)| corner(*place, colour)).collect();
    let mut plan = Plan::of(FLAT)?;
    plan.topology = topology;
    plan.newer.last_provokes = last_provokes;
    let seen = sketch(&gpu, &plan, &corners)?;
    for ([x, y], colour) in right {
        same!(seen[(y * SIZE + x) as usize], *colour);
    }
    Ok(())
}
