// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers")]

//! Formats: images and texel buffers have none, so that there are neither.

use super::chain;
use crate::list;
use ash::vk;

unsafe extern "system" fn format(
    _device: vk::PhysicalDevice,
    _format: vk::Format,
    properties: *mut vk::FormatProperties,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *properties = vk::FormatProperties::default() };
}

unsafe extern "system" fn format_2(
    _device: vk::PhysicalDevice,
    _format: vk::Format,
    properties: *mut vk::FormatProperties2<'_>,
) {
    let longer = vk::StructureType::FORMAT_PROPERTIES_3;
    // SAFETY: what a program passes is valid, as Vulkan demands it. The longer properties are three 64-bit words.
    unsafe {
        (*properties).format_properties = vk::FormatProperties::default();
        chain::fill((*properties).p_next, |kind| (kind == longer).then(|| vec![0; 24]));
    }
}

unsafe extern "system" fn image_format(
    _device: vk::PhysicalDevice,
    _format: vk::Format,
    _kind: vk::ImageType,
    _tiling: vk::ImageTiling,
    _usage: vk::ImageUsageFlags,
    _flags: vk::ImageCreateFlags,
    properties: *mut vk::ImageFormatProperties,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *properties = vk::ImageFormatProperties::default() };
    vk::Result::ERROR_FORMAT_NOT_SUPPORTED
}

unsafe extern "system" fn image_format_2(
    _device: vk::PhysicalDevice,
    _information: *const vk::PhysicalDeviceImageFormatInfo2<'_>,
    properties: *mut vk::ImageFormatProperties2<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { (*properties).image_format_properties = vk::ImageFormatProperties::default() };
    vk::Result::ERROR_FORMAT_NOT_SUPPORTED
}

unsafe extern "system" fn sparse_format(
    _device: vk::PhysicalDevice,
    _format: vk::Format,
    _kind: vk::ImageType,
    _samples: vk::SampleCountFlags,
    _usage: vk::ImageUsageFlags,
    _tiling: vk::ImageTiling,
    count: *mut u32,
    properties: *mut vk::SparseImageFormatProperties,
) {
    // A list of nothing fits.
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let _ = unsafe { list::copy([], count, properties) };
}

unsafe extern "system" fn sparse_format_2(
    _device: vk::PhysicalDevice,
    _information: *const vk::PhysicalDeviceSparseImageFormatInfo2<'_>,
    count: *mut u32,
    properties: *mut vk::SparseImageFormatProperties2<'_>,
) {
    // A list of nothing fits.
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let _ = unsafe { list::copy([], count, properties) };
}

crate::entry::entry_points! {
    vkGetPhysicalDeviceFormatProperties = format,
    vkGetPhysicalDeviceFormatProperties2 = format_2,
    vkGetPhysicalDeviceFormatProperties2KHR = format_2,
    vkGetPhysicalDeviceImageFormatProperties = image_format,
    vkGetPhysicalDeviceImageFormatProperties2 = image_format_2,
    vkGetPhysicalDeviceImageFormatProperties2KHR = image_format_2,
    vkGetPhysicalDeviceSparseImageFormatProperties = sparse_format,
    vkGetPhysicalDeviceSparseImageFormatProperties2 = sparse_format_2,
    vkGetPhysicalDeviceSparseImageFormatProperties2KHR = sparse_format_2,
}
