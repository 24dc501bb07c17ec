// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is assembled of vertices ("Primitive Topologies").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Lab, Outcome, Plan, RED, Rendering, State, corners, drawn, is_in, pictured,
};
use ash::vk::{DynamicState, PrimitiveTopology as T};

/// Declares cases: a name, what it shows, a topology, places, and whether a texel is covered.
macro_rules! topologies {
    ($($name:literal, $shows:literal, $topology:ident, $places:expr, $covered:expr;)*) => {
        pub(super) const CASES: &[Case] = &[$(
            case(concat!("raster.topology.", $name), $shows, |lab| {
                assembled(lab, T::$topology, &$places, $covered)
            }),
        )* DYNAMIC];
    };
}

topologies! {
    "points", "each vertex is a point", POINT_LIST, [[1.5, 1.5], [8.5, 3.5], [14.5, 14.5]],
        |x, y| [(1.5, 1.5), (8.5, 3.5), (14.5, 14.5)].contains(&(x, y));
    "lines", "each two vertices are a line", LINE_LIST,
        [[1.0, 2.5], [6.0, 2.5], [9.0, 2.5], [15.0, 2.5], [3.5, 4.0], [3.5, 12.0], [1.0, 1.0]],
        |x, y| (y == 2.5 && (is_between(x, 1.0, 6.0) || is_between(x, 9.0, 15.0))) || (x == 3.5 && is_between(y, 4.0, 12.0));
    "line-strip", "each vertex but the first ends a line from the one before", LINE_STRIP,
        [[1.0, 2.5], [6.0, 2.5], [12.0, 2.5]],
        |x, y| y == 2.5 && is_between(x, 1.0, 12.0);
    "triangles", "each three vertices are a triangle", TRIANGLE_LIST,
        [[0.0, 0.0], [0.0, 8.0], [8.0, 0.0], [16.0, 16.0], [8.0, 16.0], [16.0, 8.0], [0.0, 16.0], [3.0, 16.0]]
            .map(off_centre),
        |x, y| x + y < 8.5 || x + y > 24.5;
    "strip", "each vertex but the first two ends a triangle with the two before", TRIANGLE_STRIP,
        [[1.0, 1.0], [1.0, 9.0], [6.0, 1.0], [6.0, 9.0], [11.0, 1.0], [11.0, 9.0]],
        |x, y| is_in(x, y, [1.0, 1.0, 11.0, 9.0]);
    "fan", "each vertex but the first two ends a triangle with the one before and the first", TRIANGLE_FAN,
        [[2.0, 2.0], [2.0, 12.0], [9.0, 12.0], [13.0, 12.0], [13.0, 7.0], [13.0, 2.0]],
        |x, y| is_in(x, y, [2.0, 2.0, 13.0, 12.0]);
    "lines-with-neighbours", "the second and third of each four vertices are a line", LINE_LIST_WITH_ADJACENCY,
        [[0.0, 0.0], [2.0, 5.5], [9.0, 5.5], [0.0, 15.0]],
        |x, y| y == 5.5 && is_between(x, 2.0, 9.0);
    "line-strip-with-neighbours", "the first and the last vertex are no part of a strip", LINE_STRIP_WITH_ADJACENCY,
        [[0.0, 0.0], [2.0, 5.5], [9.0, 5.5], [14.0, 5.5], [0.0, 15.0]],
        |x, y| y == 5.5 && is_between(x, 2.0, 14.0);
    "triangles-with-neighbours", "every other of six vertices is a triangle's", TRIANGLE_LIST_WITH_ADJACENCY,
        [[0.0, 0.0], [16.0, 16.0], [0.0, 8.0], [16.0, 16.0], [8.0, 0.0], [16.0, 16.0]].map(off_centre),
        |x, y| x + y < 8.5;
    "strip-with-neighbours", "every other vertex is a strip's", TRIANGLE_STRIP_WITH_ADJACENCY,
        [[1.0, 1.0], [15.0, 15.0], [1.0, 9.0], [15.0, 15.0], [6.0, 1.0], [15.0, 15.0], [6.0, 9.0], [15.0, 15.0]],
        |x, y| is_in(x, y, [1.0, 1.0, 6.0, 9.0]);
}

const DYNAMIC: Case = case(
    "raster.topology.dynamic",
    "a command sets which triangles are assembled of vertices",
    dynamic,
);

fn is_between(it: f32, first: f32, last: f32) -> bool {
    (first..last).contains(&it)
}

/// A little away from where triangles of whole numbers would touch centres.
fn off_centre([x, y]: [f32; 2]) -> [f32; 2] {
    [if x == 8.0 { 8.5 } else { x }, if y == 8.0 { 8.5 } else { y }]
}

fn assembled(
    lab: &Lab,
    topology: T,
    places: &[[f32; 2]],
    is_covered: impl Fn(f32, f32) -> bool,
) -> Outcome {
    if topology >= T::LINE_LIST_WITH_ADJACENCY {
        lab.needs("geometryShader", lab.features().core.geometry_shader)?;
    }
    let seen = drawn(lab, |plan| plan.topology = topology, &corners(places, RED))?;
    pictured(&seen, |x, y| if is_covered(x, y) { RED } else { BLANK })
}

fn dynamic(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    plan.topology = T::TRIANGLE_LIST;
    plan.dynamic = vec![DynamicState::PRIMITIVE_TOPOLOGY];
    let places = [[1.0, 1.0], [1.0, 9.0], [6.0, 1.0], [6.0, 9.0]];
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&corners(&places, RED))?);
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.state(State::Topology(T::TRIANGLE_STRIP)).draw(4).end();
    })?;
    pictured(
        &gpu.words(canvas)?,
        |x, y| {
            if is_in(x, y, [1.0, 1.0, 6.0, 9.0]) { RED } else { BLANK }
        },
    )
}
