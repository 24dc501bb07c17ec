// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptors: which buffers, images and samplers a shader uses.

mod create_layout;
mod describe;
pub(crate) mod layout;
mod needs;
mod places;
mod pool;
mod set;
mod template;
mod update;

#[cfg(test)]
pub(crate) use layout::Asked;
pub(crate) use layout::SetLayout;
pub(crate) use set::DescriptorSet;
pub(crate) use template::Template;
pub(crate) use update::{Target, write};

use ash::vk;

/// Finds an entry point by its name.
pub fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    create_layout::lookup(name)
        .or_else(|| pool::lookup(name))
        .or_else(|| update::lookup(name))
        .or_else(|| template::lookup(name))
}
