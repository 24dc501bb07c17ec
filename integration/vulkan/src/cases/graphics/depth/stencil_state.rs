// SPDX-License-Identifier: MIT OR Apache-2.0

//! How stencils are set: masks, references and faces.

use super::stencil::{drawn, test};
use crate::case::{Case, case};
use crate::lab::{
    BLANK, GREEN, Lab, Outcome, Plan, RED, Recorder, Rendering, STENCIL, State, boxed, depth_form,
    pictured, rectangle, same, whole_area,
};
use ash::vk::{self, CompareOp as C, DynamicState as D, StencilFaceFlags as Faces, StencilOp as S};

const REPLACE: [S; 3] = [S::KEEP, S::REPLACE, S::KEEP];

pub(super) const CASES: &[Case] = &[
    case("stencil.compare-mask", "bits beside the mask are not compared", |lab| {
        let state = test(C::EQUAL, [S::KEEP; 3]).reference(0xf3).compare_mask(0x8c);
        drawn(lab, state, 0.5, true, 0x80)?;
        drawn(lab, state.compare_mask(0xc0), 0.5, false, 0x80)
    }),
    case("stencil.write-mask", "bits beside the mask stay", |lab| {
        let state = test(C::ALWAYS, REPLACE).reference(0x7f).write_mask(0x25);
        drawn(lab, state, 0.5, true, 0xa5)
    }),
    case("stencil.both-faces", "each face has a test of its own", |lab| {
        faces(
            lab,
            &[],
            |plan| {
                plan.depth.front = test(C::ALWAYS, REPLACE).reference(3);
                plan.depth.back = test(C::ALWAYS, REPLACE).reference(5);
            },
            |_| (),
            [3, 5],
        )
    }),
    case("stencil.reference-dynamic", "commands set the reference of each face", |lab| {
        faces(
            lab,
            &[D::STENCIL_REFERENCE],
            |_| (),
            |commands| {
                commands.state(State::StencilReference(Faces::FRONT_AND_BACK, 9));
                commands.state(State::StencilReference(Faces::BACK, 7));
            },
            [9, 7],
        )
    }),
    case("stencil.masks-dynamic", "commands set the masks of each face", |lab| {
        faces(
            lab,
            &[D::STENCIL_WRITE_MASK, D::STENCIL_COMPARE_MASK],
            |plan| {
                let state = test(C::NOT_EQUAL, REPLACE).reference(0xff);
                (plan.depth.front, plan.depth.back) = (state, state);
            },
            |commands| {
                commands.state(State::StencilWriteMask(Faces::FRONT, 0x0f));
                commands.state(State::StencilWriteMask(Faces::BACK, 0xf0));
                commands.state(State::StencilCompareMask(Faces::FRONT_AND_BACK, 0x01));
            },
            [0x0f, 0xf0],
        )
    }),
    case("stencil.operation-dynamic", "a command sets the tests of each face", |lab| {
        faces(
            lab,
            &[D::STENCIL_OP],
            |_| (),
            |commands| {
                commands.state(State::Stencil(
                    Faces::FRONT,
                    [S::KEEP, S::INVERT, S::KEEP],
                    C::ALWAYS,
                ));
                commands.state(State::Stencil(
                    Faces::BACK,
                    [S::INCREMENT_AND_WRAP, S::KEEP, S::KEEP],
                    C::NEVER,
                ));
            },
            [0xff, 1],
        )
    }),
    case("stencil.test-dynamic", "a command sets whether there is a test", |lab| {
        let never = |plan: &mut Plan<'_>| {
            let state = test(C::NEVER, [S::INVERT; 3]);
            (plan.depth.front, plan.depth.back) = (state, state);
        };
        let states = [D::STENCIL_TEST_ENABLE];
        faces(
            lab,
            &states,
            never,
            |commands| {
                commands.state(State::StencilTest(false));
            },
            [0, 0],
        )?;
        faces(
            lab,
            &states,
            never,
            |commands| {
                commands.state(State::StencilTest(true));
            },
            [0xff, 0xff],
        )
    }),
    case("stencil.shape", "what is drawn later is drawn where a shape was", shape),
    case("stencil.no-test", "stencils stay where there is no test", |lab| {
        faces(lab, &[], |plan| plan.depth.stencil_test_enable = vk::FALSE, |_| (), [0, 0])
    }),
];

/// Draws a face of the front at the left and one of the back at the right, over stencils of 0. Replaces with 1 if nothing else is said.
fn faces(
    lab: &Lab,
    states: &[D],
    differ: impl FnOnce(&mut Plan<'_>),
    set: impl FnOnce(&Recorder<'_>),
    [left, right]: [u8; 2],
) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = gpu.canvas(depth_form(lab.both_format()?))?;
    let mut plan = Plan::plain()?;
    plan.targets(&[]).with_depth(canvas, C::ALWAYS);
    let state = test(C::ALWAYS, REPLACE).reference(1);
    plan.depth = plan.depth.stencil_test_enable(true).front(state).back(state);
    plan.dynamic = states.to_vec();
    differ(&mut plan);
    let mut corners = rectangle([0.0, 0.0, 8.0, 16.0], RED);
    corners.extend(rectangle([8.0, 0.0, 16.0, 16.0], RED).iter().rev());
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&corners)?);
    gpu.run(|commands| {
        commands.begin(&Rendering::of(&[]).both(canvas.filled_to(1.0, 0)));
        commands.brush(&brush).vertices(&vertices);
        set(commands);
        commands.draw(12).end();
    })?;
    let expected: Vec<_> =
        (0..256).map(|place| if place % 16 < 8 { left } else { right }).collect();
    same!(gpu.bytes_of_canvas(canvas, STENCIL)?, expected);
    Ok(())
}

fn shape(lab: &Lab) -> Outcome {
    const SHAPE: [f32; 4] = [3.0, 4.0, 13.0, 9.0];
    let gpu = lab.graphics()?;
    let (canvas, both) = (gpu.colours()?, gpu.canvas(depth_form(lab.both_format()?))?);
    let mut first = Plan::plain()?;
    first.with_depth(both, C::ALWAYS);
    first.blends[0].color_write_mask = vk::ColorComponentFlags::empty();
    let mut second = first.clone();
    second.blends[0].color_write_mask = vk::ColorComponentFlags::RGBA;
    let [marks, compares] = [test(C::ALWAYS, REPLACE), test(C::EQUAL, [S::KEEP; 3])];
    for (plan, state) in [(&mut first, marks), (&mut second, compares)] {
        let state = state.reference(1);
        plan.depth = plan.depth.stencil_test_enable(true).front(state).back(state);
    }
    let brushes = [gpu.drawer(&first)?, gpu.drawer(&second)?];
    let vertices = gpu.corners(&[rectangle(SHAPE, RED), whole_area(GREEN)].concat())?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas).both(both.filled_to(1.0, 0)));
        commands.vertices(&vertices).brush(&brushes[0]).draw(6);
        commands.brush(&brushes[1]).draw_some([6, 1], [6, 0]).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed(SHAPE, GREEN, BLANK))
}
