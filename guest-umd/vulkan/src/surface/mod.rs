// SPDX-License-Identifier: MIT OR Apache-2.0

//! Surfaces, and swap chains of images that are shown on them.
//!
//! ```text
//!  vkAcquireNextImageKHR <--- an image that nothing shows or draws any more
//!  vkQueuePresentKHR ------> the queue waits for semaphores; the chain's own thread waits for the queue, and shows the image
//! ```
//!
//! An image of a swap chain is a linear one in memory that GPU and program reach. So a window gets its rows as they lie there.

mod create;
mod display;
mod object;
mod questions;
mod screen;
mod swapchain;
mod x11;

use ash::vk;

/// Finds an entry point by its name: those whose first argument is an instance.
pub fn lookup_of_instance(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    create::lookup(name)
}

/// Finds an entry point by its name: those whose first argument is a physical device.
pub fn lookup_of_physical_device(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    questions::lookup(name).or_else(|| display::lookup(name)).or_else(|| x11::lookup(name))
}

/// Finds an entry point by its name: those whose first argument is a device or a queue.
pub fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    swapchain::lookup(name)
}
