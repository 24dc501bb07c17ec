// SPDX-License-Identifier: MIT OR Apache-2.0

//! Passes as Vulkan 1.2 says them, and what they resolve.

use crate::case::{Case, case};
use crate::lab::{
    DEPTH, GREEN, Lab, Outcome, PassForm, Plan, RED, Subpass, at, attachment, begun, boxed,
    colour_form, depth_form, pictured, pictured_nearly, rectangle, reference, require, whole_area,
};
use ash::vk::{self, AttachmentLoadOp as Load, ImageLayout as L, SubpassContents};

pub(super) const CASES: &[Case] = &[
    case("pass.newer", "a pass of Vulkan 1.2 fills its attachment, and draws on it", |lab| {
        let gpu = lab.graphics()?;
        let canvas = gpu.colours()?;
        let pass = gpu.pass_2(&PassForm::simple(canvas, Load::CLEAR).in_turn(), None)?;
        let framebuffer = gpu.framebuffer(pass, &[canvas])?;
        let brush = gpu.drawer(Plan::plain()?.within(pass, 0))?;
        let part = [2.0, 5.0, 14.0, 11.0];
        let vertices = gpu.corners(&rectangle(part, RED))?;
        gpu.run(|commands| {
            commands.begin_pass_2(&begun(pass, framebuffer, &[FILLED]));
            commands.brush(&brush).vertices(&vertices).draw(6).end_pass_2();
        })?;
        pictured(&gpu.words(canvas)?, boxed(part, RED, GREEN))
    }),
    case(
        "pass.resolve-newer",
        "a subpass of Vulkan 1.2 resolves its attachment to another",
        |lab| resolving(lab, true),
    ),
    case("pass.resolve-depth", "a subpass resolves depths to those of the first sample", depths),
];

/// Green.
const FILLED: vk::ClearValue =
    vk::ClearValue { color: vk::ClearColorValue { float32: [0.0, 1.0, 0.0, 1.0] } };
const FOUR: vk::SampleCountFlags = vk::SampleCountFlags::TYPE_4;

/// Resolves texels of which a half is red.
pub(super) fn resolving(lab: &Lab, newer: bool) -> Outcome {
    let gpu = lab.graphics()?;
    let form = colour_form(vk::Format::R8G8B8A8_UNORM);
    let (several, one) = (gpu.canvas(form.samples(FOUR))?, gpu.canvas(form)?);
    let mut form = PassForm::simple(several, Load::CLEAR);
    form.attachments[0].store_op = vk::AttachmentStoreOp::DONT_CARE;
    form.attachments.push(attachment(one, Load::DONT_CARE));
    let mut subpass = Subpass::to(&[0]);
    subpass.resolves = vec![reference(1, L::COLOR_ATTACHMENT_OPTIMAL)];
    form.subpasses = vec![subpass];
    let form = form.in_turn();
    let pass = if newer { gpu.pass_2(&form, None)? } else { gpu.pass(&form)? };
    let framebuffer = gpu.framebuffer(pass, &[several, one])?;
    let mut plan = Plan::plain()?;
    plan.sampled(FOUR).within(pass, 0).mask = Some(0b1001);
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&whole_area(RED))?);
    gpu.run(|commands| {
        commands.begin_pass(&begun(pass, framebuffer, &[FILLED]), SubpassContents::INLINE);
        commands.brush(&brush).vertices(&vertices).draw(6).end_pass();
    })?;
    pictured_nearly(&gpu.words(one)?, 1, |_, _| 0xff00_8080)
}

fn depths(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let form = depth_form(vk::Format::D16_UNORM);
    let (several, one) = (gpu.canvas(form.samples(FOUR))?, gpu.canvas(form)?);
    let mut form = PassForm {
        attachments: vec![attachment(several, Load::CLEAR), attachment(one, Load::DONT_CARE)],
        subpasses: vec![Subpass::default().depth(0)],
        ..PassForm::default()
    };
    form = form.in_turn();
    let to = reference(1, L::DEPTH_STENCIL_ATTACHMENT_OPTIMAL);
    let pass = gpu.pass_2(&form, Some((to, vk::ResolveModeFlags::SAMPLE_ZERO)))?;
    let framebuffer = gpu.framebuffer(pass, &[several, one])?;
    let mut plan = Plan::plain()?;
    plan.targets(&[]).with_depth(several, vk::CompareOp::LESS);
    plan.sampled(FOUR).within(pass, 0).mask = Some(1);
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&at(0.0, &whole_area(RED)))?);
    let depth_stencil = vk::ClearDepthStencilValue { depth: 1.0, stencil: 0 };
    gpu.run(|commands| {
        commands.begin_pass_2(&begun(pass, framebuffer, &[vk::ClearValue { depth_stencil }]));
        commands.brush(&brush).vertices(&vertices).draw(6).end_pass_2();
    })?;
    let bytes = gpu.bytes_of_canvas(one, DEPTH)?;
    require!(bytes.iter().all(|byte| *byte == 0), "{:?}", bytes.first());
    Ok(())
}
