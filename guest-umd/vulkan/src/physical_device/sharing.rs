// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers")]

//! Sharing with others: no kind of handle to buffers, semaphores and fences.

use ash::vk;

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
    _information: *const vk::PhysicalDeviceExternalSemaphoreInfo<'_>,
    properties: *mut vk::ExternalSemaphoreProperties<'_>,
) {
    type Kinds = vk::ExternalSemaphoreHandleTypeFlags;
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        (*properties).export_from_imported_handle_types = Kinds::empty();
        (*properties).compatible_handle_types = Kinds::empty();
        (*properties).external_semaphore_features = vk::ExternalSemaphoreFeatureFlags::empty();
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
