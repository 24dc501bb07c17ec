// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bounds of what was there ("Depth Bounds Test").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Lab, Outcome, Plan, RED, Rendering, State, at, boxed, depth_form, pictured, rectangle,
    whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("depth.bounds", "a texel is drawn where its depth was in the bounds", |lab| {
        bounds(lab, false)
    }),
    case("depth.bounds-dynamic", "commands set the bounds, and whether there are any", |lab| {
        bounds(lab, true)
    }),
];

/// The canvas has a depth of a half at the left, and of 1 at the right.
fn bounds(lab: &Lab, dynamic: bool) -> Outcome {
    lab.needs("depthBounds", lab.features().core.depth_bounds)?;
    let gpu = lab.graphics()?;
    let (canvas, depths) = (gpu.colours()?, gpu.canvas(depth_form(vk::Format::D16_UNORM))?);
    let mut first = Plan::plain()?;
    first.with_depth(depths, vk::CompareOp::LESS);
    first.blends[0].color_write_mask = vk::ColorComponentFlags::empty();
    let mut plan = Plan::plain()?;
    plan.with_depth(depths, vk::CompareOp::ALWAYS);
    let range = [0.25, 0.625];
    if dynamic {
        plan.dynamic =
            vec![vk::DynamicState::DEPTH_BOUNDS, vk::DynamicState::DEPTH_BOUNDS_TEST_ENABLE];
    } else {
        plan.depth = plan.depth.depth_bounds_test_enable(true);
        plan.depth = plan.depth.min_depth_bounds(range[0]).max_depth_bounds(range[1]);
    }
    let left = [0.0, 0.0, 7.0, 16.0];
    // What is drawn is out of the bounds, which does not matter.
    let all = [at(0.5, &rectangle(left, RED)), at(0.875, &whole_area(RED))].concat();
    let brushes = [gpu.drawer(&first)?, gpu.drawer(&plan)?];
    let vertices = gpu.corners(&all)?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas).depth(depths.filled_to(1.0, 0)));
        commands.vertices(&vertices).brush(&brushes[0]).draw(6).brush(&brushes[1]);
        if dynamic {
            commands.state(State::DepthBoundsTest(true)).state(State::DepthBounds(range));
        }
        commands.draw_some([6, 1], [6, 0]).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed(left, RED, BLANK))
}
