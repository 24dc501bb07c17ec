// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! The physical devices of an instance.

use super::Instance;
use crate::{handle, list};
use ash::vk::{self, Handle as _};

/// The physical devices of an instance: one or none.
///
/// # Safety
/// The instance lives.
unsafe fn devices(instance: vk::Instance) -> Option<vk::PhysicalDevice> {
    // SAFETY: the caller says that it lives.
    let instance = unsafe { handle::get_dispatchable::<Instance>(instance.as_raw()) };
    instance.device().map(vk::PhysicalDevice::from_raw)
}

unsafe extern "system" fn physical_devices(
    instance: vk::Instance,
    count: *mut u32,
    room: *mut vk::PhysicalDevice,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::copy(devices(instance), count, room) }
}

unsafe extern "system" fn groups(
    instance: vk::Instance,
    count: *mut u32,
    room: *mut vk::PhysicalDeviceGroupProperties<'_>,
) -> vk::Result {
    let put = |place: &mut vk::PhysicalDeviceGroupProperties<'_>, device| {
        place.physical_device_count = 1;
        place.physical_devices = Default::default();
        if let Some(first) = place.physical_devices.first_mut() {
            *first = device;
        }
        place.subset_allocation = vk::FALSE;
    };
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::put(devices(instance), count, room, put) }
}

crate::entry::entry_points! {
    vkEnumeratePhysicalDevices = physical_devices,
    vkEnumeratePhysicalDeviceGroups = groups,
    vkEnumeratePhysicalDeviceGroupsKHR = groups,
}
