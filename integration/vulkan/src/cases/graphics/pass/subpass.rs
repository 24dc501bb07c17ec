// SPDX-License-Identifier: MIT OR Apache-2.0

//! Passes of several subpasses: what one gives to the next ("Render Pass Creation", "Input Attachment").

use super::newer::resolving;
use crate::case::{Case, case};
use crate::lab::{
    BLANK, Canvas, GREEN, Gpu, Kernel, Lab, Outcome, PassForm, Plan, RED, Slot, Subpass, YELLOW,
    after, at, attachment, begun, boxed, colour_form, depth_form, pictured, pictured_nearly,
    rectangle, stage, whole_area,
};
use ash::vk::{self, AttachmentLoadOp as Load, ImageLayout as L, SubpassContents};

pub(super) const CASES: &[Case] = &[
    case("pass.subpasses", "subpasses draw on one attachment in their order", |lab| {
        let gpu = lab.graphics()?;
        let canvas = gpu.colours()?;
        let mut form = PassForm::simple(canvas, Load::CLEAR);
        form.subpasses = vec![Subpass::to(&[0]); 3];
        let pass = gpu.pass(&form.in_turn())?;
        let framebuffer = gpu.framebuffer(pass, &[canvas])?;
        let brush = |subpass| gpu.drawer(Plan::plain()?.within(pass, subpass));
        let brushes = [brush(0)?, brush(1)?, brush(2)?];
        let all = [whole_area(RED), rectangle(PART, GREEN), rectangle(INNER, YELLOW)];
        let vertices = gpu.corners(&all.concat())?;
        gpu.run(|commands| {
            commands.begin_pass(&begun(pass, framebuffer, &BLANKS), SubpassContents::INLINE);
            commands.vertices(&vertices).brush(&brushes[0]).draw(6);
            commands
                .next_subpass(SubpassContents::INLINE)
                .brush(&brushes[1])
                .draw_some([6, 1], [6, 0]);
            commands
                .next_subpass(SubpassContents::INLINE)
                .brush(&brushes[2])
                .draw_some([6, 1], [12, 0]);
            commands.end_pass();
        })?;
        pictured(&gpu.words(canvas)?, |x, y| {
            boxed(INNER, YELLOW, boxed(PART, GREEN, RED)(x, y))(x, y)
        })
    }),
    case("pass.input", "a subpass reads what the one before drew at the same place", |lab| {
        input(lab, &stage!("input.frag")[..], false)
    }),
    case(
        "pass.input-newer",
        "a pass of Vulkan 1.2 has a subpass read what the one before drew",
        |lab| input(lab, &stage!("input.frag")[..], true),
    ),
    case("pass.input-depth", "a subpass reads the depths of the one before", input_depth),
    case(
        "pass.input-of-itself",
        "a subpass reads what it drew itself, behind a barrier",
        of_itself,
    ),
    case("pass.kept", "an attachment that a subpass does not use is kept for the next", kept),
    case("pass.resolve", "a subpass resolves its attachment to another", |lab| {
        resolving(lab, false)
    }),
];

const PART: [f32; 4] = [2.0, 5.0, 14.0, 11.0];
const INNER: [f32; 4] = [4.0, 6.0, 9.0, 16.0];
const BLANKS: [vk::ClearValue; 2] =
    [vk::ClearValue { color: vk::ClearColorValue { float32: [0.0; 4] } }; 2];
const INPUT: vk::ImageUsageFlags = vk::ImageUsageFlags::INPUT_ATTACHMENT;

