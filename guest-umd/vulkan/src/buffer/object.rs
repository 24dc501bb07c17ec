// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Buffers: ranges of memory. A buffer's address is the GPU virtual address of its first byte.

use crate::device::Device;
use crate::memory::{Memory, put_requirements};
use crate::physical_device::memory::MAX_ALLOCATION;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::sync::atomic::{AtomicU64, Ordering};

/// A buffer.
#[derive(Debug)]
pub struct Buffer {
    size: u64,
    /// 0 until it is bound.
    address: AtomicU64,
}

impl Buffer {
    /// The GPU virtual address of its first byte, once it is bound to memory.
    pub fn address(&self) -> u64 {
        // Relaxed: who uses a buffer knows of its binding.
        self.address.load(Ordering::Relaxed)
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A buffer at an address.
    #[cfg(test)]
    pub(crate) const fn bound(address: u64, size: u64) -> Self {
        Self { size, address: AtomicU64::new(address) }
    }

    fn bind(&self, address: u64) {
        self.address.store(address, Ordering::Relaxed);
    }
}

/// The memory that a buffer of a size needs.
fn requirements(size: u64, alignment: u64) -> vk::MemoryRequirements {
    let size = size.checked_next_multiple_of(alignment).unwrap_or(size);
    vk::MemoryRequirements { size, alignment, memory_type_bits: 1 }
}

/// The memory that a buffer of a size needs on a device.
///
/// # Safety
/// The handle is valid.
unsafe fn requirements_on(device: vk::Device, size: u64) -> vk::MemoryRequirements {
    // SAFETY: as the caller says.
    requirements(size, unsafe { Device::get(device) }.caps.limits.buffer_alignment())
}

unsafe extern "system" fn create(
    _device: vk::Device,
    information: *const vk::BufferCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    buffer: *mut vk::Buffer,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let size = (*information).size;
        if size > MAX_ALLOCATION {
            return vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
        }
        let made = Buffer { size, address: AtomicU64::new(0) };
        *buffer = vk::Buffer::from_raw(handle::create(made));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    buffer: vk::Buffer,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Buffer>(buffer.as_raw()) };
}

unsafe extern "system" fn memory_requirements(
    device: vk::Device,
    buffer: vk::Buffer,
    place: *mut vk::MemoryRequirements,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let buffer = handle::get::<Buffer>(buffer.as_raw());
        *place = requirements_on(device, buffer.size);
    }
}

unsafe extern "system" fn memory_requirements_2(
    device: vk::Device,
    information: *const vk::BufferMemoryRequirementsInfo2<'_>,
    place: *mut vk::MemoryRequirements2<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let buffer = handle::get::<Buffer>((*information).buffer.as_raw());
        put_requirements(requirements_on(device, buffer.size), place);
    }
}

unsafe extern "system" fn requirements_without(
    device: vk::Device,
    information: *const vk::DeviceBufferMemoryRequirements<'_>,
    place: *mut vk::MemoryRequirements2<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let size = (*(*information).p_create_info).size;
        put_requirements(requirements_on(device, size), place);
    }
}

unsafe extern "system" fn bind(
    _device: vk::Device,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let (address, _) = Memory::get(memory).bind(offset);
        handle::get::<Buffer>(buffer.as_raw()).bind(address);
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn bind_2(
    device: vk::Device,
    count: u32,
    information: *const vk::BindBufferMemoryInfo<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        for one in raw::slice(information, count) {
            // It always succeeds.
            let _ = bind(device, one.buffer, one.memory, one.memory_offset);
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn address(
    _device: vk::Device,
    information: *const vk::BufferDeviceAddressInfo<'_>,
) -> vk::DeviceAddress {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { handle::get::<Buffer>((*information).buffer.as_raw()).address() }
}

unsafe extern "system" fn opaque_address(
    device: vk::Device,
    information: *const vk::BufferDeviceAddressInfo<'_>,
) -> u64 {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { address(device, information) }
}

crate::entry::entry_points! {
    vkCreateBuffer = create,
    vkDestroyBuffer = destroy,
    vkGetBufferMemoryRequirements = memory_requirements,
    vkGetBufferMemoryRequirements2 = memory_requirements_2,
    vkGetBufferMemoryRequirements2KHR = memory_requirements_2,
    vkGetDeviceBufferMemoryRequirements = requirements_without,
    vkGetDeviceBufferMemoryRequirementsKHR = requirements_without,
    vkBindBufferMemory = bind,
    vkBindBufferMemory2 = bind_2,
    vkBindBufferMemory2KHR = bind_2,
    vkGetBufferDeviceAddress = address,
    vkGetBufferDeviceAddressKHR = address,
    vkGetBufferOpaqueCaptureAddress = opaque_address,
    vkGetBufferOpaqueCaptureAddressKHR = opaque_address,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_needs_whole_multiples_of_its_alignment() {
        let needs = requirements(65, 64);
        assert_eq!((needs.size, needs.alignment, needs.memory_type_bits), (128, 64, 1));
        assert_eq!(requirements(u64::MAX, 64).size, u64::MAX);
    }
}
