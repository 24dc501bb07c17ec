// SPDX-License-Identifier: MIT OR Apache-2.0

//! How depths are compared, and when they are stored.

use crate::case::{Case, case};
use crate::lab::{
    BLANK, BLUE, Corner, GREEN, Lab, Outcome, Plan, RED, Rendering, State, at, boxed, depth_form,
    pictured, rectangle, require, whole_area,
};
use ash::vk::{self, CompareOp as C};

/// Declares cases: a name, what it shows, a comparison, and whether something nearer, as near, and farther is drawn.
macro_rules! compared {
    ($($name:literal, $shows:literal, $op:ident, $there:expr;)*) => {
        pub(super) const COMPARED: &[Case] = &[$(
            case(concat!("depth.compare.", $name), $shows, |lab| thirds(lab, C::$op, false, $there)),
        )*];
    };
}

compared! {
    "never", "nothing is drawn, however near", NEVER, [false, false, false];
    "less", "what is nearer is drawn", LESS, [true, false, false];
    "equal", "what is as near is drawn", EQUAL, [false, true, false];
    "less-or-equal", "what is not farther is drawn", LESS_OR_EQUAL, [true, true, false];
    "greater", "what is farther is drawn", GREATER, [false, false, true];
    "not-equal", "what is not as near is drawn", NOT_EQUAL, [true, false, true];
    "greater-or-equal", "what is not nearer is drawn", GREATER_OR_EQUAL, [false, true, true];
    "always", "all is drawn, however far", ALWAYS, [true, true, true];
}

pub(super) const CASES: &[Case] = &[
    case("depth.compare.dynamic", "a command sets how depths are compared", |lab| {
        thirds(lab, C::GREATER, true, [false, false, true])
    }),
    case("depth.test-off", "depths are neither compared nor stored where the test is off", |lab| {
        scene(lab, &NEAR_LAST, |plan| plan.depth.depth_test_enable = vk::FALSE, |_| (), (BLUE, 1.0))
    }),
    case("depth.test-dynamic", "a command sets whether depths are compared", |lab| {
        let state = |plan: &mut Plan<'_>| plan.dynamic = vec![vk::DynamicState::DEPTH_TEST_ENABLE];
        scene(
            lab,
            &NEAR_FIRST,
            state,
            |commands| {
                commands.state(State::DepthTest(true));
            },
            (GREEN, 0.25),
        )?;
        scene(
            lab,
            &NEAR_FIRST,
            state,
            |commands| {
                commands.state(State::DepthTest(false));
            },
            (BLUE, 1.0),
        )
    }),
    case("depth.write-off", "depths stay where they are not written", |lab| {
        scene(
            lab,
            &NEAR_FIRST,
            |plan| plan.depth.depth_write_enable = vk::FALSE,
            |_| (),
            (BLUE, 1.0),
        )
    }),
    case("depth.write-dynamic", "a command sets whether depths are stored", |lab| {
        let state = |plan: &mut Plan<'_>| plan.dynamic = vec![vk::DynamicState::DEPTH_WRITE_ENABLE];
        scene(
            lab,
            &NEAR_FIRST,
            state,
            |commands| {
                commands.state(State::DepthWrite(false));
            },
            (BLUE, 1.0),
        )
    }),
    case("depth.near-first", "the nearest stays, where it is drawn first", |lab| {
        scene(lab, &NEAR_FIRST, |_| (), |_| (), (GREEN, 0.25))
    }),
    case("depth.near-last", "the nearest stays, where it is drawn last", |lab| {
        scene(lab, &NEAR_LAST, |_| (), |_| (), (BLUE, 0.125))
    }),
    case("depth.viewport", "depths are those of the viewport's range", |lab| {
        // Far is 0.25 and near is 0.75 there: 0.25 becomes 0.625, and 0.5 becomes 0.5.
        scene(
            lab,
            &NEAR_FIRST,
            |plan| {
                (plan.viewports[0].min_depth, plan.viewports[0].max_depth) = (0.75, 0.25);
            },
            |_| (),
            (BLUE, 0.5),
        )
    }),
    case(
        "depth.through",
        "triangles that go through each other are each seen where they are nearer",
        through,
    ),
    case(
        "depth.without-colours",
        "depths are stored by a pipeline without fragment shaders",
        |lab| scene(lab, &NEAR_FIRST, |plan| plan.stages.truncate(1), |_| (), (BLANK, 0.25)),
    ),
];

