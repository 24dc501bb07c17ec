// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Shader modules: SPIR-V, which a pipeline copies.

use crate::handle;
use ash::vk::{self, Handle as _};

/// A module.
pub(super) struct Module {
    pub(super) spirv: Vec<u32>,
}

impl Module {
    /// Copies a module.
    ///
    /// # Safety
    /// The structure is valid, as Vulkan demands it.
    pub(super) unsafe fn new(information: &vk::ShaderModuleCreateInfo<'_>) -> Self {
        let words = information.code_size / size_of::<u32>();
        if information.p_code.is_null() {
            return Self { spirv: Vec::new() };
        }
        // SAFETY: a valid structure has so many words.
        let spirv = unsafe { std::slice::from_raw_parts(information.p_code, words) };
        Self { spirv: spirv.to_vec() }
    }
}

unsafe extern "system" fn create(
    _device: vk::Device,
    information: *const vk::ShaderModuleCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    module: *mut vk::ShaderModule,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let made = Module::new(&*information);
        *module = vk::ShaderModule::from_raw(handle::create(made));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    module: vk::ShaderModule,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Module>(module.as_raw()) };
}

crate::entry::entry_points! {
    vkCreateShaderModule = create,
    vkDestroyShaderModule = destroy,
}
