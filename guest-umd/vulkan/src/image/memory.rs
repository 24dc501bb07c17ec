// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! The memory of images: how much they need, and where it is. Where several are bound at once, some may be of swap chains:
//! `surface` does that.

use super::create::asked;
use super::object::{Image, needs};
use crate::device::Device;
use crate::list;
use crate::memory::{Memory, put_requirements};
use ash::vk;

unsafe extern "system" fn requirements(
    _device: vk::Device,
    image: vk::Image,
    place: *mut vk::MemoryRequirements,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *place = Image::get(image).needs() };
}

unsafe extern "system" fn requirements_2(
    _device: vk::Device,
    information: *const vk::ImageMemoryRequirementsInfo2<'_>,
    place: *mut vk::MemoryRequirements2<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { put_requirements(Image::get((*information).image).needs(), place) };
}

unsafe extern "system" fn requirements_without(
    device: vk::Device,
    information: *const vk::DeviceImageMemoryRequirements<'_>,
    place: *mut vk::MemoryRequirements2<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let description = asked(&*(*information).p_create_info);
        // No memory is good for an image that there cannot be.
        let needs = needs(Device::get(device), description).unwrap_or_default();
        put_requirements(needs, place);
    }
}

unsafe extern "system" fn sparse(
    _device: vk::Device,
    _image: vk::Image,
    count: *mut u32,
    places: *mut vk::SparseImageMemoryRequirements,
) {
    // A list of nothing fits.
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let _ = unsafe { list::copy([], count, places) };
}

unsafe extern "system" fn sparse_2(
    _device: vk::Device,
    _information: *const vk::ImageSparseMemoryRequirementsInfo2<'_>,
    count: *mut u32,
    places: *mut vk::SparseImageMemoryRequirements2<'_>,
) {
    // A list of nothing fits.
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let _ = unsafe { list::copy([], count, places) };
}

unsafe extern "system" fn sparse_without(
    _device: vk::Device,
    _information: *const vk::DeviceImageMemoryRequirements<'_>,
    count: *mut u32,
    places: *mut vk::SparseImageMemoryRequirements2<'_>,
) {
    // A list of nothing fits.
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let _ = unsafe { list::copy([], count, places) };
}

unsafe extern "system" fn bind(
    _device: vk::Device,
    image: vk::Image,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { Image::get(image).bind_to(Memory::get(memory), offset) };
    vk::Result::SUCCESS
}

crate::entry::entry_points! {
    vkGetImageMemoryRequirements = requirements,
    vkGetImageMemoryRequirements2 = requirements_2,
    vkGetImageMemoryRequirements2KHR = requirements_2,
    vkGetDeviceImageMemoryRequirements = requirements_without,
    vkGetDeviceImageMemoryRequirementsKHR = requirements_without,
    vkGetImageSparseMemoryRequirements = sparse,
    vkGetImageSparseMemoryRequirements2 = sparse_2,
    vkGetImageSparseMemoryRequirements2KHR = sparse_2,
    vkGetDeviceImageSparseMemoryRequirements = sparse_without,
    vkGetDeviceImageSparseMemoryRequirementsKHR = sparse_without,
    vkBindImageMemory = bind,
}
