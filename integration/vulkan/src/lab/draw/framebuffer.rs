// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Framebuffers: the canvases of a render pass.

use super::super::{Gpu, Outcome};
use super::plan::area;
use super::{Canvas, SIZE};
use ash::vk;

impl Gpu<'_> {
    /// A framebuffer of canvases.
    pub(crate) fn framebuffer(
        &self,
        pass: vk::RenderPass,
        canvases: &[Canvas],
    ) -> Outcome<vk::Framebuffer> {
        let views: Vec<_> = canvases.iter().map(|canvas| canvas.view).collect();
        self.framebuffer_of(pass, &views, 1)
    }

    /// A framebuffer of views with so many layers.
    pub(crate) fn framebuffer_of(
        &self,
        pass: vk::RenderPass,
        views: &[vk::ImageView],
        layers: u32,
    ) -> Outcome<vk::Framebuffer> {
        let information = vk::FramebufferCreateInfo::default()
            .render_pass(pass)
            .attachments(views)
            .width(SIZE)
            .height(SIZE)
            .layers(layers);
        self.framebuffer_as(&information)
    }

    fn framebuffer_as(
        &self,
        information: &vk::FramebufferCreateInfo<'_>,
    ) -> Outcome<vk::Framebuffer> {
        // SAFETY: the device is open, pass and views are its own, and the structures live until the call returns.
        let framebuffer = unsafe { self.raw.create_framebuffer(information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_framebuffer(framebuffer, None) });
        Ok(framebuffer)
    }

    /// A framebuffer for canvases like these, which are named when a pass begins.
    pub(crate) fn imageless(
        &self,
        pass: vk::RenderPass,
        canvases: &[Canvas],
    ) -> Outcome<vk::Framebuffer> {
        let formats: Vec<_> = canvases.iter().map(|canvas| [canvas.image.form.format]).collect();
        let images: Vec<_> = canvases
            .iter()
            .zip(&formats)
            .map(|(canvas, formats)| {
                vk::FramebufferAttachmentImageInfo::default()
                    .usage(canvas.image.form.usage)
                    .flags(canvas.image.form.flags)
                    .width(SIZE)
                    .height(SIZE)
                    .layer_count(1)
                    .view_formats(formats)
            })
            .collect();
        let mut images =
            vk::FramebufferAttachmentsCreateInfo::default().attachment_image_infos(&images);
        let mut information = vk::FramebufferCreateInfo::default()
            .flags(vk::FramebufferCreateFlags::IMAGELESS)
            .render_pass(pass)
            .width(SIZE)
            .height(SIZE)
            .layers(1)
            .push_next(&mut images);
        information.attachment_count = canvases.len() as u32;
        self.framebuffer_as(&information)
    }
}

/// A beginning of a pass, of all of a framebuffer.
pub(crate) fn begun<'a>(
    pass: vk::RenderPass,
    framebuffer: vk::Framebuffer,
    values: &'a [vk::ClearValue],
) -> vk::RenderPassBeginInfo<'a> {
    vk::RenderPassBeginInfo::default()
        .render_pass(pass)
        .framebuffer(framebuffer)
        .render_area(area([0; 2], [SIZE; 2]))
        .clear_values(values)
}
