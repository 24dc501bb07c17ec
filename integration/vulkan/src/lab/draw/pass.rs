// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Render passes.

use super::super::{Gpu, Outcome, Recorder};
use super::Canvas;
use ash::vk;

/// A subpass: what it has of the attachments.
#[derive(Clone, Default)]
pub(crate) struct Subpass {
    pub(crate) inputs: Vec<vk::AttachmentReference>,
    pub(crate) colours: Vec<vk::AttachmentReference>,
    /// None, or one for each of the colours.
    pub(crate) resolves: Vec<vk::AttachmentReference>,
    pub(crate) depth: Option<vk::AttachmentReference>,
    pub(crate) kept: Vec<u32>,
}

/// What a render pass is made of.
#[derive(Clone, Default)]
pub(crate) struct PassForm {
    pub(crate) attachments: Vec<vk::AttachmentDescription>,
    pub(crate) subpasses: Vec<Subpass>,
    pub(crate) dependencies: Vec<vk::SubpassDependency>,
    /// The views of each subpass, if there are several views.
    pub(crate) views: Vec<u32>,
}

/// An attachment that stays in its layout, as this is loaded, and kept.
pub(crate) fn attachment(canvas: Canvas, load: vk::AttachmentLoadOp) -> vk::AttachmentDescription {
    vk::AttachmentDescription::default()
        .format(canvas.image.form.format)
        .samples(canvas.image.form.samples)
        .load_op(load)
        .store_op(vk::AttachmentStoreOp::STORE)
        .stencil_load_op(load)
        .stencil_store_op(vk::AttachmentStoreOp::STORE)
        .initial_layout(canvas.layout)
        .final_layout(canvas.layout)
}

/// An attachment by its number, in a layout.
pub(crate) fn reference(attachment: u32, layout: vk::ImageLayout) -> vk::AttachmentReference {
    vk::AttachmentReference { attachment, layout }
}

impl Subpass {
    /// One that draws colours to these attachments.
    pub(crate) fn to(colours: &[u32]) -> Self {
        let layout = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;
        let colours = colours.iter().map(|colour| reference(*colour, layout)).collect();
        Self { colours, ..Self::default() }
    }

    /// With depths and stencils.
    pub(crate) fn depth(self, attachment: u32) -> Self {
        let layout = vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL;
        Self { depth: Some(reference(attachment, layout)), ..self }
    }

    /// That reads these attachments.
    pub(crate) fn reads(mut self, inputs: &[u32]) -> Self {
        let layout = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;
        self.inputs = inputs.iter().map(|input| reference(*input, layout)).collect();
        self
    }

    fn description(&self) -> vk::SubpassDescription<'_> {
        let description = vk::SubpassDescription::default()
            .pipeline_bind_point(vk::PipelineBindPoint::GRAPHICS)
            .input_attachments(&self.inputs)
            .color_attachments(&self.colours)
            .preserve_attachments(&self.kept);
        let description = match self.resolves.as_slice() {
            [] => description,
            resolves => description.resolve_attachments(resolves),
        };
        match &self.depth {
            Some(depth) => description.depth_stencil_attachment(depth),
            None => description,
        }
    }
}

/// A dependency of all that one subpass does upon all that another does, at the same place.
pub(crate) fn after(first: u32, second: u32) -> vk::SubpassDependency {
    let everything = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
    let stage = |subpass| match subpass {
        vk::SUBPASS_EXTERNAL => vk::PipelineStageFlags::ALL_COMMANDS,
        _ => vk::PipelineStageFlags::ALL_GRAPHICS,
    };
    let flags = match [first, second].contains(&vk::SUBPASS_EXTERNAL) {
        true => vk::DependencyFlags::empty(),
        false => vk::DependencyFlags::BY_REGION,
    };
    vk::SubpassDependency::default()
        .src_subpass(first)
        .dst_subpass(second)
        .src_stage_mask(stage(first))
        .dst_stage_mask(stage(second))
        .src_access_mask(everything)
        .dst_access_mask(everything)
        .dependency_flags(flags)
}

impl PassForm {
    /// One subpass that draws a canvas, which is filled at first.
    pub(crate) fn simple(canvas: Canvas, load: vk::AttachmentLoadOp) -> Self {
        Self {
            attachments: vec![attachment(canvas, load)],
            subpasses: vec![Subpass::to(&[0])],
            ..Self::default()
        }
    }

    /// With so many subpasses, each after the one before and after what was before the pass; what is behind the pass is after all.
    pub(crate) fn in_turn(mut self) -> Self {
        let count = self.subpasses.len() as u32;
        let outside = vk::SUBPASS_EXTERNAL;
        self.dependencies = (0..count)
            .flat_map(|subpass| {
                let before = subpass.checked_sub(1).unwrap_or(outside);
                [after(before, subpass), after(subpass, outside)]
            })
            .collect();
        self
    }
}

impl Gpu<'_> {
    /// A render pass.
    pub(crate) fn pass(&self, form: &PassForm) -> Outcome<vk::RenderPass> {
        let subpasses: Vec<_> = form.subpasses.iter().map(Subpass::description).collect();
        let mut views = vk::RenderPassMultiviewCreateInfo::default().view_masks(&form.views);
        let mut information = vk::RenderPassCreateInfo::default()
            .attachments(&form.attachments)
            .subpasses(&subpasses)
            .dependencies(&form.dependencies);
        if !form.views.is_empty() {
            information = information.push_next(&mut views);
        }
        // SAFETY: the device is open. The structures live until the call returns.
        let pass = unsafe { self.raw.create_render_pass(&information, None) }?;
        Ok(self.owned_pass(pass))
    }

    /// Has a render pass destroyed with the device.
    pub(super) fn owned_pass(&self, pass: vk::RenderPass) -> vk::RenderPass {
        // SAFETY: nothing executes when this is called, and nobody else destroys it.
        self.later(move |device| unsafe { device.destroy_render_pass(pass, None) });
        pass
    }

    /// What areas of a pass begin and end best at.
    pub(crate) fn granularity(&self, pass: vk::RenderPass) -> [u32; 2] {
        // SAFETY: the pass is the device's.
        let vk::Extent2D { width, height } = unsafe { self.raw.get_render_area_granularity(pass) };
        [width, height]
    }
}

// As in `recorder`.
impl Recorder<'_> {
    /// Begins a pass.
    pub(crate) fn begin_pass(
        &self,
        begin: &vk::RenderPassBeginInfo<'_>,
        contents: vk::SubpassContents,
    ) -> &Self {
        // SAFETY: the command buffer is being recorded, and the objects are the device's.
        unsafe { self.gpu.raw.cmd_begin_render_pass(self.raw, begin, contents) };
        self
    }

    /// Goes on to the next subpass.
    pub(crate) fn next_subpass(&self, contents: vk::SubpassContents) -> &Self {
        // SAFETY: the command buffer is being recorded, in a pass with another subpass.
        unsafe { self.gpu.raw.cmd_next_subpass(self.raw, contents) };
        self
    }

    /// Ends a pass.
    pub(crate) fn end_pass(&self) -> &Self {
        // SAFETY: the command buffer is being recorded, in the last subpass of a pass.
        unsafe { self.gpu.raw.cmd_end_render_pass(self.raw) };
        self
    }
}
