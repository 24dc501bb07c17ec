// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Families of queues: one, for everything that there is.

use super::{Caps, PhysicalDevice};
use crate::list;
use ash::vk;

/// Most queues of a device.
pub(crate) const QUEUES: u32 = 8;

fn family(caps: &Caps) -> vk::QueueFamilyProperties {
    let draws = caps.have_graphics();
    let graphics = if draws { vk::QueueFlags::GRAPHICS } else { vk::QueueFlags::empty() };
    vk::QueueFamilyProperties {
        queue_flags: graphics | vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER,
        queue_count: QUEUES,
        timestamp_valid_bits: caps.timestamp_bits,
        min_image_transfer_granularity: vk::Extent3D { width: 1, height: 1, depth: 1 },
    }
}

unsafe extern "system" fn families(
    device: vk::PhysicalDevice,
    count: *mut u32,
    properties: *mut vk::QueueFamilyProperties,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let family = unsafe { family(PhysicalDevice::get(device).caps()) };
    // Without room there is nothing to say.
    // SAFETY: as above.
    let _ = unsafe { list::copy([family], count, properties) };
}

unsafe extern "system" fn families_2(
    device: vk::PhysicalDevice,
    count: *mut u32,
    properties: *mut vk::QueueFamilyProperties2<'_>,
) {
    let put = |place: &mut vk::QueueFamilyProperties2<'_>, family| {
        place.queue_family_properties = family;
    };
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let family = unsafe { family(PhysicalDevice::get(device).caps()) };
    // Without room there is nothing to say.
    // SAFETY: as above.
    let _ = unsafe { list::put([family], count, properties, put) };
}

crate::entry::entry_points! {
    vkGetPhysicalDeviceQueueFamilyProperties = families,
    vkGetPhysicalDeviceQueueFamilyProperties2 = families_2,
    vkGetPhysicalDeviceQueueFamilyProperties2KHR = families_2,
}