/// A pipeline that reads an input attachment in its layout, and its set.
fn reader(
    gpu: &Gpu<'_>,
    (pass, subpass): (vk::RenderPass, u32),
    fragment: &[u8],
    (input, layout): (Canvas, L),
) -> Outcome<(Kernel, vk::DescriptorSet)> {
    let mut plan = Plan::plain()?;
    plan.within(pass, subpass).stage(vk::ShaderStageFlags::FRAGMENT, fragment);
    plan.slots = vec![Slot(0, vk::DescriptorType::INPUT_ATTACHMENT, 1)];
    let brush = gpu.drawer(&plan)?;
    let set = gpu.empty_set(&brush, 0)?;
    let shown = vk::DescriptorImageInfo::default().image_view(input.view).image_layout(layout);
    gpu.write_images(set, 0, vk::DescriptorType::INPUT_ATTACHMENT, &[shown]);
    Ok((brush, set))
}

fn input(lab: &Lab, fragment: &[u8], newer: bool) -> Outcome {
    let gpu = lab.graphics()?;
    let format = vk::Format::R8G8B8A8_UNORM;
    let (first, second) = (gpu.canvas(colour_form(format).used(INPUT))?, gpu.colours()?);
    let mut form = PassForm::simple(first, Load::CLEAR);
    form.attachments.push(attachment(second, Load::CLEAR));
    form.subpasses = vec![Subpass::to(&[0]), Subpass::to(&[1]).reads(&[0])];
    let form = form.in_turn();
    let pass = if newer { gpu.pass_2(&form, None)? } else { gpu.pass(&form)? };
    let framebuffer = gpu.framebuffer(pass, &[first, second])?;
    let brush = gpu.drawer(Plan::plain()?.within(pass, 0))?;
    let read = (first, L::SHADER_READ_ONLY_OPTIMAL);
    let (reads, set) = reader(&gpu, (pass, 1), fragment, read)?;
    let vertices = gpu.corners(&[rectangle(PART, RED), rectangle(INNER, RED)].concat())?;
    let begin = begun(pass, framebuffer, &BLANKS);
    gpu.run(|commands| {
        match newer {
            true => commands.begin_pass_2(&begin),
            false => commands.begin_pass(&begin, SubpassContents::INLINE),
        };
        commands.vertices(&vertices).brush(&brush).draw(6);
        match newer {
            true => commands.next_subpass_2(),
            false => commands.next_subpass(SubpassContents::INLINE),
        };
        commands.brush(&reads).brush_sets(&reads, &[set], &[]).draw_some([6, 1], [6, 0]);
        match newer {
            true => commands.end_pass_2(),
            false => commands.end_pass(),
        };
    })?;
    pictured(&gpu.words(second)?, |x, y| boxed(INNER, boxed(PART, GREEN, BLANK)(x, y), BLANK)(x, y))
}

fn input_depth(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let depths = gpu.canvas(depth_form(vk::Format::D16_UNORM).used(INPUT))?;
    let canvas = gpu.colours()?;
    let mut form = PassForm::simple(canvas, Load::CLEAR);
    form.attachments.push(attachment(depths, Load::CLEAR));
    let mut second = Subpass::to(&[0]).reads(&[1]);
    second.inputs[0].layout = L::DEPTH_STENCIL_READ_ONLY_OPTIMAL;
    form.subpasses = vec![Subpass::default().depth(1), second];
    let pass = gpu.pass(&form.in_turn())?;
    let framebuffer = gpu.framebuffer(pass, &[canvas, depths])?;
    let mut plan = Plan::plain()?;
    plan.targets(&[]).with_depth(depths, vk::CompareOp::LESS).within(pass, 0);
    let brush = gpu.drawer(&plan)?;
    let read = (depths, L::DEPTH_STENCIL_READ_ONLY_OPTIMAL);
    let (reads, set) = reader(&gpu, (pass, 1), stage!("input_depth.frag"), read)?;
    let vertices = gpu.corners(&[at(0.2, &rectangle(PART, RED)), whole_area(RED)].concat())?;
    let depth_stencil = vk::ClearDepthStencilValue { depth: 0.8, stencil: 0 };
    let values = [BLANKS[0], vk::ClearValue { depth_stencil }];
    gpu.run(|commands| {
        commands.begin_pass(&begun(pass, framebuffer, &values), SubpassContents::INLINE);
        commands.vertices(&vertices).brush(&brush).draw(6);
        commands.next_subpass(SubpassContents::INLINE).brush(&reads);
        commands.brush_sets(&reads, &[set], &[]).draw_some([6, 1], [6, 0]).end_pass();
    })?;
    pictured_nearly(&gpu.words(canvas)?, 1, boxed(PART, 0xff00_0033, 0xff00_00cc))
}

