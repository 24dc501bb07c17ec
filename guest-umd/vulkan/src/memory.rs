// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Memory: allocations that never move, which GPU and program both reach at any time.

use crate::device::Device;
use crate::pages::{Pages, out_of};
use crate::physical_device::memory::MAX_ALLOCATION;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_guest_umd::Error;
use bellhop_guest_umd::protocol::PAGE_SIZE;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of a program.
pub(crate) struct Memory {
    pages: Pages,
    /// Its first byte in the program.
    first: *mut c_void,
    bound: Bound,
}

/// What was ever bound to some memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bound(Arc<AtomicU64>);

impl Bound {
    /// Binds one more.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether more than one buffer or image was: their bytes may be the same.
    pub(crate) fn are_several(&self) -> bool {
        // Relaxed: who submits what uses a resource knows of its binding.
        self.0.load(Ordering::Relaxed) > 1
    }
}

impl Memory {
    fn new(device: &Device, bytes: u64) -> Result<Self, vk::Result> {
        if bytes == 0 || bytes > MAX_ALLOCATION {
            return Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        }
        let bytes = bytes.next_multiple_of(PAGE_SIZE);
        let pages = Pages::new(device.opened.memory.counter(), &device.gpu, bytes);
        let pages = pages.map_err(|error| out_of(&error))?;
        let first = match pages.mapping.allocation().lock() {
            Ok(bytes) => bytes.ptr_guard_mut().as_ptr().cast(),
            Err(error) => return Err(out_of(&error)),
        };
        Ok(Self { pages, first, bound: Bound::default() })
    }

    /// The GPU virtual address of its first byte.
    fn gpu_va(&self) -> u64 {
        self.pages.mapping.gpu_va()
    }

    /// Binds a buffer or an image to it. Returns the GPU virtual address of a byte of it, and what else is bound.
    pub(crate) fn bind(&self, offset: u64) -> (u64, &Bound) {
        self.bound.add();
        (self.gpu_va() + offset, &self.bound)
    }

    /// Names it for people.
    pub(crate) fn set_name(&self, name: &str) -> Result<(), Error> {
        self.pages.mapping.allocation().set_name(name)
    }

    /// The object of a handle.
    ///
    /// # Safety
    /// The memory lives as long as this is used.
    pub(crate) unsafe fn get<'a>(memory: vk::DeviceMemory) -> &'a Self {
        // SAFETY: the caller says that it lives.
        unsafe { handle::get::<Self>(memory.as_raw()) }
    }
}

/// Says what a buffer or an image needs. None needs memory of its own.
///
/// # Safety
/// The place is valid, as Vulkan demands it.
pub(crate) unsafe fn put_requirements(
    needs: vk::MemoryRequirements,
    place: *mut vk::MemoryRequirements2<'_>,
) {
    // SAFETY: as the caller says.
    unsafe {
        (*place).memory_requirements = needs;
        let next = (*place).p_next;
        if let Some(own) = raw::find_mut::<vk::MemoryDedicatedRequirements<'_>>(next) {
            own.prefers_dedicated_allocation = vk::FALSE;
            own.requires_dedicated_allocation = vk::FALSE;
        }
    }
}

unsafe extern "system" fn allocate(
    device: vk::Device,
    information: *const vk::MemoryAllocateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        match Memory::new(Device::get(device), (*information).allocation_size) {
            Ok(made) => *memory = vk::DeviceMemory::from_raw(handle::create(made)),
            Err(error) => return error,
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn free(
    _device: vk::Device,
    memory: vk::DeviceMemory,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program frees it once.
    unsafe { handle::destroy::<Memory>(memory.as_raw()) };
}

unsafe extern "system" fn map(
    _device: vk::Device,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
    _size: vk::DeviceSize,
    _flags: vk::MemoryMapFlags,
    data: *mut *mut c_void,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *data = Memory::get(memory).first.wrapping_byte_add(offset as usize) };
    vk::Result::SUCCESS
}

unsafe extern "system" fn map_2(
    device: vk::Device,
    information: *const vk::MemoryMapInfoKHR<'_>,
    data: *mut *mut c_void,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let vk::MemoryMapInfoKHR { flags, memory, offset, size, .. } = *information;
        map(device, memory, offset, size, flags, data)
    }
}

/// Memory stays mapped while it exists.
unsafe extern "system" fn unmap(_device: vk::Device, _memory: vk::DeviceMemory) {}

unsafe extern "system" fn unmap_2(
    _device: vk::Device,
    _information: *const vk::MemoryUnmapInfoKHR<'_>,
) -> vk::Result {
    vk::Result::SUCCESS
}

/// All memory is coherent: there is nothing to flush, and nothing to make invalid.
unsafe extern "system" fn flush_or_invalidate(
    _device: vk::Device,
    _count: u32,
    _ranges: *const vk::MappedMemoryRange<'_>,
) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn commitment(
    _device: vk::Device,
    memory: vk::DeviceMemory,
    bytes: *mut vk::DeviceSize,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *bytes = Memory::get(memory).pages.mapping.size() };
}

unsafe extern "system" fn opaque_address(
    _device: vk::Device,
    information: *const vk::DeviceMemoryOpaqueCaptureAddressInfo<'_>,
) -> u64 {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { Memory::get((*information).memory).gpu_va() }
}

crate::entry::entry_points! {
    vkAllocateMemory = allocate,
    vkFreeMemory = free,
    vkMapMemory = map,
    vkMapMemory2KHR = map_2,
    vkUnmapMemory = unmap,
    vkUnmapMemory2KHR = unmap_2,
    vkFlushMappedMemoryRanges = flush_or_invalidate,
    vkInvalidateMappedMemoryRanges = flush_or_invalidate,
    vkGetDeviceMemoryCommitment = commitment,
    vkGetDeviceMemoryOpaqueCaptureAddress = opaque_address,
    vkGetDeviceMemoryOpaqueCaptureAddressKHR = opaque_address,
}
