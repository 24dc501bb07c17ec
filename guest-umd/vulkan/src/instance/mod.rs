// SPDX-License-Identifier: MIT OR Apache-2.0

//! Instances: a program's connection to the driver.

mod create;
mod devices;
mod messengers;

use crate::handle;
use crate::messengers::{Message, Messengers};
use crate::physical_device::{Gpu, Opened, PhysicalDevice, Profile};
use ash::vk;
use std::sync::{Arc, OnceLock};

pub use create::lookup_global as global;

/// An instance.
struct Instance {
    /// The handles of its physical devices, once somebody asked: none if there is no device that serves Vulkan programs.
    devices: OnceLock<Vec<u64>>,
    messengers: Arc<Messengers>,
    /// What an administrator says of the program.
    profile: Profile,
}

impl Instance {
    /// The handles of its physical devices. The first call opens the adapter.
    fn devices(&self) -> &[u64] {
        self.devices.get_or_init(|| match Opened::get() {
            Ok(opened) => {
                let device = |gpu: &Gpu| {
                    let (opened, messengers) = (Arc::clone(&opened), Arc::clone(&self.messengers));
                    let (gpu, profile) = (gpu.clone(), self.profile);
                    handle::create_dispatchable(PhysicalDevice { opened, gpu, profile, messengers })
                };
                // The one that is chosen for the program comes first: most take that.
                let is_chosen = |gpu: &&Gpu| Some(gpu.ordinal) == self.profile.gpu;
                let (chosen, others): (Vec<_>, Vec<_>) = opened.gpus.iter().partition(is_chosen);
                chosen.into_iter().chain(others).map(device).collect()
            }
            Err(why) => {
                let text = format!("no physical device: {why}");
                self.messengers.tell(&Message { id: c"no-device", text: &text, object: None });
                Vec::new()
            }
        })
    }
}

/// Finds an entry point by its name: those whose first argument is an instance.
pub fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    create::lookup(name).or_else(|| devices::lookup(name)).or_else(|| messengers::lookup(name))
}
