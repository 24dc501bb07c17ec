// SPDX-License-Identifier: MIT OR Apache-2.0

//! Viewports and scissors ("Controlling the Viewport", "Scissor Test").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, GREEN, Lab, Outcome, Plan, RED, Rendering, State, area, boxed, drawn, pictured,
    rectangle, viewport, whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "raster.viewport.part",
        "clip coordinates are those of a viewport's part of the canvas",
        |lab| {
            let part = viewport([3.0, 5.0], [8.0, 4.0]);
            let seen = drawn(lab, |plan| plan.viewports = vec![part], &whole_area(RED))?;
            pictured(&seen, boxed([3.0, 5.0, 11.0, 9.0], RED, BLANK))
        },
    ),
    case("raster.viewport.fraction", "a viewport may begin and end within texels", |lab| {
        let part = viewport([2.25, 1.75], [9.0, 6.5]);
        let seen = drawn(lab, |plan| plan.viewports = vec![part], &whole_area(RED))?;
        pictured(&seen, boxed([2.0, 2.0, 11.0, 8.0], RED, BLANK))
    }),
    case("raster.viewport.flipped", "a viewport with a negative height has its top below", |lab| {
        let flipped = viewport([0.0, 16.0], [16.0, -16.0]);
        let corners = rectangle([2.0, 1.0, 9.0, 5.0], RED);
        let seen = drawn(lab, |plan| plan.viewports = vec![flipped], &corners)?;
        pictured(&seen, boxed([2.0, 11.0, 9.0, 15.0], RED, BLANK))
    }),
    case("raster.viewport.flipped-faces", "faces are turned where a viewport is", |lab| {
        let flipped = |plan: &mut Plan<'_>| {
            plan.viewports = vec![viewport([0.0, 16.0], [16.0, -16.0])];
            plan.raster.cull_mode = vk::CullModeFlags::BACK;
        };
        pictured(&drawn(lab, flipped, &whole_area(RED))?, |_, _| BLANK)
    }),
    case("raster.viewport.larger", "a viewport may be larger than the canvas", |lab| {
        let large = viewport([-16.0, -16.0], [64.0, 64.0]);
        let seen =
            drawn(lab, |plan| plan.viewports = vec![large], &rectangle([5.0, 6.0, 7.0, 8.0], RED))?;
        pictured(&seen, boxed([4.0, 8.0, 12.0, 16.0], RED, BLANK))
    }),
    case(
        "raster.viewport.clipped",
        "what is beside the clip volume is not drawn beside the viewport",
        |lab| {
            let part = viewport([4.0, 4.0], [8.0, 8.0]);
            let seen = drawn(
                lab,
                |plan| plan.viewports = vec![part],
                &rectangle([-16.0, -16.0, 48.0, 48.0], RED),
            )?;
            pictured(&seen, boxed([4.0, 4.0, 12.0, 12.0], RED, BLANK))
        },
    ),
    case(
        "raster.viewport.dynamic",
        "a command sets the viewport, and the next draw has the next",
        |lab| {
            let [left, right] = [0.0, 8.0].map(|x| [viewport([x, 4.0], [8.0, 8.0])]);
            let states = [vk::DynamicState::VIEWPORT];
            let seen = twice(lab, &states, State::Viewports(&left), State::Viewports(&right))?;
            pictured(&seen, sides([0.0, 4.0, 8.0, 12.0], [8.0, 4.0, 16.0, 12.0]))
        },
    ),
    case(
        "raster.viewport.dynamic-count",
        "a command sets the viewports and how many there are",
        |lab| {
            let [left, right] = [0.0, 8.0].map(|x| [viewport([x, 4.0], [8.0, 8.0])]);
            let states = [vk::DynamicState::VIEWPORT_WITH_COUNT];
            let set = [State::ViewportsAndCount(&left), State::ViewportsAndCount(&right)];
            let seen = twice(lab, &states, set[0], set[1])?;
            pictured(&seen, sides([0.0, 4.0, 8.0, 12.0], [8.0, 4.0, 16.0, 12.0]))
        },
    ),
    case("raster.scissor.part", "texels beside the scissor stay", |lab| {
        let part = area([5, 3], [6, 9]);
        let seen = drawn(lab, |plan| plan.scissors = vec![part], &whole_area(RED))?;
        pictured(&seen, boxed([5.0, 3.0, 11.0, 12.0], RED, BLANK))
    }),
    case("raster.scissor.nothing", "a scissor without an extent leaves nothing", |lab| {
        let none = area([5, 3], [0, 0]);
        pictured(&drawn(lab, |plan| plan.scissors = vec![none], &whole_area(RED))?, |_, _| BLANK)
    }),
    case("raster.scissor.larger", "a scissor may be larger than the canvas", |lab| {
        let large = area([9, 2], [5000, 5000]);
        let seen = drawn(lab, |plan| plan.scissors = vec![large], &whole_area(RED))?;
        pictured(&seen, boxed([9.0, 2.0, 16.0, 16.0], RED, BLANK))
    }),
    case(
        "raster.scissor.dynamic",
        "a command sets the scissor, and the next draw has the next",
        |lab| {
            let (left, right) = ([area([0, 0], [5, 16])], [area([11, 2], [3, 3])]);
            let states = [vk::DynamicState::SCISSOR];
            let seen = twice(lab, &states, State::Scissors(&left), State::Scissors(&right))?;
            pictured(&seen, sides([0.0, 0.0, 5.0, 16.0], [11.0, 2.0, 14.0, 5.0]))
        },
    ),
    case(
        "raster.scissor.dynamic-count",
        "a command sets the scissors and how many there are",
        |lab| {
            let (left, right) = ([area([0, 0], [5, 16])], [area([11, 2], [3, 3])]);
            let states = [vk::DynamicState::SCISSOR_WITH_COUNT];
            let set = [State::ScissorsAndCount(&left), State::ScissorsAndCount(&right)];
            let seen = twice(lab, &states, set[0], set[1])?;
            pictured(&seen, sides([0.0, 0.0, 5.0, 16.0], [11.0, 2.0, 14.0, 5.0]))
        },
    ),
    case(
        "raster.scissor.no-clear",
        "a scissor does not keep a rendering from filling its canvas",
        |lab| {
            let gpu = lab.graphics()?;
            let mut plan = Plan::plain()?;
            plan.scissors = vec![area([0, 0], [1, 1])];
            let canvas = gpu.colours()?;
            let rendering = Rendering::of(&[canvas.filled_with([0.0, 1.0, 0.0, 1.0])]);
            crate::lab::sketch_on(&gpu, &rendering, &plan, &whole_area(RED))?;
            pictured(&gpu.words(canvas)?, boxed([0.0, 0.0, 1.0, 1.0], RED, GREEN))
        },
    ),
];

/// Red in one rectangle, and green in another.
fn sides(first: [f32; 4], second: [f32; 4]) -> impl Fn(f32, f32) -> u32 {
    move |x, y| match crate::lab::is_in(x, y, first) {
        true => RED,
        false => boxed(second, GREEN, BLANK)(x, y),
    }
}

/// Draws all of the canvas in red after one state, and in green after another.
fn twice(
    lab: &Lab,
    states: &[vk::DynamicState],
    first: State<'_>,
    second: State<'_>,
) -> Outcome<Vec<u32>> {
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    plan.dynamic = states.to_vec();
    if states.contains(&vk::DynamicState::VIEWPORT_WITH_COUNT) {
        plan.viewports.clear();
    }
    if states.contains(&vk::DynamicState::SCISSOR_WITH_COUNT) {
        plan.scissors.clear();
    }
    let all = [whole_area(RED), whole_area(GREEN)].concat();
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&all)?);
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.state(first).draw(6).state(second).draw_some([6, 1], [6, 0]).end();
    })?;
    gpu.words(canvas)
}
