// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Renderings without a render pass.

use super::framebuffer::View;
use super::instance::Rendering;
use super::pass::Subpass;
use crate::raw;
use ash::vk;
use bellhop_protocol::vulkan::Attachment;

/// What pipelines know of attachments: formats are `VkFormat`s.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Formats {
    /// 0 for an attachment that there is not.
    pub(crate) colors: Vec<u32>,
    pub(crate) depth: u32,
    pub(crate) stencil: u32,
    pub(crate) view_mask: u32,
}

impl Formats {
    /// Those of a subpass.
    pub(crate) fn of_subpass(subpass: &Subpass) -> Self {
        Self {
            colors: subpass.colors.iter().map(|color| color.format).collect(),
            depth: subpass.depth.format,
            stencil: subpass.stencil.format,
            view_mask: subpass.view_mask,
        }
    }

    /// Those that a pipeline is created for.
    ///
    /// # Safety
    /// The structure is valid, as Vulkan demands it.
    pub(crate) unsafe fn of_rendering(information: &vk::PipelineRenderingCreateInfo<'_>) -> Self {
        let count = information.color_attachment_count;
        // SAFETY: a valid structure's pointers are.
        let colors = unsafe { raw::slice(information.p_color_attachment_formats, count) };
        Self {
            colors: colors.iter().map(|format| format.as_raw() as u32).collect(),
            depth: information.depth_attachment_format.as_raw() as u32,
            stencil: information.stencil_attachment_format.as_raw() as u32,
            view_mask: information.view_mask,
        }
    }
}

/// An attachment of a rendering.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn attachment(information: &vk::RenderingAttachmentInfo<'_>) -> Attachment {
    let is_resolved = !information.resolve_mode.is_empty();
    let is_cleared = information.load_op == vk::AttachmentLoadOp::CLEAR;
    // SAFETY: a valid structure's views are live or null, and that which nothing is resolved to does not count. Whatever numbers
    // the value has are bits.
    let (view, resolved, clear) = unsafe {
        let resolved =
            if is_resolved { information.resolve_image_view } else { vk::ImageView::null() };
        (View::of(information.image_view), View::of(resolved), information.clear_value.color.uint32)
    };
    if view.address == 0 {
        return Attachment::default();
    }
    Attachment {
        view: view.address,
        serial: view.serial,
        resolve_view: resolved.address,
        resolve_serial: resolved.serial,
        resolve_mode: if resolved.address == 0 { 0 } else { information.resolve_mode.as_raw() },
        load: information.load_op.as_raw() as u32,
        store: information.store_op.as_raw() as u32,
        reserved: 0,
        clear: if is_cleared { clear } else { [0; 4] },
    }
}

/// The rendering that a program begins: a part of one, if that was or will be suspended.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
pub(crate) unsafe fn begin(information: &vk::RenderingInfo<'_>) -> Rendering {
    // SAFETY: a valid structure's pointers are.
    let (colors, depth, stencil) = unsafe {
        let colors =
            raw::slice(information.p_color_attachments, information.color_attachment_count);
        let one = |of: *const vk::RenderingAttachmentInfo<'_>| {
            of.as_ref().map(|of| attachment(of)).unwrap_or_default()
        };
        let depth = one(information.p_depth_attachment);
        (colors, depth, one(information.p_stencil_attachment))
    };
    // SAFETY: as above.
    let colors = colors.iter().map(|color| unsafe { attachment(color) });
    let rendering =
        Rendering::new(information.render_area, information.layer_count, information.view_mask)
            .with(colors, depth, stencil);
    let rendering = if information.flags.contains(vk::RenderingFlags::SUSPENDING) {
        rendering.interrupted()
    } else {
        rendering
    };
    if information.flags.contains(vk::RenderingFlags::RESUMING) {
        rendering.resumed()
    } else {
        rendering
    }
}
