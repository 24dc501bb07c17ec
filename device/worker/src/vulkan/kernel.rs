// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels: pipelines of one set of storage buffers.

use super::{Device, Pipeline, VulkanError};
use bellhop_protocol::vulkan::{
    Binding, DescriptorKind, PipelineHead, PipelineParts, SpecialisationEntry,
};
use std::ffi::CStr;
use std::rc::Rc;
use zerocopy::FromZeros as _;

/// What a kernel is compiled from.
pub struct Source<'a> {
    /// The module's words.
    pub spirv: &'a [u32],
    /// The entry point's name.
    pub entry_point: &'a CStr,
    /// Number of storage buffers: bindings from 0 in set 0.
    pub bindings: u32,
    /// Bytes of push constants.
    pub push_constants: u32,
    /// Number and 32-bit value of each specialisation constant.
    pub constants: &'a [[u32; 2]],
}

/// A compiled kernel.
pub struct Kernel<'d> {
    pub(super) pipeline: Rc<Pipeline<'d>>,
    pub(super) bindings: Vec<Binding>,
    push_constants: u32,
}

impl Device<'_> {
    /// Compiles a kernel, as [`Self::pipeline`] does it.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn compile(&self, source: &Source<'_>) -> Result<Kernel<'_>, VulkanError> {
        let Source { spirv, entry_point, push_constants, .. } = *source;
        let bindings: Vec<_> = (0..source.bindings).map(storage_buffer).collect();
        let constants: Vec<_> = (0..).zip(source.constants).map(constant).collect();
        let values: Vec<_> =
            source.constants.iter().flat_map(|[_, value]| value.to_ne_bytes()).collect();
        let parts = PipelineParts {
            head: PipelineHead { sets: 1, push_constants, ..PipelineHead::new_zeroed() },
            bindings: &bindings,
            constants: &constants,
            values: &values,
            entry_point: &[],
            spirv: &[],
        };
        let pipeline = Rc::new(self.pipeline(&parts, spirv, entry_point)?);
        Ok(Kernel { pipeline, bindings, push_constants })
    }
}

impl Kernel<'_> {
    /// Returns the number of bytes of push constants.
    pub fn push_constants(&self) -> usize {
        self.push_constants as usize
    }

    /// Returns the number of storage buffers.
    pub fn bindings(&self) -> usize {
        self.bindings.len()
    }
}

fn storage_buffer(binding: u32) -> Binding {
    let (kind, count, first) = (DescriptorKind::STORAGE_BUFFER, 1, binding);
    Binding { set: 0, binding, kind, count, first, reserved: 0 }
}

fn constant((index, [id, _]): (u32, &[u32; 2])) -> SpecialisationEntry {
    let size = size_of::<u32>() as u32;
    SpecialisationEntry { id: *id, offset: index * size, size, reserved: 0 }
}
