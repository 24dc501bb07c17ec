// SPDX-License-Identifier: MIT OR Apache-2.0

//! Instances: a program's connection to the driver.

mod create;
mod devices;
mod messengers;

use crate::handle;
use crate::messengers::{Message, Messengers};
use crate::physical_device::{Opened, PhysicalDevice};
use ash::vk;
use std::sync::{Arc, OnceLock};

pub use create::lookup_global as global;

/// An instance.
struct Instance {
    /// The handle of its physical device, once somebody asked: none if there is no device that serves Vulkan programs.
    device: OnceLock<Option<u64>>,
    messengers: Arc<Messengers>,
}

impl Instance {
    /// The handle of its physical device. The first call opens the adapter.
    fn device(&self) -> Option<u64> {
        *self.device.get_or_init(|| match Opened::get() {
            Ok(opened) => {
                let messengers = Arc::clone(&self.messengers);
                Some(handle::create_dispatchable(PhysicalDevice { opened, messengers }))
            }
            Err(why) => {
                let text = format!("no physical device: {why}");
                self.messengers.tell(&Message { id: c"no-device", text: &text, object: None });
                None
            }
        })
    }
}

/// Finds an entry point by its name: those whose first argument is an instance.
pub fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    create::lookup(name).or_else(|| devices::lookup(name)).or_else(|| messengers::lookup(name))
}
