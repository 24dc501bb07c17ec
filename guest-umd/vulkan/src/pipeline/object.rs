// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Pipelines of any kind.

use super::layout::PipelineLayout;
use crate::device::Device;
use crate::heap::Piece;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::ffi::c_void;
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
    /// Whether its shaders may write memory.
    stores: bool,
}

impl Pipeline {
    /// A pipeline with this layout and these descriptions: as many as there are device indices, or one.
    ///
    /// # Errors
    /// If there is no memory for them, or one cannot be.
    pub(super) fn new(
        device: &Device,
        layout: &PipelineLayout,
        descriptions: impl Iterator<Item = Option<Vec<u8>>>,
    ) -> Result<Self, vk::Result> {
        let write = |bytes: Option<Vec<u8>>| {
            let bytes = bytes.ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
            let description = device.heap.take(bytes.len())?;
            description.write(0, &bytes);
            Ok(description)
        };
        Ok(Self {
            descriptions: descriptions.map(write).collect::<Result<_, vk::Result>>()?,
            sets: layout.sets(),
            dynamic_offsets: layout.dynamic_offsets(),
            push_constants: layout.push_constants(),
            warm: Arc::default(),
            stores: false,
        })
    }

    /// It, with shaders that may write memory or not.
    pub(super) const fn storing(mut self, stores: bool) -> Self {
        self.stores = stores;
        self
    }

    /// Whether its shaders may write memory.
    pub(crate) const fn stores(&self) -> bool {
        self.stores
    }

    /// The GPU virtual addresses of its descriptions: one for all GPUs, or one for each device index.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> {
        self.descriptions.iter().map(Piece::gpu_va)
    }

    /// Number of sets, of dynamic offsets, and of bytes of push constants that a dispatch or draw has.
    pub(crate) const fn uses(&self) -> (u32, u32, u32) {
        (self.sets, self.dynamic_offsets, self.push_constants)
    }

    /// If no dispatch of it was ever submitted: what to set when one is. The first takes long, as the host compiles.
    pub(crate) fn cold(&self) -> Option<&Arc<AtomicBool>> {
        Some(&self.warm).filter(|warm| !warm.load(Ordering::Relaxed))
    }
}

/// A structure that asks for a pipeline.
pub(super) trait Asking {
    /// Its chain, and its flags.
    fn about(&self) -> (*const c_void, vk::PipelineCreateFlags);
}

/// Says how long it took to make a pipeline.
///
/// # Safety
/// The chain is one of a structure that is valid, as Vulkan demands it.
unsafe fn report(chain: *const c_void, since: Instant) {
    type Feedback<'a> = vk::PipelineCreationFeedbackCreateInfo<'a>;
    let duration = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let flags = vk::PipelineCreationFeedbackFlags::VALID;
    let took = vk::PipelineCreationFeedback { flags, duration };
    // SAFETY: a valid structure's chain and pointers are.
    unsafe {
        let Some(feedback) = raw::find::<Feedback<'_>>(chain) else { return };
        let stages = feedback.p_pipeline_stage_creation_feedbacks;
        *feedback.p_pipeline_creation_feedback = took;
        raw::slice_mut(stages, feedback.pipeline_stage_creation_feedback_count).fill(took);
    }
}

/// Makes pipelines, each with `make`.
///
/// # Safety
/// The structures are valid, as Vulkan demands it, and there is room for as many pipelines.
pub(super) unsafe fn create_all<T: Asking>(
    (information, count): (*const T, u32),
    pipelines: *mut vk::Pipeline,
    make: impl Fn(&T) -> Result<Pipeline, vk::Result>,
) -> vk::Result {
    // SAFETY: as the caller says.
    let (information, pipelines) =
        unsafe { (raw::slice(information, count), raw::slice_mut(pipelines, count)) };
    pipelines.fill(vk::Pipeline::null());
    let mut outcome = vk::Result::SUCCESS;
    for (information, pipeline) in information.iter().zip(pipelines) {
        let since = Instant::now();
        match make(information) {
            Ok(made) => *pipeline = vk::Pipeline::from_raw(handle::create(made)),
            Err(error) => outcome = error,
        }
        let (chain, flags) = information.about();
        // SAFETY: as the caller says.
        unsafe { report(chain, since) };
        let early = vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE;
        if pipeline.is_null() && flags.contains(early) {
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
    vkDestroyPipeline = destroy,
}
