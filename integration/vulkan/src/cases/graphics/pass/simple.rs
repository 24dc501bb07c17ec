// SPDX-License-Identifier: MIT OR Apache-2.0

//! Passes of one subpass: what is loaded and stored, layouts, and framebuffers.

use crate::case::{Case, case};
use crate::lab::{
    BLANK, BLUE, Canvas, GREEN, Gpu, Lab, Outcome, PassForm, Plan, RED, SIZE, Subpass, YELLOW,
    after, area, at, attachment, begun, boxed, depth_form, pictured, rectangle, require, same,
    whole_area,
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

const PART: [f32; 4] = [2.0, 5.0, 14.0, 11.0];

/// A filling with green.
const FILLED: [vk::ClearValue; 1] =
    [vk::ClearValue { color: vk::ClearColorValue { float32: [0.0, 1.0, 0.0, 1.0] } }];

/// A blue canvas.
fn blue(gpu: &Gpu<'_>) -> Outcome<Canvas> {
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
    plan.slots = vec![crate::lab::Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1)];
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
