// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Render passes, as Vulkan 1.2 says them.

use super::super::{Gpu, Outcome, Recorder};
use super::pass::{PassForm, Subpass};
use ash::vk;

/// An attachment by its number, as Vulkan 1.2 says it.
fn newer(
    reference: &vk::AttachmentReference,
    part: vk::ImageAspectFlags,
) -> vk::AttachmentReference2<'static> {
    vk::AttachmentReference2::default()
        .attachment(reference.attachment)
        .layout(reference.layout)
        .aspect_mask(part)
}

/// The references of a subpass.
struct References {
    inputs: Vec<vk::AttachmentReference2<'static>>,
    colours: Vec<vk::AttachmentReference2<'static>>,
    resolves: Vec<vk::AttachmentReference2<'static>>,
    depth: Option<vk::AttachmentReference2<'static>>,
}

impl References {
    fn new(subpass: &Subpass) -> Self {
        let colours = |all: &[vk::AttachmentReference]| {
            all.iter().map(|each| newer(each, vk::ImageAspectFlags::COLOR)).collect()
        };
        Self {
            inputs: colours(&subpass.inputs),
            colours: colours(&subpass.colours),
            resolves: colours(&subpass.resolves),
            depth: subpass.depth.map(|depth| newer(&depth, vk::ImageAspectFlags::empty())),
        }
    }

    fn description(&self, views: u32) -> vk::SubpassDescription2<'_> {
        let description = vk::SubpassDescription2::default()
            .pipeline_bind_point(vk::PipelineBindPoint::GRAPHICS)
            .view_mask(views)
            .input_attachments(&self.inputs)
            .color_attachments(&self.colours);
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

impl Gpu<'_> {
    /// A render pass. The depths of its last subpass are resolved to an attachment by a mode, if that is said.
    pub(crate) fn pass_2(
        &self,
        form: &PassForm,
        resolved: Option<(vk::AttachmentReference, vk::ResolveModeFlags)>,
    ) -> Outcome<vk::RenderPass> {
        let attachments: Vec<_> = form
            .attachments
            .iter()
            .map(|each| {
                vk::AttachmentDescription2::default()
                    .format(each.format)
                    .samples(each.samples)
                    .load_op(each.load_op)
                    .store_op(each.store_op)
                    .stencil_load_op(each.stencil_load_op)
                    .stencil_store_op(each.stencil_store_op)
                    .initial_layout(each.initial_layout)
                    .final_layout(each.final_layout)
            })
            .collect();
        let references: Vec<_> = form.subpasses.iter().map(References::new).collect();
        let views = |subpass: usize| form.views.get(subpass).copied().unwrap_or_default();
        let each = references.iter().enumerate();
        let mut subpasses: Vec<_> =
            each.map(|(number, references)| references.description(views(number))).collect();
        let to = resolved.map(|(to, _)| newer(&to, vk::ImageAspectFlags::DEPTH));
        let mode = resolved.map_or(vk::ResolveModeFlags::NONE, |(_, mode)| mode);
        let mut depths =
            vk::SubpassDescriptionDepthStencilResolve::default().depth_resolve_mode(mode);
        if let Some(to) = &to {
            depths = depths.depth_stencil_resolve_attachment(to);
            if let Some(last) = subpasses.pop() {
                subpasses.push(last.push_next(&mut depths));
            }
        }
        let dependencies: Vec<_> = form
            .dependencies
            .iter()
            .map(|each| {
                vk::SubpassDependency2::default()
                    .src_subpass(each.src_subpass)
                    .dst_subpass(each.dst_subpass)
                    .src_stage_mask(each.src_stage_mask)
                    .dst_stage_mask(each.dst_stage_mask)
                    .src_access_mask(each.src_access_mask)
                    .dst_access_mask(each.dst_access_mask)
                    .dependency_flags(each.dependency_flags)
            })
            .collect();
        let information = vk::RenderPassCreateInfo2::default()
            .attachments(&attachments)
            .subpasses(&subpasses)
            .dependencies(&dependencies);
        // SAFETY: the device is open. The structures live until the call returns.
        let pass = unsafe { self.raw.create_render_pass2(&information, None) }?;
        Ok(self.owned_pass(pass))
    }
}

// As in `recorder`.
impl Recorder<'_> {
    /// Begins a pass with commands of its own.
    pub(crate) fn begin_pass_2(&self, begin: &vk::RenderPassBeginInfo<'_>) -> &Self {
        let inline = vk::SubpassBeginInfo::default().contents(vk::SubpassContents::INLINE);
        // SAFETY: the command buffer is being recorded, and the objects are the device's.
        unsafe { self.gpu.raw.cmd_begin_render_pass2(self.raw, begin, &inline) };
        self
    }

    /// Goes on to the next subpass.
    pub(crate) fn next_subpass_2(&self) -> &Self {
        let inline = vk::SubpassBeginInfo::default().contents(vk::SubpassContents::INLINE);
        let end = vk::SubpassEndInfo::default();
        // SAFETY: the command buffer is being recorded, in a pass with another subpass.
        unsafe { self.gpu.raw.cmd_next_subpass2(self.raw, &inline, &end) };
        self
    }

    /// Ends a pass.
    pub(crate) fn end_pass_2(&self) -> &Self {
        let end = vk::SubpassEndInfo::default();
        // SAFETY: the command buffer is being recorded, in the last subpass of a pass.
        unsafe { self.gpu.raw.cmd_end_render_pass2(self.raw, &end) };
        self
    }
}
