// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Compute pipelines.

use super::description::Parts;
use super::device_index;
use super::layout::PipelineLayout;
use super::object::{Asking, Pipeline, create_all};
use super::stage::Asked;
use crate::device::Device;
use crate::handle;
use ash::vk::{self, Handle as _};
use std::ffi::c_void;

impl Asking for vk::ComputePipelineCreateInfo<'_> {
    fn about(&self) -> (*const c_void, vk::PipelineCreateFlags) {
        (self.p_next, self.flags)
    }
}

/// Makes a pipeline.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn make(
    device: &Device,
    information: &vk::ComputePipelineCreateInfo<'_>,
) -> Result<Pipeline, vk::Result> {
    // SAFETY: a valid structure's handles are, and so is its stage.
    let (layout, stage) = unsafe {
        let layout = handle::get::<PipelineLayout>(information.layout.as_raw());
        (layout, Asked::new(&information.stage))
    };
    let describe = |spirv: &[u32]| {
        let parts = Parts {
            layout,
            constants: &stage.constants,
            values: stage.values,
            entry_point: stage.entry_point,
            spirv,
            subgroup_size: stage.subgroup_size,
            stage_flags: stage.flags,
        };
        parts.describe(device.next_serial())
    };
    match device_index::replaced(&stage.spirv, device.gpus.count()) {
        Some(modules) => Pipeline::new(device, layout, modules.iter().map(|spirv| describe(spirv))),
        None => Pipeline::new(device, layout, std::iter::once(describe(&stage.spirv))),
    }
}

unsafe extern "system" fn create(
    device: vk::Device,
    _cache: vk::PipelineCache,
    count: u32,
    information: *const vk::ComputePipelineCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let device = Device::get(device);
        create_all((information, count), pipelines, |information| make(device, information))
    }
}

crate::entry::entry_points! {
    vkCreateComputePipelines = create,
}
