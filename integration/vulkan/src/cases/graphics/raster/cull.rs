// SPDX-License-Identifier: MIT OR Apache-2.0

//! Faces that are left out ("Basic Polygon Rasterization": culling).

use crate::case::{Case, case};
use crate::lab::{
    BLANK, GREEN, Lab, Outcome, Plan, RED, Rendering, State, drawn, pictured, triangle,
};
use ash::vk::{self, CullModeFlags as C, FrontFace as F};

/// Declares cases: a name, which faces are left out, which are the front, and whether one that turns left on its way down is drawn,
/// and one that turns right.
macro_rules! faces {
    ($($name:literal, $shows:literal, $cull:ident, $front:ident, $there:expr;)*) => {
        pub(super) const FACES: &[Case] = &[$(
            case(concat!("raster.cull.", $name), $shows, |lab| {
                let seen = drawn(lab, |plan| {
                    plan.raster.cull_mode = C::$cull;
                    plan.raster.front_face = F::$front;
                }, &both())?;
                left(&seen, $there)
            }),
        )*];
    };
}

faces! {
    "none", "both faces are drawn where none is left out", NONE, COUNTER_CLOCKWISE, [true, true];
    "back", "faces of the back are left out", BACK, COUNTER_CLOCKWISE, [true, false];
    "front", "faces of the front are left out", FRONT, COUNTER_CLOCKWISE, [false, true];
    "both", "both faces are left out", FRONT_AND_BACK, COUNTER_CLOCKWISE, [false, false];
    "back-clockwise", "faces of the back are the others where the front is clockwise", BACK, CLOCKWISE, [false, true];
    "front-clockwise", "faces of the front are the others where it is clockwise", FRONT, CLOCKWISE, [true, false];
}

pub(super) const CASES: &[Case] = &[
    case("raster.cull.dynamic", "commands set which faces are left out", |lab| {
        let states = [vk::DynamicState::CULL_MODE, vk::DynamicState::FRONT_FACE];
        let set = [State::Cull(C::FRONT), State::Front(F::CLOCKWISE)];
        dynamic(lab, &states, &set, [true, false])
    }),
    case("raster.cull.dynamic-front", "a command sets which face is the front alone", |lab| {
        dynamic(lab, &[vk::DynamicState::FRONT_FACE], &[State::Front(F::CLOCKWISE)], [false, true])
    }),
    case("raster.cull.discard-dynamic", "a command sets whether anything is drawn", |lab| {
        let states = [vk::DynamicState::RASTERIZER_DISCARD_ENABLE, vk::DynamicState::CULL_MODE];
        dynamic(lab, &states, &[State::Discard(true), State::Cull(C::NONE)], [false, false])?;
        dynamic(lab, &states, &[State::Discard(false), State::Cull(C::NONE)], [true, true])
    }),
    case("raster.cull.points", "points and lines have no face that could be left out", |lab| {
        let all = |plan: &mut Plan<'_>| {
            plan.topology = vk::PrimitiveTopology::POINT_LIST;
            plan.raster.cull_mode = C::FRONT_AND_BACK;
        };
        let seen = drawn(lab, all, &triangle([[0.5, 0.5], [3.5, 0.5], [9.5, 9.5]], RED))?;
        pictured(&seen, |x, y| {
            if [(0.5, 0.5), (3.5, 0.5), (9.5, 9.5)].contains(&(x, y)) { RED } else { BLANK }
        })
    }),
    case(
        "raster.cull.strip",
        "every other triangle of a strip is turned, so that all face one side",
        |lab| {
            let strip = |plan: &mut Plan<'_>| {
                plan.topology = vk::PrimitiveTopology::TRIANGLE_STRIP;
                plan.raster.cull_mode = C::BACK;
            };
            let places =
                [[0.0, 0.0], [0.0, 16.0], [8.0, 0.0], [8.0, 16.0], [16.0, 0.0], [16.0, 16.0]];
            let seen = drawn(lab, strip, &crate::lab::corners(&places, GREEN))?;
            pictured(&seen, |_, _| GREEN)
        },
    ),
];

/// One that turns left on its way down, and one that turns right.
fn both() -> Vec<crate::lab::Corner> {
    let left = triangle([[0.0, 0.0], [0.0, 7.5], [7.5, 0.0]], RED);
    let right = triangle([[16.0, 16.0], [8.5, 16.0], [16.0, 8.5]], GREEN);
    [left, right].concat()
}

fn left(seen: &[u32], [is_left, is_right]: [bool; 2]) -> Outcome {
    pictured(seen, |x, y| match () {
        () if x + y < 7.5 && is_left => RED,
        () if x + y > 24.5 && is_right => GREEN,
        () => BLANK,
    })
}

/// Back faces are left out but for what commands set.
fn dynamic(lab: &Lab, states: &[vk::DynamicState], set: &[State<'_>], there: [bool; 2]) -> Outcome {
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    plan.raster.cull_mode = C::BACK;
    plan.dynamic = states.to_vec();
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&both())?);
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        for state in set {
            commands.state(*state);
        }
        commands.draw(6).end();
    })?;
    left(&gpu.words(canvas)?, there)
}
