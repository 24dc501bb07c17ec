// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Acquires images, which are free when they are acquired: a fence is signaled at once. Nothing is to be done for a semaphore: what
//! waits for it next waits for its last signal, and whoever acquires with a semaphore has awaited that
//! (VUID-vkAcquireNextImageKHR-semaphore-01779).

use super::object::Swapchain;
use crate::device::{Device, code};
use crate::fence::Fence;
use crate::handle;
use ash::vk::{self, Handle as _};

unsafe extern "system" fn acquire(
    device: vk::Device,
    swapchain: vk::SwapchainKHR,
    timeout: u64,
    _semaphore: vk::Semaphore,
    fence: vk::Fence,
    index: *mut u32,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let (device, chain) = (Device::get(device), &Swapchain::get(swapchain).chain);
        let image = match chain.acquire(timeout) {
            Ok(image) => image,
            Err(why) => return why,
        };
        if !fence.is_null() {
            handle::get::<Fence>(fence.as_raw()).signal();
            device.submissions.notify(usize::MAX);
        }
        *index = image;
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn acquire_2(
    device: vk::Device,
    information: *const vk::AcquireNextImageInfoKHR<'_>,
    index: *mut u32,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let vk::AcquireNextImageInfoKHR { swapchain, timeout, semaphore, fence, .. } = *information;
        acquire(device, swapchain, timeout, semaphore, fence, index)
    }
}

unsafe extern "system" fn wait(
    _device: vk::Device,
    swapchain: vk::SwapchainKHR,
    id: u64,
    timeout: u64,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    code(unsafe { Swapchain::get(swapchain) }.chain.wait_for(id, timeout))
}

crate::entry::entry_points! {
    vkAcquireNextImageKHR = acquire,
    vkAcquireNextImage2KHR = acquire_2,
    vkWaitForPresentKHR = wait,
}
