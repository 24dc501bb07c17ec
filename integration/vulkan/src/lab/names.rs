// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Names that a program gives: `VK_EXT_debug_utils`.

use super::image::Image;
use super::{Failure, Gpu, Outcome, Queue};
use ash::ext::debug_utils;
use ash::vk;
use std::ffi::CStr;

impl Gpu<'_> {
    /// Names the device.
    pub(crate) fn name(&self, name: &CStr) -> Outcome {
        self.name_object(self.raw.handle(), name)
    }

    /// Names an object of the device's.
    pub(crate) fn name_object(&self, object: impl vk::Handle, name: &CStr) -> Outcome {
        if self.lab.messages.is_none() {
            return Err(Failure::not_offered("VK_EXT_debug_utils"));
        }
        let functions = debug_utils::Device::new(&self.lab.instance, &self.raw);
        let information =
            vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(name);
        // SAFETY: the device is open, and its instance has the extension. The structure lives until the call returns.
        Ok(unsafe { functions.set_debug_utils_object_name(&information) }?)
    }

    /// Names a queue.
    pub(crate) fn name_queue(&self, queue: Queue, name: &CStr) -> Outcome {
        self.name_object(queue.raw, name)
    }

    /// Names an image.
    pub(crate) fn name_image(&self, image: Image, name: &CStr) -> Outcome {
        self.name_object(image.raw, name)
    }
}
