// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Creates render passes as Vulkan 1.0 describes them, and destroys them.

use super::lower::{Asked, Described, lower};
use super::pass::RenderPass;
use crate::device::Device;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::sync::Arc;

/// The index of an attachment that is used.
pub(super) fn used(attachment: u32) -> Option<u32> {
    Some(attachment).filter(|attachment| *attachment != vk::ATTACHMENT_UNUSED)
}

/// A subpass, as it is asked for.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn subpass(subpass: &vk::SubpassDescription<'_>, view_mask: u32) -> Asked {
    // SAFETY: a valid structure's pointers are. There are no resolved colours, or as many as colours.
    let (inputs, colors, resolved, depth) = unsafe {
        let count = subpass.color_attachment_count;
        (
            raw::slice(subpass.p_input_attachments, subpass.input_attachment_count),
            raw::slice(subpass.p_color_attachments, count),
            raw::slice(subpass.p_resolve_attachments, count),
            subpass.p_depth_stencil_attachment.as_ref(),
        )
    };
    let resolved = resolved.iter().map(|of| used(of.attachment)).chain(std::iter::repeat(None));
    Asked {
        inputs: inputs.iter().map(|of| used(of.attachment)).collect(),
        colors: colors.iter().map(|of| used(of.attachment)).zip(resolved).collect(),
        depth: depth.and_then(|of| used(of.attachment)),
        view_mask,
        ..Default::default()
    }
}

/// The render pass that is asked for.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn asked(information: &vk::RenderPassCreateInfo<'_>) -> RenderPass {
    type Multiview<'a> = vk::RenderPassMultiviewCreateInfo<'a>;
    // SAFETY: a valid structure's chain and pointers are.
    let (attachments, subpasses, dependencies, masks) = unsafe {
        let multiview = raw::find::<Multiview<'_>>(information.p_next);
        (
            raw::slice(information.p_attachments, information.attachment_count),
            raw::slice(information.p_subpasses, information.subpass_count),
            raw::slice(information.p_dependencies, information.dependency_count),
            multiview.map_or(&[][..], |of| raw::slice(of.p_view_masks, of.subpass_count)),
        )
    };
    let describe = |of: &vk::AttachmentDescription| Described {
        format: of.format,
        load: of.load_op,
        store: of.store_op,
        stencil_load: of.stencil_load_op,
        stencil_store: of.stencil_store_op,
    };
    let attachments: Vec<_> = attachments.iter().map(describe).collect();
    let masks = masks.iter().copied().chain(std::iter::repeat(0));
    // SAFETY: as above.
    let subpasses = subpasses.iter().zip(masks).map(|(of, mask)| unsafe { subpass(of, mask) });
    let subpasses: Vec<_> = subpasses.collect();
    let dependencies = dependencies.iter().map(|of| (of.src_subpass, of.dst_subpass));
    lower(&attachments, &subpasses, dependencies)
}

/// Makes the render pass that is asked for, on a device that draws.
///
/// # Safety
/// Device and place are valid.
pub(super) unsafe fn put(
    device: vk::Device,
    pass: *mut vk::RenderPass,
    asked: impl FnOnce() -> RenderPass,
) -> vk::Result {
    // SAFETY: the caller says that they are valid.
    unsafe {
        if !Device::get(device).caps.have_graphics() {
            return vk::Result::ERROR_FEATURE_NOT_PRESENT;
        }
        *pass = vk::RenderPass::from_raw(handle::create(Arc::new(asked())));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::RenderPassCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    pass: *mut vk::RenderPass,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { put(device, pass, || asked(&*information)) }
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    pass: vk::RenderPass,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Arc<RenderPass>>(pass.as_raw()) };
}

unsafe extern "system" fn granularity(
    _device: vk::Device,
    _pass: vk::RenderPass,
    granularity: *mut vk::Extent2D,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *granularity = vk::Extent2D { width: 1, height: 1 } };
}

crate::entry::entry_points! {
    vkCreateRenderPass = create,
    vkDestroyRenderPass = destroy,
    vkGetRenderAreaGranularity = granularity,
}