/// Two rectangles: their depths, of which the first is green and the second blue.
const NEAR_FIRST: [f32; 2] = [0.25, 0.5];
const NEAR_LAST: [f32; 2] = [0.25, 0.125];

/// A format that stores these depths as they are.
fn format(lab: &Lab) -> Outcome<vk::Format> {
    let format = vk::Format::D32_SFLOAT;
    lab.needs_feature(format, vk::FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT)?;
    Ok(format)
}

/// Draws three columns over a depth of a half: nearer, as near, and farther.
fn thirds(lab: &Lab, op: C, dynamic: bool, there: [bool; 3]) -> Outcome {
    let gpu = lab.graphics()?;
    let depths = gpu.canvas(depth_form(vk::Format::D16_UNORM))?;
    let mut plan = Plan::plain()?;
    plan.with_depth(depths, if dynamic { C::NEVER } else { op });
    if dynamic {
        plan.dynamic = vec![vk::DynamicState::DEPTH_COMPARE_OP];
    }
    let column = |place: f32, depth| at(depth, &rectangle([place, 0.0, place + 5.0, 16.0], RED));
    let under = at(0.5, &whole_area(BLUE));
    let over = [column(0.0, 0.25), column(5.0, 0.5), column(10.0, 0.75)].concat();
    let mut first = plan.clone();
    first.dynamic.clear();
    first.depth.depth_compare_op = C::ALWAYS;
    let brushes = [gpu.drawer(&first)?, gpu.drawer(&plan)?];
    let vertices = gpu.corners(&[under, over].concat())?;
    let canvas = gpu.colours()?;
    let rendering = Rendering::blank(canvas).depth(depths.filled_to(1.0, 0));
    gpu.run(|commands| {
        commands.begin(&rendering).vertices(&vertices).brush(&brushes[0]).draw(6);
        commands.brush(&brushes[1]);
        if dynamic {
            commands.state(State::DepthCompare(op));
        }
        commands.draw_some([18, 1], [6, 0]).end();
    })?;
    pictured(&gpu.words(canvas)?, |x, _| match there.get((x / 5.0) as usize) {
        Some(true) => RED,
        _ => BLUE,
    })
}

/// Draws two rectangles over each other, and requires a colour and a depth everywhere.
fn scene(
    lab: &Lab,
    [green, blue]: &[f32; 2],
    differ: impl FnOnce(&mut Plan<'_>),
    set: impl FnOnce(&crate::lab::Recorder<'_>),
    (colour, depth): (u32, f32),
) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, depths) = (gpu.colours()?, gpu.canvas(depth_form(format(lab)?))?);
    let mut plan = Plan::plain()?;
    plan.with_depth(depths, C::LESS);
    differ(&mut plan);
    let both = [at(*green, &whole_area(GREEN)), at(*blue, &whole_area(BLUE))].concat();
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&both)?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas).depth(depths.filled_to(1.0, 0)));
        commands.brush(&brush).vertices(&vertices);
        set(commands);
        commands.draw(12).end();
    })?;
    pictured(&gpu.words(canvas)?, |_, _| colour)?;
    let stored = gpu.depths(depths)?;
    require!(stored.iter().all(|it| *it == depth), "{:?} is not {depth}", stored.first());
    Ok(())
}

fn through(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, depths) = (gpu.colours()?, gpu.canvas(depth_form(vk::Format::D16_UNORM))?);
    let mut plan = Plan::plain()?;
    plan.with_depth(depths, C::LESS);
    // Green's depth is that of its column, and blue's is a half.
    let tilted = |corner: &Corner| at((corner[0] + 1.0) / 2.0, &[*corner])[0];
    let green: Vec<_> = whole_area(GREEN).iter().map(tilted).collect();
    let both = [green, at(0.5, &whole_area(BLUE))].concat();
    let rendering = Rendering::blank(canvas).depth(depths.filled_to(1.0, 0));
    crate::lab::sketch_on(&gpu, &rendering, &plan, &both)?;
    pictured(&gpu.words(canvas)?, boxed([0.0, 0.0, 8.0, 16.0], GREEN, BLUE))
}
