// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Pipeline caches. The host compiles pipelines and keeps them, so that a cache has nothing but its header.

use crate::device::Device;
use crate::handle;
use ash::vk::{self, Handle as _};
use std::ffi::c_void;
use zerocopy::{Immutable, IntoBytes};

/// A cache.
struct Cache;

/// What the data of a cache is: `VkPipelineCacheHeaderVersionOne`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Header {
    size: u32,
    version: i32,
    vendor: u32,
    device: u32,
    uuid: [u8; vk::UUID_SIZE],
}

impl Header {
    fn new(device: &Device) -> Self {
        let (vendor, device, uuid) = device.caps.pipeline_cache_identity();
        let version = vk::PipelineCacheHeaderVersion::ONE.as_raw();
        Self { size: size_of::<Self>() as u32, version, vendor, device, uuid }
    }
}

unsafe extern "system" fn create(
    _device: vk::Device,
    _information: *const vk::PipelineCacheCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    cache: *mut vk::PipelineCache,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *cache = vk::PipelineCache::from_raw(handle::create(Cache)) };
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    cache: vk::PipelineCache,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Cache>(cache.as_raw()) };
}

unsafe extern "system" fn data(
    device: vk::Device,
    _cache: vk::PipelineCache,
    size: *mut usize,
    data: *mut c_void,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it: there is room for `size` bytes.
    unsafe {
        let header = Header::new(Device::get(device));
        let header = header.as_bytes();
        let room = std::mem::replace(&mut *size, header.len());
        if data.is_null() {
            return vk::Result::SUCCESS;
        }
        if room < header.len() {
            // Nothing is better than a part of a header.
            *size = 0;
            return vk::Result::INCOMPLETE;
        }
        data.cast::<u8>().copy_from_nonoverlapping(header.as_ptr(), header.len());
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn merge(
    _device: vk::Device,
    _into: vk::PipelineCache,
    _count: u32,
    _caches: *const vk::PipelineCache,
) -> vk::Result {
    vk::Result::SUCCESS
}

crate::entry::entry_points! {
    vkCreatePipelineCache = create,
    vkDestroyPipelineCache = destroy,
    vkGetPipelineCacheData = data,
    vkMergePipelineCaches = merge,
}
