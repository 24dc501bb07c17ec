// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Compute pipelines.

use super::description::Parts;
use super::device_index;
use super::layout::PipelineLayout;
use super::module::Module;
use crate::device::Device;
use crate::heap::Piece;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::SpecialisationEntry;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A pipeline, described in memory that the host reads.
pub(crate) struct Pipeline {
    /// For each device index, if shaders ask for that; one for all, if not.
    descriptions: Vec<Piece>,
    sets: u32,
    dynamic_offsets: u32,
    push_constants: u32,
    warm: Arc<AtomicBool>,
}

impl Pipeline {
    /// The GPU virtual addresses of its descriptions: one for all GPUs, or one for each device index.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> {
        self.descriptions.iter().map(Piece::gpu_va)
    }

    /// Number of sets, of dynamic offsets, and of bytes of push constants that a dispatch has.
    pub(crate) const fn uses(&self) -> (u32, u32, u32) {
        (self.sets, self.dynamic_offsets, self.push_constants)
    }

    /// If no dispatch of it was ever submitted: what to set when one is. The first takes long, as the host compiles.
    pub(crate) fn cold(&self) -> Option<&Arc<AtomicBool>> {
        Some(&self.warm).filter(|warm| !warm.load(Ordering::Relaxed))
    }

    /// Makes a pipeline.
    ///
    /// # Safety
    /// The structure is valid, as Vulkan demands it.
    unsafe fn new(
        device: &Device,
        information: &vk::ComputePipelineCreateInfo<'_>,
    ) -> Result<Self, vk::Result> {
        type Size<'a> = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'a>;
        let stage = &information.stage;
        // SAFETY: a valid structure's chain, pointers and handles are.
        let (layout, inline, size, entry_point, specialisation) = unsafe {
            (
                handle::get::<PipelineLayout>(information.layout.as_raw()),
                raw::find::<vk::ShaderModuleCreateInfo<'_>>(stage.p_next),
                raw::find::<Size<'_>>(stage.p_next),
                CStr::from_ptr(stage.p_name).to_bytes(),
                stage.p_specialization_info.as_ref(),
            )
        };
        // SAFETY: as above: a stage has a module, or what one is made of.
        let inline = inline.map(|inline| unsafe { Module::new(inline) });
        let module = match &inline {
            Some(module) => module,
            // SAFETY: as above.
            None => unsafe { handle::get::<Module>(stage.module.as_raw()) },
        };
        // SAFETY: as above.
        let (entries, values) = specialisation.map_or((&[][..], &[][..]), |given| unsafe {
            let values = raw::slice(given.p_data.cast::<u8>(), given.data_size as u32);
            (raw::slice(given.p_map_entries, given.map_entry_count), values)
        });
        let constants = entries.iter().map(|entry| SpecialisationEntry {
            id: entry.constant_id,
            offset: entry.offset,
            size: u32::try_from(entry.size).unwrap_or(0),
            reserved: 0,
        });
        let constants: Vec<_> = constants.collect();
        let describe = |spirv: &[u32]| {
            let parts = Parts {
                layout,
                constants: constants.clone(),
                values,
                entry_point,
                spirv,
                subgroup_size: size.map_or(0, |size| size.required_subgroup_size),
                stage_flags: stage.flags.as_raw(),
            };
            let bytes = parts.describe(device.next_serial());
            let bytes = bytes.ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
            let description = device.heap.take(bytes.len())?;
            description.write(0, &bytes);
            Ok(description)
        };
        let descriptions = match device_index::replaced(&module.spirv, device.gpus.count()) {
            Some(modules) => modules.iter().map(|spirv| describe(spirv)).collect::<Result<_, _>>(),
            None => describe(&module.spirv).map(|description| vec![description]),
        };
        Ok(Self {
            descriptions: descriptions?,
            sets: layout.sets(),
            dynamic_offsets: layout.dynamic_offsets(),
            push_constants: layout.push_constants(),
            warm: Arc::default(),
        })
    }
}

/// Says how long it took to make a pipeline.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn report(information: &vk::ComputePipelineCreateInfo<'_>, since: Instant) {
    type Feedback<'a> = vk::PipelineCreationFeedbackCreateInfo<'a>;
    let duration = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let flags = vk::PipelineCreationFeedbackFlags::VALID;
    let took = vk::PipelineCreationFeedback { flags, duration };
    // SAFETY: a valid structure's chain and pointers are.
    unsafe {
        let Some(feedback) = raw::find::<Feedback<'_>>(information.p_next) else { return };
        let stages = feedback.p_pipeline_stage_creation_feedbacks;
        *feedback.p_pipeline_creation_feedback = took;
        raw::slice_mut(stages, feedback.pipeline_stage_creation_feedback_count).fill(took);
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
    let (device, information, pipelines) = unsafe {
        let information = raw::slice(information, count);
        (Device::get(device), information, raw::slice_mut(pipelines, count))
    };
    pipelines.fill(vk::Pipeline::null());
    let mut outcome = vk::Result::SUCCESS;
    for (information, pipeline) in information.iter().zip(pipelines) {
        let since = Instant::now();
        // SAFETY: as above.
        match unsafe { Pipeline::new(device, information) } {
            Ok(made) => *pipeline = vk::Pipeline::from_raw(handle::create(made)),
            Err(error) => outcome = error,
        }
        // SAFETY: as above.
        unsafe { report(information, since) };
        let early = vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE;
        if pipeline.is_null() && information.flags.contains(early) {
            break;
        }
    }
    outcome
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    pipeline: vk::Pipeline,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Pipeline>(pipeline.as_raw()) };
}

crate::entry::entry_points! {
    vkCreateComputePipelines = create,
    vkDestroyPipeline = destroy,
}
