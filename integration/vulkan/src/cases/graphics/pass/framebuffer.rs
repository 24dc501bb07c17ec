// SPDX-License-Identifier: MIT OR Apache-2.0

//! Framebuffers: several attachments, some that are not used, those that are named late, and none.

use super::simple::{FILLED, PART, blue};
use crate::case::{Case, case};
use crate::lab::{
    BLANK, BLUE, GREEN, Lab, Outcome, PassForm, Plan, RED, Slot, Subpass, YELLOW, after,
    attachment, begun, boxed, pictured, rectangle, require, same, whole_area,
};
use ash::vk::{self, AttachmentLoadOp as Load, ImageLayout as L, SubpassContents};

pub(super) const CASES: &[Case] = &[
    case("pass.several", "a pass draws on several attachments, in an order of its own", several),
    case("pass.unused", "a subpass leaves an attachment that it does not use", unused),
    case(
        "pass.imageless",
        "a framebuffer without images has those that a pass begins with",
        imageless,
    ),
    case("pass.without-attachments", "a pass without attachments runs fragments", without),
    case("pass.granularity", "a pass says which areas are the best", |lab| {
        let gpu = lab.graphics()?;
        let pass = gpu.pass(&PassForm::simple(gpu.colours()?, Load::CLEAR))?;
        let [width, height] = gpu.granularity(pass);
        require!(width >= 1 && height >= 1, "{width} by {height}");
        Ok(())
    }),
];

fn several(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let canvases = [gpu.colours()?, gpu.colours()?, gpu.colours()?];
    let mut form = PassForm::simple(canvases[0], Load::CLEAR);
    form.attachments = canvases.map(|canvas| attachment(canvas, Load::CLEAR)).to_vec();
    form.subpasses = vec![Subpass::to(&[2, 0, 1])];
    let pass = gpu.pass(&form.in_turn())?;
    let framebuffer = gpu.framebuffer(pass, &canvases)?;
    let source = "
        struct Three { @location(0) first: vec4<f32>, @location(1) second: vec4<f32>, @location(2) third: vec4<f32> }
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment() -> Three {
            return Three(vec4(1.0, 0.0, 0.0, 1.0), vec4(1.0, 1.0, 0.0, 1.0), vec4(0.0, 0.0, 1.0, 1.0));
        }";
    let mut plan = Plan::of(source)?;
    plan.targets(&[vk::Format::R8G8B8A8_UNORM; 3]).within(pass, 0);
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&rectangle(PART, RED))?);
    gpu.run(|commands| {
        commands.begin_pass(&begun(pass, framebuffer, &[FILLED[0]; 3]), SubpassContents::INLINE);
        commands.brush(&brush).vertices(&vertices).draw(6).end_pass();
    })?;
    for (canvas, colour) in canvases.into_iter().zip([YELLOW, BLUE, RED]) {
        pictured(&gpu.words(canvas)?, boxed(PART, colour, GREEN))?;
    }
    Ok(())
}

fn unused(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, other) = (gpu.colours()?, blue(&gpu)?);
    let mut form = PassForm::simple(canvas, Load::CLEAR);
    form.attachments.push(attachment(other, Load::LOAD));
    let mut colours = Subpass::to(&[0, vk::ATTACHMENT_UNUSED]);
    colours.colours[1].layout = L::UNDEFINED;
    form.subpasses = vec![colours];
    let pass = gpu.pass(&form.in_turn())?;
    let framebuffer = gpu.framebuffer(pass, &[canvas, other])?;
    let mut plan = Plan::plain()?;
    plan.targets(&[vk::Format::R8G8B8A8_UNORM; 2]).within(pass, 0);
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&rectangle(PART, RED))?);
    gpu.run(|commands| {
        commands.begin_pass(&begun(pass, framebuffer, &FILLED), SubpassContents::INLINE);
        commands.brush(&brush).vertices(&vertices).draw(6).end_pass();
    })?;
    pictured(&gpu.words(canvas)?, boxed(PART, RED, GREEN))?;
    pictured(&gpu.words(other)?, |_, _| BLUE)
}

fn imageless(lab: &Lab) -> Outcome {
    lab.needs("imagelessFramebuffer", lab.features().since_1_2.imageless_framebuffer)?;
    let gpu = lab.graphics()?;
    let canvases = [blue(&gpu)?, blue(&gpu)?];
    let pass = gpu.pass(&PassForm::simple(canvases[0], Load::LOAD).in_turn())?;
    let framebuffer = gpu.imageless(pass, &canvases[..1])?;
    let mut plan = Plan::plain()?;
    let brush = gpu.drawer(plan.within(pass, 0))?;
    let vertices = gpu.corners(&[rectangle(PART, RED), whole_area(YELLOW)].concat())?;
    gpu.run(|commands| {
        commands.brush(&brush).vertices(&vertices);
        for (first, canvas) in [0, 6].into_iter().zip(canvases) {
            let views = [canvas.view];
            let mut named = vk::RenderPassAttachmentBeginInfo::default().attachments(&views);
            let begin = begun(pass, framebuffer, &[]).push_next(&mut named);
            commands.begin_pass(&begin, SubpassContents::INLINE);
            commands.draw_some([6, 1], [first, 0]).end_pass();
        }
    })?;
    pictured(&gpu.words(canvases[0])?, boxed(PART, RED, BLUE))?;
    pictured(&gpu.words(canvases[1])?, |_, _| YELLOW)
}

fn without(lab: &Lab) -> Outcome {
    lab.needs("fragmentStoresAndAtomics", lab.features().core.fragment_stores_and_atomics)?;
    let gpu = lab.graphics()?;
    let source = "
        @group(0) @binding(0) var<storage, read_write> count: atomic<u32>;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment() { atomicAdd(&count, 1u); }";
    let outside = vk::SUBPASS_EXTERNAL;
    let form = PassForm {
        subpasses: vec![Subpass::default()],
        dependencies: vec![after(outside, 0)],
        ..PassForm::default()
    };
    let pass = gpu.pass(&form)?;
    let framebuffer = gpu.framebuffer(pass, &[])?;
    let mut plan = Plan::of(source)?;
    plan.targets(&[]).within(pass, 0);
    plan.slots = vec![Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1)];
    let (brush, vertices, count) =
        (gpu.drawer(&plan)?, gpu.corners(&rectangle(PART, BLANK))?, gpu.buffer(1)?);
    let set = gpu.set(&brush, &[count])?;
    gpu.run(|commands| {
        commands.begin_pass(&begun(pass, framebuffer, &[]), SubpassContents::INLINE);
        commands.brush(&brush).brush_sets(&brush, &[set], &[]).vertices(&vertices);
        commands.draw(6).end_pass().barrier();
    })?;
    same!(count.word(0), 72);
    Ok(())
}
