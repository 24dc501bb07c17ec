// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "programs call entry points by pointers")]

//! Entry points of what is not offered: conversions of colours. Programs that try all the same, as some do at their
//! start, get an error from what creates one. What needs one is not there, since nobody can have any.

use ash::vk;
use std::ffi::c_void;

/// Creates nothing. All functions `vkCreate...` of one object have these arguments.
unsafe extern "system" fn create(
    _device: vk::Device,
    _information: *const c_void,
    _allocator: *const vk::AllocationCallbacks<'_>,
    _object: *mut u64,
) -> vk::Result {
    vk::Result::ERROR_FEATURE_NOT_PRESENT
}

/// Destroys nothing: programs may call this with null alone.
unsafe extern "system" fn destroy(
    _device: vk::Device,
    _object: u64,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
}

crate::entry::entry_points! {
    vkCreateSamplerYcbcrConversion = create,
    vkCreateSamplerYcbcrConversionKHR = create,
    vkDestroySamplerYcbcrConversion = destroy,
    vkDestroySamplerYcbcrConversionKHR = destroy,
}
