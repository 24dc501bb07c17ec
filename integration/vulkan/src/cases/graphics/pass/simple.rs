// SPDX-License-Identifier: MIT OR Apache-2.0

//! Passes of one subpass: what is loaded and stored, layouts, and framebuffers.

use crate::case::{Case, case};
use crate::lab::{
    BLUE, Canvas, GREEN, Gpu, Lab, Outcome, PassForm, Plan, RED, SIZE, Subpass, YELLOW, area, at,
    attachment, begun, boxed, depth_form, pictured, rectangle, whole_area,
};
use ash::vk::{self, AttachmentLoadOp as Load, ImageLayout as L, SubpassContents};

pub(super) const CASES: &[Case] = &[
    case("pass.fill", "a pass fills its attachment, and draws on it", |lab| {
        drawn(lab, |_| (), |x, y| boxed(PART, RED, GREEN)(x, y))
    }),
    case("pass.load", "a pass draws on what its attachment held", |lab| {
        drawn(
            lab,
            |form| form.attachments[0].load_op = Load::LOAD,
            |x, y| boxed(PART, RED, BLUE)(x, y),
        )
    }),
    case(
        "pass.layouts",
        "an attachment begins and ends a pass in other layouts than it is drawn on in",
        layouts,
    ),
    case("pass.from-undefined", "an attachment that held nothing needs no layout before", |lab| {
        drawn(
            lab,
            |form| form.attachments[0].initial_layout = L::UNDEFINED,
            |x, y| boxed(PART, RED, GREEN)(x, y),
        )
    }),
    case("pass.area", "what is beside the area of a pass stays", |lab| {
        let gpu = lab.graphics()?;
        let canvas = blue(&gpu)?;
        let pass = gpu.pass(&PassForm::simple(canvas, Load::CLEAR))?;
        let framebuffer = gpu.framebuffer(pass, &[canvas])?;
        let begin = begun(pass, framebuffer, &FILLED).render_area(area([3, 4], [8, 9]));
        gpu.run(|commands| {
            commands.begin_pass(&begin, SubpassContents::INLINE).end_pass();
        })?;
        pictured(&gpu.words(canvas)?, boxed([3.0, 4.0, 11.0, 13.0], GREEN, BLUE))
    }),
    case("pass.again", "a pass is begun many times, each time on what the last left", again),
    case(
        "pass.compatible",
        "a pipeline draws in a pass that differs in what it loads alone",
        compatible,
    ),
    case("pass.depth", "a pass has depths beside its colours", depth),
];

pub(super) const PART: [f32; 4] = [2.0, 5.0, 14.0, 11.0];

/// A filling with green.
pub(super) const FILLED: [vk::ClearValue; 1] =
    [vk::ClearValue { color: vk::ClearColorValue { float32: [0.0, 1.0, 0.0, 1.0] } }];

/// A blue canvas.
pub(super) fn blue(gpu: &Gpu<'_>) -> Outcome<Canvas> {
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands
            .begin(&crate::lab::Rendering::of(&[canvas.filled_with([0.0, 0.0, 1.0, 1.0])]))
            .end();
    })?;
    Ok(canvas)
}

/// Draws a red part in a pass that fills with green, on what was blue.
fn drawn(
    lab: &Lab,
    differ: impl FnOnce(&mut PassForm),
    right: impl Fn(f32, f32) -> u32,
) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = blue(&gpu)?;
    let mut form = PassForm::simple(canvas, Load::CLEAR);
    differ(&mut form);
    let pass = gpu.pass(&form.in_turn())?;
    let framebuffer = gpu.framebuffer(pass, &[canvas])?;
    let mut plan = Plan::plain()?;
    let brush = gpu.drawer(plan.within(pass, 0))?;
    let vertices = gpu.corners(&rectangle(PART, RED))?;
    gpu.run(|commands| {
        commands.begin_pass(&begun(pass, framebuffer, &FILLED), SubpassContents::INLINE);
        commands.brush(&brush).vertices(&vertices).draw(6).end_pass();
    })?;
    pictured(&gpu.words(canvas)?, right)
}

