// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes handles")]

//! Physical devices: the GPUs of the adapter, and what the host's Vulkan can do.

mod answers;
mod asking;
pub mod caps;
mod chain;
pub(crate) mod extensions;
pub mod features;
pub mod format_table;
mod formats;
mod gpu;
mod image_formats;
pub mod limits;
pub(crate) mod memory;
mod opened;
mod profile;
pub mod properties;
pub(crate) mod queues;
mod sharing;
mod tools;

pub use caps::Caps;
pub(crate) use chain::all;
pub(crate) use gpu::Gpu;
pub(crate) use opened::Opened;
pub(crate) use profile::{Frames, Profile};
pub(crate) use sharing::EXPORTED;

use crate::handle;
use crate::messengers::Messengers;
use ash::vk::{self, Handle as _};
use std::sync::Arc;

/// A physical device of an instance.
pub(crate) struct PhysicalDevice {
    pub(crate) opened: Arc<Opened>,
    pub(crate) gpu: Gpu,
    /// What an administrator says of the program.
    pub(crate) profile: Profile,
    /// Whom its instance tells.
    pub(crate) messengers: Arc<Messengers>,
}

impl PhysicalDevice {
    /// The object of a handle.
    ///
    /// # Safety
    /// The handle's instance lives as long as this is used.
    pub(crate) unsafe fn get<'a>(device: vk::PhysicalDevice) -> &'a Self {
        // SAFETY: the instance has made it, and lives.
        unsafe { handle::get_dispatchable::<Self>(device.as_raw()) }
    }

    pub(crate) fn caps(&self) -> &Arc<Caps> {
        &self.gpu.caps
    }
}

/// Finds an entry point by its name: those whose first argument is a physical device, and no others.
pub fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    answers::lookup(name)
        .or_else(|| queues::lookup(name))
        .or_else(|| formats::lookup(name))
        .or_else(|| image_formats::lookup(name))
        .or_else(|| sharing::lookup(name))
        .or_else(|| tools::lookup(name))
}
