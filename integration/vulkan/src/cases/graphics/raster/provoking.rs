// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whose vertex a flat number of a primitive is ("Primitive Topologies": provoking vertices are the first).

use crate::case::{Case, case};
use crate::lab::{
    BLUE, Corner, GREEN, Lab, Outcome, Plan, RED, SIZE, WHITE, YELLOW, corner, same, sketch,
};
use ash::vk::PrimitiveTopology as T;

pub(super) const CASES: &[Case] = &[
    case("raster.provoking.lines", "a line has the flat numbers of its first vertex", |lab| {
        let places = [[0.0, 0.5], [4.0, 0.5], [8.0, 0.5], [12.0, 0.5]];
        flat(lab, T::LINE_LIST, &places, &[([2, 0], RED), ([10, 0], BLUE)])
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
        |lab| {
            let places =
                [[0.0, 0.0], [0.0, 8.0], [8.0, 0.0], [16.0, 16.0], [16.0, 8.0], [8.0, 16.0]];
            flat(lab, T::TRIANGLE_LIST, &places, &[([1, 1], RED), ([14, 14], YELLOW)])
        },
    ),
    case(
        "raster.provoking.strip",
        "a strip's triangle has those of the first of its three",
        |lab| {
            let places = [[0.0, 0.0], [0.0, 16.0], [8.0, 0.0], [8.0, 16.0], [16.0, 0.0]];
            flat(
                lab,
                T::TRIANGLE_STRIP,
                &places,
                &[([1, 1], RED), ([6, 14], GREEN), ([9, 1], BLUE)],
            )
        },
    ),
    case("raster.provoking.fan", "a fan's triangle has those of the second of its three", |lab| {
        let places = [[0.0, 0.0], [0.0, 16.0], [16.0, 16.0], [16.0, 0.0]];
        flat(lab, T::TRIANGLE_FAN, &places, &[([1, 14], GREEN), ([14, 1], BLUE)])
    }),
];

pub(super) const FLAT: &str = "
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
    let gpu = lab.graphics()?;
    let colours = [RED, GREEN, BLUE, YELLOW, WHITE, RED];
    let corners: Vec<Corner> =
        places.iter().zip(colours).map(|(place, colour)| corner(*place, colour)).collect();
    let mut plan = Plan::of(FLAT)?;
    plan.topology = topology;
    let seen = sketch(&gpu, &plan, &corners)?;
    for ([x, y], colour) in right {
        same!(seen[(y * SIZE + x) as usize], *colour);
    }
    Ok(())
}
