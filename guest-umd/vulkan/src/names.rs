// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "programs call entry points by pointers")]

//! Names of objects, which messages have, and tools of guest and host where the adapter has an object of its own for it; and
//! tags and labels for tools, which nobody here reads.

use crate::device::Device;
use crate::memory::Memory;
use crate::queue::Queue;
use crate::semaphore::Semaphore;
use crate::{attached, handle};
use ash::vk::{self, Handle as _};
use bellhop_guest_umd::Error;
use std::ffi::{CStr, CString};

/// Names what the adapter has for an object of this type, if it has anything: all else is the driver's alone.
///
/// # Safety
/// The object is of this type, and lives.
unsafe fn name_on_adapter(kind: vk::ObjectType, object: u64, name: &str) -> Result<(), Error> {
    // SAFETY: as the caller says.
    unsafe {
        match kind {
            vk::ObjectType::DEVICE => Device::get(vk::Device::from_raw(object)).gpu.set_name(name),
            vk::ObjectType::QUEUE => handle::get_dispatchable::<Queue>(object).set_name(name),
            vk::ObjectType::DEVICE_MEMORY => {
                Memory::get(vk::DeviceMemory::from_raw(object)).set_name(name)
            }
            vk::ObjectType::SEMAPHORE => handle::get::<Semaphore>(object).set_name(name),
            _ => Ok(()),
        }
    }
}

unsafe extern "system" fn name(
    _device: vk::Device,
    information: *const vk::DebugUtilsObjectNameInfoEXT<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it: the name is null or a text.
    let (kind, object, name) = unsafe {
        let vk::DebugUtilsObjectNameInfoEXT { object_type, object_handle, p_object_name, .. } =
            *information;
        let name = p_object_name.as_ref().map(|name| CStr::from_ptr(name).to_owned());
        (object_type, object_handle, name.unwrap_or_else(CString::default))
    };
    // An older device has no names, and a program goes on without.
    // SAFETY: the program passes an object of the type that it says, which nobody else uses now.
    let _ = unsafe { name_on_adapter(kind, object, &name.to_string_lossy()) };
    attached::set_name(object, name);
    vk::Result::SUCCESS
}

unsafe extern "system" fn tag(
    _device: vk::Device,
    _information: *const vk::DebugUtilsObjectTagInfoEXT<'_>,
) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn label(
    _queue: vk::Queue,
    _information: *const vk::DebugUtilsLabelEXT<'_>,
) {
}

unsafe extern "system" fn end_label(_queue: vk::Queue) {}

crate::entry::entry_points! {
    vkSetDebugUtilsObjectNameEXT = name,
    vkSetDebugUtilsObjectTagEXT = tag,
    vkQueueBeginDebugUtilsLabelEXT = label,
    vkQueueEndDebugUtilsLabelEXT = end_label,
    vkQueueInsertDebugUtilsLabelEXT = label,
}
