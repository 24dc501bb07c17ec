// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Graphics pipelines.

use super::device_index;
use super::fixed::Fixed;
use super::graphics_description::describe;
use super::layout::PipelineLayout;
use super::object::{Asking, Pipeline, create_all};
use super::stage::Asked;
use crate::device::Device;
use crate::rendering::{Formats, RenderPass};
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::ffi::c_void;
use std::sync::Arc;

impl Asking for vk::GraphicsPipelineCreateInfo<'_> {
    fn about(&self) -> (*const c_void, vk::PipelineCreateFlags) {
        (self.p_next, self.flags)
    }
}

/// The formats of the attachments that a pipeline is for.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn formats(information: &vk::GraphicsPipelineCreateInfo<'_>) -> Formats {
    type Rendering<'a> = vk::PipelineRenderingCreateInfo<'a>;
    // SAFETY: a valid structure's chain and handles are.
    unsafe {
        if information.render_pass.is_null() {
            let rendering = raw::find::<Rendering<'_>>(information.p_next);
            return rendering.map(|of| Formats::of_rendering(of)).unwrap_or_default();
        }
        let pass = handle::get::<Arc<RenderPass>>(information.render_pass.as_raw());
        pass.subpass(information.subpass).map(Formats::of_subpass).unwrap_or_default()
    }
}

/// Whether a module may follow addresses (`PhysicalStorageBufferAddresses`).
fn has_pointers(spirv: &[u32]) -> bool {
    const HEADER: usize = 5;
    const CAPABILITY: u32 = 2 << 16 | 17;
    const ADDRESSES: u32 = 5347;
    let (words, _) = spirv.get(HEADER..).unwrap_or_default().as_chunks::<2>();
    // They come first ("Logical Layout of a Module").
    let mut capabilities = words.iter().take_while(|[word, _]| *word == CAPABILITY);
    capabilities.any(|[_, capability]| *capability == ADDRESSES)
}

/// Makes a pipeline.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn make(
    device: &Device,
    information: &vk::GraphicsPipelineCreateInfo<'_>,
) -> Result<Pipeline, vk::Result> {
    if !device.caps.have_graphics() {
        return Err(vk::Result::ERROR_FEATURE_NOT_PRESENT);
    }
    // SAFETY: a valid structure's pointers and handles are.
    let (layout, stages, fixed) = unsafe {
        let layout = handle::get::<PipelineLayout>(information.layout.as_raw());
        let stages = raw::slice(information.p_stages, information.stage_count).iter();
        let stages: Vec<_> = stages.map(|stage| Asked::new(stage)).collect();
        let all = stages.iter().fold(vk::ShaderStageFlags::empty(), |all, of| all | of.stage);
        (layout, stages, Fixed::new(information, all, &formats(information)))
    };
    let fixed = fixed.ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
    let count = device.gpus.count();
    // The modules of a stage for each GPU, if it asks for the device index.
    let replaced: Vec<_> =
        stages.iter().map(|stage| device_index::replaced(&stage.spirv, count)).collect();
    let count = if replaced.iter().any(Option::is_some) { count } else { 1 };
    let describe = |index: u32| {
        let spirv = |(stage, replaced): (_, &'_ Option<Vec<Vec<u32>>>)| {
            let stage: &Asked<'_> = stage;
            let module = replaced.as_ref().and_then(|modules| modules.get(index as usize));
            (stage, module.map_or_else(|| stage.spirv.to_vec(), Clone::clone))
        };
        let modules: Vec<_> = stages.iter().zip(&replaced).map(spirv).collect();
        let stages: Vec<_> = modules.iter().map(|(stage, spirv)| (*stage, &spirv[..])).collect();
        describe(device.next_serial(), layout, &fixed, &stages)
    };
    let stores = layout.stores() || stages.iter().any(|stage| has_pointers(&stage.spirv));
    Ok(Pipeline::new(device, layout, (0..count).map(describe))?.storing(stores))
}

unsafe extern "system" fn create(
    device: vk::Device,
    _cache: vk::PipelineCache,
    count: u32,
    information: *const vk::GraphicsPipelineCreateInfo<'_>,
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
    vkCreateGraphicsPipelines = create,
}
