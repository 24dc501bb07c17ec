// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images: parts of memory in which the host puts texels, as their descriptions say; views of them, and samplers.

mod create;
mod description;
mod layout;
mod memory;
mod object;
mod sampler;
pub(crate) mod targets;
mod view;

pub(crate) use description::{layers, range};
pub(crate) use object::Image;

use ash::vk;

/// Finds an entry point by its name.
pub fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    create::lookup(name)
        .or_else(|| memory::lookup(name))
        .or_else(|| layout::lookup(name))
        .or_else(|| view::lookup(name))
        .or_else(|| sampler::lookup(name))
}
