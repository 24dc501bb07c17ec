// SPDX-License-Identifier: MIT OR Apache-2.0

//! Secondary command buffers within passes and renderings ("Secondary Command Buffer Execution").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Corner, GREEN, Lab, Outcome, PassForm, Plan, RED, Rendering, State, Subpass,
    WITHIN_COLOURS, Within, YELLOW, area, begun, boxed, pictured, rectangle, whole_area,
};
use ash::vk::{self, AttachmentLoadOp as Load, QueryPipelineStatisticFlags, SubpassContents};

pub(super) const CASES: &[Case] = &[
    case(
        "secondary.rendering",
        "secondary command buffers draw in a rendering, in their order",
        rendering,
    ),
    case("secondary.pass", "secondary command buffers draw in a pass, in their order", |lab| {
        pass(lab, true)
    }),
    case(
        "secondary.any-framebuffer",
        "one that does not know the framebuffer draws in a pass",
        |lab| pass(lab, false),
    ),
    case(
        "secondary.subpasses",
        "one subpass has its own commands, and the next has others'",
        subpasses,
    ),
    case("secondary.dynamic-state", "a secondary command buffer sets states of its own", state),
    case("secondary.many", "a hundred secondary command buffers draw in one rendering", many),
];

const PART: [f32; 4] = [2.0, 5.0, 14.0, 11.0];
const INNER: [f32; 4] = [4.0, 6.0, 9.0, 16.0];
const NONE: QueryPipelineStatisticFlags = QueryPipelineStatisticFlags::empty();

/// All in red, a part in green, and one in yellow.
fn three() -> Vec<Corner> {
    [whole_area(RED), rectangle(PART, GREEN), rectangle(INNER, YELLOW)].concat()
}

fn pictured_three(seen: &[u32]) -> Outcome {
    pictured(seen, |x, y| boxed(INNER, YELLOW, boxed(PART, GREEN, RED)(x, y))(x, y))
}

/// A rendering whose commands are others'.
fn of_others(rendering: Rendering) -> Rendering {
    rendering.flags(vk::RenderingFlags::CONTENTS_SECONDARY_COMMAND_BUFFERS)
}

fn rendering(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (brush, vertices, canvas) =
        (gpu.drawer(&Plan::plain()?)?, gpu.corners(&three())?, gpu.colours()?);
    let part = |first| {
        gpu.record_within(&WITHIN_COLOURS, NONE, |commands| {
            commands.brush(&brush).vertices(&vertices).draw_some([6, 1], [first, 0]);
        })
    };
    let parts = [part(0)?, part(6)?, part(12)?];
    gpu.run(|commands| {
        commands.begin(&of_others(Rendering::blank(canvas)));
        commands.execute(&parts[..2]).execute(&parts[2..]).end();
    })?;
    pictured_three(&gpu.words(canvas)?)
}

fn pass(lab: &Lab, knows: bool) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, vertices) = (gpu.colours()?, gpu.corners(&three())?);
    let pass = gpu.pass(&PassForm::simple(canvas, Load::CLEAR).in_turn())?;
    let framebuffer = gpu.framebuffer(pass, &[canvas])?;
    let known = if knows { framebuffer } else { vk::Framebuffer::null() };
    let brush = gpu.drawer(Plan::plain()?.within(pass, 0))?;
    let part = |first| {
        gpu.record_within(&Within::Pass(pass, 0, known), NONE, |commands| {
            commands.brush(&brush).vertices(&vertices).draw_some([6, 1], [first, 0]);
        })
    };
    let parts = [part(0)?, part(6)?, part(12)?];
    let values = [vk::ClearValue::default()];
    gpu.run(|commands| {
        let others = SubpassContents::SECONDARY_COMMAND_BUFFERS;
        commands.begin_pass(&begun(pass, framebuffer, &values), others).execute(&parts).end_pass();
    })?;
    pictured_three(&gpu.words(canvas)?)
}

fn subpasses(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, vertices) = (gpu.colours()?, gpu.corners(&three())?);
    let mut form = PassForm::simple(canvas, Load::CLEAR);
    form.subpasses = vec![Subpass::to(&[0]); 2];
    let pass = gpu.pass(&form.in_turn())?;
    let framebuffer = gpu.framebuffer(pass, &[canvas])?;
    let brush = |subpass| gpu.drawer(Plan::plain()?.within(pass, subpass));
    let brushes = [brush(0)?, brush(1)?];
    let second = gpu.record_within(&Within::Pass(pass, 1, framebuffer), NONE, |commands| {
        commands.brush(&brushes[1]).vertices(&vertices).draw_some([12, 1], [6, 0]);
    })?;
    let values = [vk::ClearValue::default()];
    gpu.run(|commands| {
        commands.begin_pass(&begun(pass, framebuffer, &values), SubpassContents::INLINE);
        commands.brush(&brushes[0]).vertices(&vertices).draw(6);
        commands
            .next_subpass(SubpassContents::SECONDARY_COMMAND_BUFFERS)
            .execute(&[second])
            .end_pass();
    })?;
    pictured_three(&gpu.words(canvas)?)
}

fn state(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, vertices) = (gpu.colours()?, gpu.corners(&three())?);
    let mut plan = Plan::plain()?;
    plan.dynamic = vec![vk::DynamicState::SCISSOR];
    let brush = gpu.drawer(&plan)?;
    let part = |first, x| {
        gpu.record_within(&WITHIN_COLOURS, NONE, |commands| {
            commands.state(State::Scissors(&[area([x, 0], [8, 16])]));
            commands.brush(&brush).vertices(&vertices).draw_some([6, 1], [first, 0]);
        })
    };
    let parts = [part(0, 0)?, part(6, 8)?];
    gpu.run(|commands| {
        commands.begin(&of_others(Rendering::blank(canvas))).execute(&parts).end();
    })?;
    let right = |x, y| boxed(PART, GREEN, BLANK)(x, y);
    pictured(&gpu.words(canvas)?, |x, y| if x < 8.0 { RED } else { right(x, y) })
}

fn many(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let texel = |place: u32| {
        let [x, y] = [place % 16, place / 16].map(|it| it as f32);
        rectangle([x, y, x + 1.0, y + 1.0], 0xff00_0000 | place)
    };
    let vertices = gpu.corners(&(0..100).flat_map(texel).collect::<Vec<_>>())?;
    let (brush, canvas) = (gpu.drawer(&Plan::plain()?)?, gpu.colours()?);
    let parts: Result<Vec<_>, _> = (0..100)
        .map(|place| {
            gpu.record_within(&WITHIN_COLOURS, NONE, |commands| {
                commands.brush(&brush).vertices(&vertices).draw_some([6, 1], [place * 6, 0]);
            })
        })
        .collect();
    let parts = parts?;
    gpu.run(|commands| {
        commands.begin(&of_others(Rendering::blank(canvas))).execute(&parts).end();
    })?;
    pictured(&gpu.words(canvas)?, |x, y| match (y as u32) * 16 + x as u32 {
        place @ ..100 => 0xff00_0000 | place,
        _ => BLANK,
    })
}
