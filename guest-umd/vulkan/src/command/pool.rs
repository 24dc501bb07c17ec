// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Pools of command buffers.

use super::buffer::CommandBuffer;
use super::recording::Recording;
use crate::device::Device;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A pool: which command buffers are from it.
struct Pool {
    device: &'static Device,
    buffers: Mutex<BTreeSet<u64>>,
}

impl Pool {
    fn allocate(&self, level: vk::CommandBufferLevel) -> u64 {
        let buffer = handle::create_dispatchable(CommandBuffer::new(self.device, level));
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).insert(buffer);
        buffer
    }

    fn free(&self, buffer: u64) {
        let is_its = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).remove(&buffer);
        if is_its {
            // SAFETY: the pool had made it, and forgot it just now. Its program uses it no more.
            unsafe { handle::destroy_dispatchable::<CommandBuffer>(buffer) };
        }
    }

    /// Changes all command buffers.
    ///
    /// # Safety
    /// The program's call accesses the pool and its command buffers as the only one.
    unsafe fn change(&self, change: impl Fn(&mut Recording)) {
        let buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        for buffer in buffers.iter() {
            let buffer = vk::CommandBuffer::from_raw(*buffer);
            // SAFETY: the caller says that this call is the only one with it.
            change(unsafe { CommandBuffer::record(buffer) });
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let buffers = self.buffers.get_mut().unwrap_or_else(PoisonError::into_inner);
        for buffer in std::mem::take(buffers) {
            // SAFETY: the pool had made it, and its program uses it no more.
            unsafe { handle::destroy_dispatchable::<CommandBuffer>(buffer) };
        }
    }
}

unsafe extern "system" fn create(
    device: vk::Device,
    _information: *const vk::CommandPoolCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    pool: *mut vk::CommandPool,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it. The device outlives the pool.
    unsafe {
        let made = Pool { device: Device::get(device), buffers: Mutex::default() };
        *pool = vk::CommandPool::from_raw(handle::create(made));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    pool: vk::CommandPool,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Pool>(pool.as_raw()) };
}

unsafe extern "system" fn reset(
    _device: vk::Device,
    pool: vk::CommandPool,
    flags: vk::CommandPoolResetFlags,
) -> vk::Result {
    let release = flags.contains(vk::CommandPoolResetFlags::RELEASE_RESOURCES);
    // SAFETY: the call is the only one with this pool and what is from it.
    unsafe { handle::get::<Pool>(pool.as_raw()).change(|recording| recording.reset(release)) };
    vk::Result::SUCCESS
}

unsafe extern "system" fn trim(
    _device: vk::Device,
    pool: vk::CommandPool,
    _flags: vk::CommandPoolTrimFlags,
) {
    // SAFETY: the call is the only one with this pool and what is from it.
    unsafe { handle::get::<Pool>(pool.as_raw()).change(Recording::trim) };
}

unsafe extern "system" fn allocate(
    _device: vk::Device,
    information: *const vk::CommandBufferAllocateInfo<'_>,
    buffers: *mut vk::CommandBuffer,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let information = &*information;
        let pool = handle::get::<Pool>(information.command_pool.as_raw());
        for buffer in raw::slice_mut(buffers, information.command_buffer_count) {
            *buffer = vk::CommandBuffer::from_raw(pool.allocate(information.level));
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn free(
    _device: vk::Device,
    pool: vk::CommandPool,
    count: u32,
    buffers: *const vk::CommandBuffer,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (pool, buffers) =
        unsafe { (handle::get::<Pool>(pool.as_raw()), raw::slice(buffers, count)) };
    for buffer in buffers {
        pool.free(buffer.as_raw());
    }
}

crate::entry::entry_points! {
    vkCreateCommandPool = create,
    vkDestroyCommandPool = destroy,
    vkResetCommandPool = reset,
    vkTrimCommandPool = trim,
    vkTrimCommandPoolKHR = trim,
    vkAllocateCommandBuffers = allocate,
    vkFreeCommandBuffers = free,
}