fn of_itself(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = gpu.canvas(colour_form(vk::Format::R8G8B8A8_UNORM).used(INPUT))?;
    let mut form = PassForm::simple(canvas, Load::CLEAR);
    let mut both = Subpass::to(&[0]).reads(&[0]);
    (both.inputs[0].layout, both.colours[0].layout) = (L::GENERAL, L::GENERAL);
    form.subpasses = vec![both];
    let mut form = form.in_turn();
    let mut itself = after(0, 0);
    itself.src_stage_mask = vk::PipelineStageFlags::COLOR_ATTACHMENT_OUTPUT;
    itself.dst_stage_mask = vk::PipelineStageFlags::FRAGMENT_SHADER;
    itself.src_access_mask = vk::AccessFlags::COLOR_ATTACHMENT_WRITE;
    itself.dst_access_mask = vk::AccessFlags::INPUT_ATTACHMENT_READ;
    form.dependencies.push(itself);
    let pass = gpu.pass(&form)?;
    let framebuffer = gpu.framebuffer(pass, &[canvas])?;
    let brush = gpu.drawer(Plan::plain()?.within(pass, 0))?;
    let (reads, set) = reader(&gpu, (pass, 0), stage!("input.frag"), (canvas, L::GENERAL))?;
    let vertices = gpu.corners(&[rectangle(PART, RED), rectangle(INNER, RED)].concat())?;
    gpu.run(|commands| {
        commands.begin_pass(&begun(pass, framebuffer, &BLANKS), SubpassContents::INLINE);
        commands.vertices(&vertices).brush(&brush).draw(6).barrier_within(&itself);
        commands.brush(&reads).brush_sets(&reads, &[set], &[]).draw_some([6, 1], [6, 0]).end_pass();
    })?;
    let turned = |x, y| boxed(INNER, GREEN, RED)(x, y);
    pictured(&gpu.words(canvas)?, |x, y| boxed(PART, turned(x, y), BLANK)(x, y))
}

fn kept(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, other) = (gpu.colours()?, gpu.colours()?);
    let mut form = PassForm::simple(canvas, Load::CLEAR);
    form.attachments.push(attachment(other, Load::CLEAR));
    let between = Subpass { kept: vec![0], ..Subpass::to(&[1]) };
    form.subpasses = vec![Subpass::to(&[0]), between, Subpass::to(&[0])];
    let mut form = form.in_turn();
    form.dependencies.push(after(0, 2));
    let pass = gpu.pass(&form)?;
    let framebuffer = gpu.framebuffer(pass, &[canvas, other])?;
    let brush = |subpass| gpu.drawer(Plan::plain()?.within(pass, subpass));
    let brushes = [brush(0)?, brush(1)?, brush(2)?];
    let vertices = gpu.corners(&[whole_area(RED), rectangle(PART, GREEN)].concat())?;
    gpu.run(|commands| {
        commands.begin_pass(&begun(pass, framebuffer, &BLANKS), SubpassContents::INLINE);
        commands.vertices(&vertices).brush(&brushes[0]).draw(6);
        commands.next_subpass(SubpassContents::INLINE).brush(&brushes[1]).draw_some([6, 1], [6, 0]);
        commands.next_subpass(SubpassContents::INLINE).brush(&brushes[2]).draw_some([6, 1], [6, 0]);
        commands.end_pass();
    })?;
    pictured(&gpu.words(canvas)?, boxed(PART, GREEN, RED))?;
    pictured(&gpu.words(other)?, boxed(PART, GREEN, BLANK))
}
