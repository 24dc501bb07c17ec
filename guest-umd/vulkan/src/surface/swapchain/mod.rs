// SPDX-License-Identifier: MIT OR Apache-2.0

//! Swap chains: images that a program draws, one after the other, and a thread that shows them.

mod acquire;
mod bind;
mod chain;
mod create;
mod images;
mod object;
mod present;
mod presenter;

use ash::vk;

/// Finds an entry point by its name.
pub(super) fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    create::lookup(name)
        .or_else(|| bind::lookup(name))
        .or_else(|| acquire::lookup(name))
        .or_else(|| present::lookup(name))
}
