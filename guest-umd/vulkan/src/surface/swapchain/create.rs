// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Creates swap chains and destroys them.

use super::chain::Chain;
use super::images::Images;
use super::object::Swapchain;
use super::presenter::Presenter;
use crate::device::Device;
use crate::surface::object::Surface;
use crate::surface::questions::{MOST_IMAGES, image};
use crate::{handle, list};
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::Image as Description;
use std::sync::Arc;

/// The flags of an image of a swap chain with these.
fn flags(flags: vk::SwapchainCreateFlagsKHR) -> vk::ImageCreateFlags {
    if flags.contains(vk::SwapchainCreateFlagsKHR::MUTABLE_FORMAT) {
        vk::ImageCreateFlags::MUTABLE_FORMAT | vk::ImageCreateFlags::EXTENDED_USAGE
    } else {
        vk::ImageCreateFlags::empty()
    }
}

/// Makes a swap chain.
///
/// # Safety
/// The structure's handles are valid, as Vulkan demands it.
unsafe fn make(
    device: &'static Device,
    information: &vk::SwapchainCreateInfoKHR<'_>,
) -> Result<Swapchain, vk::Result> {
    let extent = information.image_extent;
    let count = information.min_image_count.min(MOST_IMAGES);
    let description = Description {
        flags: flags(information.flags).as_raw(),
        extent: [extent.width, extent.height, 1],
        layers: information.image_array_layers,
        ..image(information.image_format, information.image_usage)
    };
    // SAFETY: as the caller says.
    let screen = unsafe { &*Surface::get(information.surface).screen };
    let images = Arc::new(Images::new(device, screen, description, count)?);
    let chain = Arc::new(Chain::new(images.count()));
    let mode = information.present_mode;
    let presenter = Presenter::new(device, screen, extent, mode, &images, &chain)?;
    Swapchain::new(device, images, chain, presenter)
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::SwapchainCreateInfoKHR<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    swapchain: *mut vk::SwapchainKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        match make(Device::get(device), &*information) {
            Ok(made) => *swapchain = vk::SwapchainKHR::from_raw(handle::create(made)),
            Err(error) => return error,
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    swapchain: vk::SwapchainKHR,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Swapchain>(swapchain.as_raw()) };
}

unsafe extern "system" fn images(
    _device: vk::Device,
    swapchain: vk::SwapchainKHR,
    count: *mut u32,
    places: *mut vk::Image,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::copy(Swapchain::get(swapchain).handles().iter().copied(), count, places) }
}

/// How images are presented on a device: whichever GPU has drawn one, and whichever has the screen. The program's memory is one.
fn group_modes_of(device: &Device) -> vk::DeviceGroupPresentModeFlagsKHR {
    match device.gpus.count() {
        1 => vk::DeviceGroupPresentModeFlagsKHR::LOCAL,
        _ => vk::DeviceGroupPresentModeFlagsKHR::LOCAL | vk::DeviceGroupPresentModeFlagsKHR::REMOTE,
    }
}

unsafe extern "system" fn group_capabilities(
    device: vk::Device,
    place: *mut vk::DeviceGroupPresentCapabilitiesKHR<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let device = Device::get(device);
        let mut masks = [0; vk::MAX_DEVICE_GROUP_SIZE];
        for mask in masks.iter_mut().take(device.gpus.count() as usize) {
            *mask = device.gpus.mask().into();
        }
        (*place).present_mask = masks;
        (*place).modes = group_modes_of(device);
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn group_modes(
    device: vk::Device,
    _surface: vk::SurfaceKHR,
    modes: *mut vk::DeviceGroupPresentModeFlagsKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *modes = group_modes_of(Device::get(device)) };
    vk::Result::SUCCESS
}

crate::entry::entry_points! {
    vkCreateSwapchainKHR = create,
    vkDestroySwapchainKHR = destroy,
    vkGetSwapchainImagesKHR = images,
    vkGetDeviceGroupPresentCapabilitiesKHR = group_capabilities,
    vkGetDeviceGroupSurfacePresentModesKHR = group_modes,
}
