// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers")]

//! Sharing with others: descriptors of semaphores, and no kind of handle to buffers and fences.

use ash::vk;

/// The kind of descriptor that programs pass semaphores to each other by.
pub(crate) const EXPORTED: vk::ExternalSemaphoreHandleTypeFlags =
    vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;

unsafe extern "system" fn buffer(
    _device: vk::PhysicalDevice,
    _information: *const vk::PhysicalDeviceExternalBufferInfo<'_>,
    properties: *mut vk::ExternalBufferProperties<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        (*properties).external_memory_properties = vk::ExternalMemoryProperties::default();
    }
}

unsafe extern "system" fn semaphore(
    _device: vk::PhysicalDevice,
    information: *const vk::PhysicalDeviceExternalSemaphoreInfo<'_>,
    properties: *mut vk::ExternalSemaphoreProperties<'_>,
) {
    use vk::{
        ExternalSemaphoreFeatureFlags as Features, ExternalSemaphoreHandleTypeFlags as Kinds,
    };
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let (kinds, features) = match (*information).handle_type {
            EXPORTED => (EXPORTED, Features::EXPORTABLE | Features::IMPORTABLE),
            _ => (Kinds::empty(), Features::empty()),
        };
        (*properties).export_from_imported_handle_types = kinds;
        (*properties).compatible_handle_types = kinds;
        (*properties).external_semaphore_features = features;
    }
}

unsafe extern "system" fn fence(
    _device: vk::PhysicalDevice,
    _information: *const vk::PhysicalDeviceExternalFenceInfo<'_>,
    properties: *mut vk::ExternalFenceProperties<'_>,
) {
    type Kinds = vk::ExternalFenceHandleTypeFlags;
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        (*properties).export_from_imported_handle_types = Kinds::empty();
        (*properties).compatible_handle_types = Kinds::empty();
        (*properties).external_fence_features = vk::ExternalFenceFeatureFlags::empty();
    }
}

crate::entry::entry_points! {
    vkGetPhysicalDeviceExternalBufferProperties = buffer,
    vkGetPhysicalDeviceExternalBufferPropertiesKHR = buffer,
    vkGetPhysicalDeviceExternalSemaphoreProperties = semaphore,
    vkGetPhysicalDeviceExternalSemaphorePropertiesKHR = semaphore,
    vkGetPhysicalDeviceExternalFenceProperties = fence,
    vkGetPhysicalDeviceExternalFencePropertiesKHR = fence,
}
