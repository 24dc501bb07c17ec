// SPDX-License-Identifier: MIT OR Apache-2.0

//! Buffers: ranges of memory; and views of them as texels.

mod object;
mod view;

pub use object::Buffer;
pub(crate) use view::BufferView;

use ash::vk;

/// Finds an entry point by its name.
pub fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    object::lookup(name).or_else(|| view::lookup(name))
}