fn layouts(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let mut canvas = blue(&gpu)?;
    let mut form = PassForm::simple(canvas, Load::LOAD);
    form.attachments[0].initial_layout = L::TRANSFER_SRC_OPTIMAL;
    form.attachments[0].final_layout = L::GENERAL;
    let pass = gpu.pass(&form.in_turn())?;
    let framebuffer = gpu.framebuffer(pass, &[canvas])?;
    let mut plan = Plan::plain()?;
    let brush = gpu.drawer(plan.within(pass, 0))?;
    let vertices = gpu.corners(&rectangle(PART, RED))?;
    gpu.run(|commands| {
        commands.change(canvas.image, [canvas.layout, L::TRANSFER_SRC_OPTIMAL]);
        commands.begin_pass(&begun(pass, framebuffer, &[]), SubpassContents::INLINE);
        commands.brush(&brush).vertices(&vertices).draw(6).end_pass();
    })?;
    canvas.layout = L::GENERAL;
    pictured(&gpu.words(canvas)?, boxed(PART, RED, BLUE))
}

fn again(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = blue(&gpu)?;
    let pass = gpu.pass(&PassForm::simple(canvas, Load::LOAD).in_turn())?;
    let framebuffer = gpu.framebuffer(pass, &[canvas])?;
    let mut plan = Plan::plain()?;
    let brush = gpu.drawer(plan.within(pass, 0))?;
    let row = |y: u32| rectangle([0.0, y as f32, 16.0, y as f32 + 1.0], 0xff00_0000 | y);
    let vertices = gpu.corners(&(0..SIZE).flat_map(row).collect::<Vec<_>>())?;
    gpu.run(|commands| {
        commands.brush(&brush).vertices(&vertices);
        for y in 0..SIZE {
            commands.begin_pass(&begun(pass, framebuffer, &[]), SubpassContents::INLINE);
            commands.draw_some([6, 1], [6 * y, 0]).end_pass();
        }
    })?;
    pictured(&gpu.words(canvas)?, |_, y| 0xff00_0000 | y as u32)
}

fn compatible(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = blue(&gpu)?;
    let pass = gpu.pass(&PassForm::simple(canvas, Load::CLEAR).in_turn())?;
    let other = gpu.pass(&PassForm::simple(canvas, Load::LOAD).in_turn())?;
    let framebuffer = gpu.framebuffer(other, &[canvas])?;
    let mut plan = Plan::plain()?;
    let brush = gpu.drawer(plan.within(other, 0))?;
    let vertices = gpu.corners(&rectangle(PART, RED))?;
    gpu.run(|commands| {
        commands.begin_pass(&begun(pass, framebuffer, &FILLED), SubpassContents::INLINE);
        commands.brush(&brush).vertices(&vertices).draw(6).end_pass();
    })?;
    pictured(&gpu.words(canvas)?, boxed(PART, RED, GREEN))
}

fn depth(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, depths) = (gpu.colours()?, gpu.canvas(depth_form(vk::Format::D16_UNORM))?);
    let mut form = PassForm::simple(canvas, Load::CLEAR);
    form.attachments.push(attachment(depths, Load::CLEAR));
    form.subpasses = vec![Subpass::to(&[0]).depth(1)];
    let pass = gpu.pass(&form.in_turn())?;
    let framebuffer = gpu.framebuffer(pass, &[canvas, depths])?;
    let mut plan = Plan::plain()?;
    plan.with_depth(depths, vk::CompareOp::LESS).within(pass, 0);
    let both = [at(0.25, &rectangle(PART, RED)), at(0.5, &whole_area(YELLOW))].concat();
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&both)?);
    let depth_stencil = vk::ClearDepthStencilValue { depth: 1.0, stencil: 0 };
    let values = [FILLED[0], vk::ClearValue { depth_stencil }];
    gpu.run(|commands| {
        commands.begin_pass(&begun(pass, framebuffer, &values), SubpassContents::INLINE);
        commands.brush(&brush).vertices(&vertices).draw(12).end_pass();
    })?;
    pictured(&gpu.words(canvas)?, boxed(PART, RED, YELLOW))
}
