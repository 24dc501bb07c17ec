// SPDX-License-Identifier: MIT OR Apache-2.0

//! Renderings: what draws draw to. A render pass becomes one for each of its subpasses.

mod create;
mod create_2;
mod dynamic;
mod framebuffer;
mod instance;
mod lower;
mod of_group;
mod pass;

pub(crate) use dynamic::{Formats, begin as begin_dynamic};
pub(crate) use framebuffer::{Framebuffer, View, views};
pub(crate) use instance::{Rendering, count_views};
pub(crate) use of_group::OfGroup;
pub(crate) use pass::RenderPass;

use ash::vk;

/// Finds an entry point by its name.
pub fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    create::lookup(name).or_else(|| create_2::lookup(name)).or_else(|| framebuffer::lookup(name))
}
