// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! The physical devices of an instance: the GPUs of a chain, which are a group if they can do the same.

use super::Instance;
use crate::physical_device::PhysicalDevice;
use crate::{handle, list};
use ash::vk::{self, Handle as _};

/// The physical devices of an instance: none if no device serves Vulkan programs.
///
/// # Safety
/// The instance lives.
unsafe fn devices<'i>(instance: vk::Instance) -> impl Iterator<Item = vk::PhysicalDevice> + 'i {
    // SAFETY: the caller says that it lives.
    let instance = unsafe { handle::get_dispatchable::<Instance>(instance.as_raw()) };
    instance.devices().iter().copied().map(vk::PhysicalDevice::from_raw)
}

/// The physical devices, each in one group.
///
/// # Safety
/// As [`devices`].
unsafe fn grouped(instance: vk::Instance) -> Vec<Vec<vk::PhysicalDevice>> {
    let mut groups: Vec<Vec<vk::PhysicalDevice>> = Vec::new();
    // SAFETY: as the caller says: the instance has these devices.
    unsafe {
        let gpu = |device: &vk::PhysicalDevice| &PhysicalDevice::get(*device).gpu;
        for device in devices(instance) {
            let is_its = |group: &&mut Vec<vk::PhysicalDevice>| {
                group.first().is_some_and(|first| gpu(first).is_of_group(gpu(&device)))
            };
            match groups.iter_mut().find(is_its) {
                Some(group) => group.push(device),
                None => groups.push(vec![device]),
            }
        }
    }
    groups
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
    let put = |place: &mut vk::PhysicalDeviceGroupProperties<'_>, group: Vec<_>| {
        place.physical_device_count = group.len() as u32;
        place.physical_devices = Default::default();
        for (place, device) in place.physical_devices.iter_mut().zip(group) {
            *place = device;
        }
        // Memory has one instance, which all reach.
        place.subset_allocation = vk::FALSE;
    };
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::put(grouped(instance), count, room, put) }
}

crate::entry::entry_points! {
    vkEnumeratePhysicalDevices = physical_devices,
    vkEnumeratePhysicalDeviceGroups = groups,
    vkEnumeratePhysicalDeviceGroupsKHR = groups,
}
