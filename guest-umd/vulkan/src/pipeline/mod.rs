// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pipelines: a program for the GPU, and what it uses. The host compiles them when a dispatch or a draw names them.

mod cache;
mod compute;
mod description;
mod device_index;
mod dynamic;
mod fixed;
mod graphics;
mod graphics_description;
mod layout;
mod module;
mod newer;
mod object;
mod stage;

pub(crate) use layout::PipelineLayout;
pub(crate) use object::Pipeline;

use ash::vk;

/// Finds an entry point by its name.
pub fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    module::lookup(name)
        .or_else(|| layout::lookup(name))
        .or_else(|| cache::lookup(name))
        .or_else(|| compute::lookup(name))
        .or_else(|| graphics::lookup(name))
        .or_else(|| object::lookup(name))
}
