// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Families of queues: one of the nodes that can do everything, and one of those that compute and do not draw.

use super::{Gpu, PhysicalDevice};
use crate::list;
use ash::vk;
use bellhop_guest_umd::protocol::control::adapter::EngineType;

/// Most queues of a device in each family.
pub(crate) const QUEUES: u32 = 8;
/// The nodes of the families, by their numbers. A GPU has the first families alone whose nodes it has.
pub(crate) const FAMILIES: [EngineType; 2] = [EngineType::THREE_D, EngineType::COMPUTE];

impl Gpu {
    /// The nodes of its families of queues, by their numbers.
    pub(crate) fn families(&self) -> &'static [EngineType] {
        if self.has_compute_nodes { &FAMILIES } else { &FAMILIES[..1] }
    }

    /// The families, as Vulkan has them.
    fn family_properties(&self) -> impl Iterator<Item = vk::QueueFamilyProperties> {
        self.families().iter().map(|node| {
            let draws = *node == EngineType::THREE_D && self.caps.have_graphics();
            let graphics = if draws { vk::QueueFlags::GRAPHICS } else { vk::QueueFlags::empty() };
            vk::QueueFamilyProperties {
                queue_flags: graphics | vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER,
                queue_count: QUEUES,
                timestamp_valid_bits: self.caps.timestamp_bits,
                min_image_transfer_granularity: vk::Extent3D { width: 1, height: 1, depth: 1 },
            }
        })
    }
}

unsafe extern "system" fn families(
    device: vk::PhysicalDevice,
    count: *mut u32,
    properties: *mut vk::QueueFamilyProperties,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let gpu = unsafe { &PhysicalDevice::get(device).gpu };
    // Without room there is nothing to say.
    // SAFETY: as above.
    let _ = unsafe { list::copy(gpu.family_properties(), count, properties) };
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
    let gpu = unsafe { &PhysicalDevice::get(device).gpu };
    // Without room there is nothing to say.
    // SAFETY: as above.
    let _ = unsafe { list::put(gpu.family_properties(), count, properties, put) };
}

crate::entry::entry_points! {
    vkGetPhysicalDeviceQueueFamilyProperties = families,
    vkGetPhysicalDeviceQueueFamilyProperties2 = families_2,
    vkGetPhysicalDeviceQueueFamilyProperties2KHR = families_2,
}
