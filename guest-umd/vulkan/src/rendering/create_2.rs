// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Creates render passes as Vulkan 1.2 describes them.

use super::create::{put, used};
use super::lower::{Asked, Described, lower};
use super::pass::RenderPass;
use crate::raw;
use ash::vk;

/// The index of the attachment that a pointer's reference names, if there is one.
///
/// # Safety
/// The pointer is null or valid.
unsafe fn one(reference: *const vk::AttachmentReference2<'_>) -> Option<u32> {
    // SAFETY: as the caller says.
    unsafe { reference.as_ref() }.and_then(|of| used(of.attachment))
}

/// A subpass, as it is asked for.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn subpass(subpass: &vk::SubpassDescription2<'_>) -> Asked {
    type Depths<'a> = vk::SubpassDescriptionDepthStencilResolve<'a>;
    // SAFETY: a valid structure's chain and pointers are. There are no resolved colours, or as many as colours.
    let (inputs, colors, resolved, depth, depths) = unsafe {
        let count = subpass.color_attachment_count;
        (
            raw::slice(subpass.p_input_attachments, subpass.input_attachment_count),
            raw::slice(subpass.p_color_attachments, count),
            raw::slice(subpass.p_resolve_attachments, count),
            one(subpass.p_depth_stencil_attachment),
            raw::find::<Depths<'_>>(subpass.p_next),
        )
    };
    let resolved = resolved.iter().map(|of| used(of.attachment)).chain(std::iter::repeat(None));
    Asked {
        inputs: inputs.iter().map(|of| used(of.attachment)).collect(),
        colors: colors.iter().map(|of| used(of.attachment)).zip(resolved).collect(),
        depth,
        // SAFETY: as above.
        depth_resolve: depths.and_then(|of| unsafe { one(of.p_depth_stencil_resolve_attachment) }),
        modes: depths
            .map_or_else(Default::default, |of| [of.depth_resolve_mode, of.stencil_resolve_mode]),
        view_mask: subpass.view_mask,
    }
}

/// The render pass that is asked for.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn asked(information: &vk::RenderPassCreateInfo2<'_>) -> RenderPass {
    // SAFETY: a valid structure's pointers are.
    let (attachments, subpasses, dependencies) = unsafe {
        (
            raw::slice(information.p_attachments, information.attachment_count),
            raw::slice(information.p_subpasses, information.subpass_count),
            raw::slice(information.p_dependencies, information.dependency_count),
        )
    };
    let describe = |of: &vk::AttachmentDescription2<'_>| Described {
        format: of.format,
        load: of.load_op,
        store: of.store_op,
        stencil_load: of.stencil_load_op,
        stencil_store: of.stencil_store_op,
    };
    let attachments: Vec<_> = attachments.iter().map(describe).collect();
    // SAFETY: as above.
    let subpasses: Vec<_> = subpasses.iter().map(|of| unsafe { subpass(of) }).collect();
    let dependencies = dependencies.iter().map(|of| (of.src_subpass, of.dst_subpass));
    lower(&attachments, &subpasses, dependencies)
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::RenderPassCreateInfo2<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    pass: *mut vk::RenderPass,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { put(device, pass, || asked(&*information)) }
}

crate::entry::entry_points! {
    vkCreateRenderPass2 = create,
    vkCreateRenderPass2KHR = create,
}
