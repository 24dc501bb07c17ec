// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Framebuffers: the views that are attached, unless they are named when a render pass begins.

use crate::device::Device;
use crate::numbered::Numbered;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};

/// A view of an image, as the host is told of it: its address and its serial number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) address: u64,
    pub(crate) serial: u64,
}

impl View {
    /// That of a handle. A null handle gives none.
    ///
    /// # Safety
    /// The view is live, or null.
    pub(crate) unsafe fn of(view: vk::ImageView) -> Self {
        if view.is_null() {
            return Self::default();
        }
        // SAFETY: the caller says that it is live.
        let view = unsafe { handle::get::<Numbered>(view.as_raw()) };
        Self { address: view.address(), serial: view.serial() }
    }
}

/// Those of an array of handles.
///
/// # Safety
/// The array is valid, and its views are live, or null.
pub(crate) unsafe fn views(first: *const vk::ImageView, count: u32) -> Vec<View> {
    // SAFETY: as the caller says.
    unsafe { raw::slice(first, count).iter().map(|view| View::of(*view)).collect() }
}

/// A framebuffer.
pub(crate) struct Framebuffer {
    /// Nothing, if the views are named later.
    pub(crate) views: Vec<View>,
    pub(crate) layers: u32,
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::FramebufferCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    framebuffer: *mut vk::Framebuffer,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it. Without views the pointer to them is to nothing.
    unsafe {
        if !Device::get(device).caps.have_graphics() {
            return vk::Result::ERROR_FEATURE_NOT_PRESENT;
        }
        let information = &*information;
        let has_none = information.flags.contains(vk::FramebufferCreateFlags::IMAGELESS);
        let count = if has_none { 0 } else { information.attachment_count };
        let views = views(information.p_attachments, count);
        let made = Framebuffer { views, layers: information.layers };
        *framebuffer = vk::Framebuffer::from_raw(handle::create(made));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    framebuffer: vk::Framebuffer,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Framebuffer>(framebuffer.as_raw()) };
}

crate::entry::entry_points! {
    vkCreateFramebuffer = create,
    vkDestroyFramebuffer = destroy,
}
