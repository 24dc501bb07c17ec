// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Entry points that say what a physical device can do.

use super::caps::driver_version;
use super::chain::{self, HEAD};
use super::properties::{DRIVER, text};
use super::{Caps, PhysicalDevice, extensions};
use crate::list;
use ash::vk;
use std::ffi::c_char;
use std::mem::{MaybeUninit, offset_of};
use std::ptr;

/// # Safety
/// There is room for the properties.
unsafe fn write_properties(caps: &Caps, to: *mut vk::PhysicalDeviceProperties) {
    let (vendor, device, cache) = caps.pipeline_cache_identity();
    // SAFETY: the caller says that there is room. The limits are of the same size, and any bytes are some.
    unsafe {
        (*to).api_version = caps.api_version;
        (*to).driver_version = driver_version();
        (*to).vendor_id = vendor;
        (*to).device_id = device;
        (*to).device_type = vk::PhysicalDeviceType::VIRTUAL_GPU;
        (*to).device_name = text(&format!("{DRIVER} ({})", caps.host));
        (*to).pipeline_cache_uuid = cache;
        let limits = &caps.limits.0;
        ptr::copy_nonoverlapping(limits.as_ptr(), (&raw mut (*to).limits).cast(), limits.len());
        (*to).sparse_properties = vk::PhysicalDeviceSparseProperties::default();
    }
}

unsafe extern "system" fn properties(
    device: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceProperties,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { write_properties(PhysicalDevice::get(device).caps(), properties) };
}

unsafe extern "system" fn properties_2(
    device: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it. What `fields` returns is as long as the structure.
    unsafe {
        let caps = PhysicalDevice::get(device).caps();
        write_properties(caps, &raw mut (*properties).properties);
        chain::fill((*properties).p_next, |kind| caps.properties.fields(kind));
    }
}

unsafe extern "system" fn features(
    device: vk::PhysicalDevice,
    features: *mut vk::PhysicalDeviceFeatures,
) {
    let mut all = MaybeUninit::<vk::PhysicalDeviceFeatures2<'_>>::zeroed();
    // SAFETY: all bytes of a structure of numbers and a pointer may be zero. What a program passes is valid.
    unsafe {
        let all = all.assume_init_mut();
        all.s_type = vk::StructureType::PHYSICAL_DEVICE_FEATURES_2;
        features_2(device, all);
        *features = all.features;
    }
}

unsafe extern "system" fn features_2(
    device: vk::PhysicalDevice,
    features: *mut vk::PhysicalDeviceFeatures2<'_>,
) {
    const { assert!(HEAD == offset_of!(vk::PhysicalDeviceFeatures2<'_>, features)) };
    // SAFETY: what a program passes is valid, as Vulkan demands it. What `fields` returns is as long as the structure.
    unsafe {
        let caps = PhysicalDevice::get(device).caps();
        chain::fill(features.cast(), |kind| caps.features.fields(kind));
    }
}

unsafe extern "system" fn memory(
    device: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceMemoryProperties,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *properties = PhysicalDevice::get(device).opened.memory.properties() };
}

unsafe extern "system" fn memory_2(
    device: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceMemoryProperties2<'_>,
) {
    let budget = vk::StructureType::PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
    // SAFETY: what a program passes is valid, as Vulkan demands it. The fields of a budget are as long as the structure.
    unsafe {
        let memory = &PhysicalDevice::get(device).opened.memory;
        (*properties).memory_properties = memory.properties();
        let next = (*properties).p_next;
        chain::fill(next, |kind| (kind == budget).then(|| memory.budget_fields()));
    }
}

unsafe extern "system" fn device_extensions(
    device: vk::PhysicalDevice,
    layer: *const c_char,
    count: *mut u32,
    properties: *mut vk::ExtensionProperties,
) -> vk::Result {
    if !layer.is_null() {
        return vk::Result::ERROR_LAYER_NOT_PRESENT;
    }
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let caps = PhysicalDevice::get(device).caps();
        list::copy(extensions::offered(caps).map(extensions::describe), count, properties)
    }
}

unsafe extern "system" fn device_layers(
    _device: vk::PhysicalDevice,
    count: *mut u32,
    properties: *mut vk::LayerProperties,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::copy([], count, properties) }
}

crate::entry::entry_points! {
    vkGetPhysicalDeviceProperties = properties,
    vkGetPhysicalDeviceProperties2 = properties_2,
    vkGetPhysicalDeviceProperties2KHR = properties_2,
    vkGetPhysicalDeviceFeatures = features,
    vkGetPhysicalDeviceFeatures2 = features_2,
    vkGetPhysicalDeviceFeatures2KHR = features_2,
    vkGetPhysicalDeviceMemoryProperties = memory,
    vkGetPhysicalDeviceMemoryProperties2 = memory_2,
    vkGetPhysicalDeviceMemoryProperties2KHR = memory_2,
    vkEnumerateDeviceExtensionProperties = device_extensions,
    vkEnumerateDeviceLayerProperties = device_layers,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physical_device::caps::tests::caps;
    use crate::physical_device::features::Features;

    #[test]
    fn the_name_says_whose_device_it_is() {
        let mut properties = vk::PhysicalDeviceProperties::default();
        // SAFETY: there is room.
        unsafe { write_properties(&caps(), &raw mut properties) };
        assert_eq!(properties.device_name_as_c_str(), Ok(c"Bellhop (llvmpipe)"));
        assert_eq!(properties.limits.non_coherent_atom_size, 1);
        assert!(properties.pipeline_cache_uuid != [0; 16]);
    }

    #[test]
    fn a_structure_of_features_is_as_long_as_its_fields() {
        use vk::StructureType as Kind;
        for (kind, size) in [
            (Kind::PHYSICAL_DEVICE_FEATURES_2, size_of::<vk::PhysicalDeviceFeatures2<'_>>()),
            (
                Kind::PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                size_of::<vk::PhysicalDeviceVulkan12Features<'_>>(),
            ),
            (
                Kind::PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                size_of::<vk::PhysicalDeviceVulkan13Features<'_>>(),
            ),
        ] {
            let fields = Features::count(kind).unwrap() * 4;
            assert_eq!(size - HEAD, fields.next_multiple_of(8));
        }
    }
}
