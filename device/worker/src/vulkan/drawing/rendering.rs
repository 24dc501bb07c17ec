// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Records renderings.

use crate::vulkan::recorder::LAYOUT;
use crate::vulkan::{Recorder, Resource, View};
use ash::vk;
use bellhop_protocol::vulkan::{Attachment, BeginRendering, ClearAttachment};
use std::rc::Rc;

/// An attachment with its views.
pub struct Attached<'d> {
    /// How it is loaded, stored and resolved.
    pub how: Attachment,
    /// The view.
    pub view: Rc<View<'d>>,
    /// The view that samples are resolved to.
    pub resolve: Option<Rc<View<'d>>>,
}

/// A rendering.
pub struct Rendering<'d> {
    /// Its area, layers and views.
    pub begin: BeginRendering,
    /// The attachments of colour.
    pub colors: Vec<Option<Attached<'d>>>,
    /// That of depth.
    pub depth: Option<Attached<'d>>,
    /// That of stencil.
    pub stencil: Option<Attached<'d>>,
}

/// Which member of the clear value counts.
#[derive(Clone, Copy)]
enum Of {
    Color,
    Depth,
}

fn value(words: [u32; 4], of: Of) -> vk::ClearValue {
    let [depth, stencil, ..] = words;
    match of {
        Of::Color => vk::ClearValue { color: vk::ClearColorValue { uint32: words } },
        Of::Depth => vk::ClearValue {
            depth_stencil: vk::ClearDepthStencilValue { depth: f32::from_bits(depth), stencil },
        },
    }
}

/// Vulkan's attachment; one without a view if there is none.
fn attachment(attached: Option<&Attached<'_>>, of: Of) -> vk::RenderingAttachmentInfo<'static> {
    let none = vk::RenderingAttachmentInfo::default();
    let Some(Attached { how, view, resolve }) = attached else { return none };
    let info = none
        .image_view(view.raw)
        .image_layout(LAYOUT)
        .load_op(vk::AttachmentLoadOp::from_raw(how.load as i32))
        .store_op(vk::AttachmentStoreOp::from_raw(how.store as i32))
        .clear_value(value(how.clear, of));
    match resolve {
        Some(resolve) => info
            .resolve_mode(vk::ResolveModeFlags::from_raw(how.resolve_mode))
            .resolve_image_view(resolve.raw)
            .resolve_image_layout(LAYOUT),
        None => info,
    }
}

fn rect([x, y]: [u32; 2], [width, height]: [u32; 2]) -> vk::Rect2D {
    let offset = vk::Offset2D { x: x as i32, y: y as i32 };
    vk::Rect2D { offset, extent: vk::Extent2D { width, height } }
}

impl<'d> Recorder<'d> {
    /// Records that a rendering begins, which the device and Vulkan allow, of images of this recording.
    pub fn begin_rendering(&mut self, rendering: &Rendering<'d>) {
        let Rendering { begin, colors, depth, stencil } = rendering;
        let attached = colors.iter().chain([depth, stencil]).flatten();
        for Attached { view, resolve, .. } in attached {
            for view in [Some(view), resolve.as_ref()].into_iter().flatten() {
                let view = Some(Rc::clone(view));
                self.resources.push(Resource::Image { view, sampler: None });
            }
        }
        let colors: Vec<_> =
            colors.iter().map(|color| attachment(color.as_ref(), Of::Color)).collect();
        let of_depth = attachment(depth.as_ref(), Of::Depth);
        let of_stencil = attachment(stencil.as_ref(), Of::Depth);
        let mut information = vk::RenderingInfo::default()
            .render_area(rect(begin.offset, begin.extent))
            .layer_count(begin.layers)
            .view_mask(begin.view_mask)
            .color_attachments(&colors);
        if depth.is_some() {
            information = information.depth_attachment(&of_depth);
        }
        if stencil.is_some() {
            information = information.stencil_attachment(&of_stencil);
        }
        // SAFETY: the command buffer is being recorded. The structures live until the call returns, and `self` keeps the
        // views. The area is in them, as the caller says.
        unsafe { self.device.raw.cmd_begin_rendering(self.commands.raw, &information) };
        self.queries.views = begin.view_mask.count_ones().max(1);
    }

    /// Records that the rendering ends, and that what was counted in it is stored.
    pub fn end_rendering(&mut self) {
        // SAFETY: the command buffer is being recorded, and a rendering has begun in it.
        unsafe { self.device.raw.cmd_end_rendering(self.commands.raw) };
        self.queries.views = 0;
        self.store_pending();
    }

    /// Records that a part of an attachment of the rendering is cleared, which is in its area and layers.
    pub fn clear_attachment(&self, clear: &ClearAttachment) {
        let aspect = vk::ImageAspectFlags::from_raw(clear.aspect);
        let of = if aspect == vk::ImageAspectFlags::COLOR { Of::Color } else { Of::Depth };
        let attachments = [vk::ClearAttachment::default()
            .aspect_mask(aspect)
            .color_attachment(clear.header.argument)
            .clear_value(value(clear.value, of))];
        let parts = [vk::ClearRect::default()
            .rect(rect(clear.offset, clear.extent))
            .base_array_layer(clear.layer)
            .layer_count(clear.layers)];
        // SAFETY: the command buffer is being recorded. A rendering has begun in it, which has the part, as the caller says.
        unsafe {
            self.device.raw.cmd_clear_attachments(self.commands.raw, &attachments, &parts);
        }
    }
}
