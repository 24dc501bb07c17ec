// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Events: a word of 32 bits in memory, which is 1 while the event is set. Program and GPU store it and load it; the program
//! does so with the 32 bits behind it, which are always 0.

use crate::device::Device;
use crate::device::vain::looked_in_vain;
use crate::handle;
use crate::heap::Piece;
use ash::vk::{self, Handle as _};
use bellhop_protocol::handoff::publication;

/// The word of an event that is set.
pub(crate) const SET: u32 = 1;
/// The word of an event that is not.
pub(crate) const UNSET: u32 = 0;

/// An event.
pub(crate) struct Event {
    memory: Piece,
}

impl Event {
    /// The GPU virtual address of its word.
    pub(crate) fn address(&self) -> u64 {
        self.memory.gpu_va()
    }

    /// Whoever finds the event set finds what this thread did before.
    fn store(&self, word: u32) {
        publication::publish(self.memory.long(0), word.into());
    }

    /// Finds what was done before the event was set.
    fn is_set(&self) -> bool {
        publication::read(self.memory.long(0)) == u64::from(SET)
    }
}

unsafe extern "system" fn create(
    device: vk::Device,
    _information: *const vk::EventCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    event: *mut vk::Event,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let memory = match Device::get(device).heap.take(size_of::<u64>()) {
            Ok(memory) => memory,
            Err(error) => return error,
        };
        let made = Event { memory };
        made.store(UNSET);
        *event = vk::Event::from_raw(handle::create(made));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    event: vk::Event,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Event>(event.as_raw()) };
}

unsafe extern "system" fn status(device: vk::Device, event: vk::Event) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (device, event) = unsafe { (Device::get(device), handle::get::<Event>(event.as_raw())) };
    if device.is_lost() {
        return vk::Result::ERROR_DEVICE_LOST;
    }
    if event.is_set() {
        return vk::Result::EVENT_SET;
    }
    looked_in_vain();
    vk::Result::EVENT_RESET
}

unsafe extern "system" fn set(_device: vk::Device, event: vk::Event) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { handle::get::<Event>(event.as_raw()) }.store(SET);
    vk::Result::SUCCESS
}

unsafe extern "system" fn reset(_device: vk::Device, event: vk::Event) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { handle::get::<Event>(event.as_raw()) }.store(UNSET);
    vk::Result::SUCCESS
}

crate::entry::entry_points! {
    vkCreateEvent = create,
    vkDestroyEvent = destroy,
    vkGetEventStatus = status,
    vkSetEvent = set,
    vkResetEvent = reset,
}
