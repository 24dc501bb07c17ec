// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Compiled kernels.

use super::{Called, Device, VulkanError};
use ash::vk;
use std::ffi::CStr;

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
pub struct Kernel<'a> {
    device: &'a Device<'a>,
    module: vk::ShaderModule,
    pub(super) set_layout: vk::DescriptorSetLayout,
    pub(super) layout: vk::PipelineLayout,
    pub(super) pipeline: vk::Pipeline,
    bindings: u32,
    push_constants: u32,
}

impl<'i> Device<'i> {
    /// Compiles a kernel.
    ///
    /// A driver need not validate the SPIR-V, so a malformed module may do anything in this process.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn compile(&self, source: &Source<'_>) -> Result<Kernel<'_>, VulkanError> {
        let mut kernel = Kernel {
            device: self,
            module: vk::ShaderModule::null(),
            set_layout: vk::DescriptorSetLayout::null(),
            layout: vk::PipelineLayout::null(),
            pipeline: vk::Pipeline::null(),
            bindings: source.bindings,
            push_constants: source.push_constants,
        };
        kernel.make_pipeline(source)?;
        Ok(kernel)
    }
}

impl Kernel<'_> {
    /// Returns the number of bytes of push constants.
    pub fn push_constants(&self) -> usize {
        self.push_constants as usize
    }

    /// Returns the number of storage buffers.
    pub fn bindings(&self) -> usize {
        self.bindings as usize
    }

    fn make_pipeline(&mut self, source: &Source<'_>) -> Result<(), VulkanError> {
        let raw = &self.device.raw;
        let module = vk::ShaderModuleCreateInfo::default().code(source.spirv);
        let values: Vec<_> =
            source.constants.iter().flat_map(|[_, value]| value.to_ne_bytes()).collect();
        let entries = (0..).step_by(size_of::<u32>()).zip(source.constants);
        let entries: Vec<_> = entries.map(constant).collect();
        let constants = vk::SpecializationInfo::default().map_entries(&entries).data(&values);
        // SAFETY: the structures live until each call returns, and name live objects of this device.
        unsafe {
            self.module = raw.create_shader_module(&module, None).called("vkCreateShaderModule")?;
            let bindings: Vec<_> = (0..source.bindings).map(storage_buffer).collect();
            let set_layout = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            self.set_layout = raw
                .create_descriptor_set_layout(&set_layout, None)
                .called("vkCreateDescriptorSetLayout")?;
            let set_layouts = [self.set_layout];
            let ranges = [vk::PushConstantRange::default()
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
                .size(source.push_constants)];
            // A range may not be empty.
            let ranges = if source.push_constants > 0 { &ranges[..] } else { &[] };
            let layout = vk::PipelineLayoutCreateInfo::default()
                .set_layouts(&set_layouts)
                .push_constant_ranges(ranges);
            self.layout =
                raw.create_pipeline_layout(&layout, None).called("vkCreatePipelineLayout")?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(self.module)
                .name(source.entry_point)
                .specialization_info(&constants);
            let pipeline =
                vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout);
            let made = raw.create_compute_pipelines(vk::PipelineCache::null(), &[pipeline], None);
            let made = made.map_err(|(_, result)| result).called("vkCreateComputePipelines")?;
            self.pipeline = made[0];
        }
        Ok(())
    }
}

fn constant((offset, [number, _]): (u32, &[u32; 2])) -> vk::SpecializationMapEntry {
    vk::SpecializationMapEntry::default().constant_id(*number).offset(offset).size(size_of::<u32>())
}

fn storage_buffer(binding: u32) -> vk::DescriptorSetLayoutBinding<'static> {
    vk::DescriptorSetLayoutBinding::default()
        .binding(binding)
        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
        .descriptor_count(1)
        .stage_flags(vk::ShaderStageFlags::COMPUTE)
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        let raw = &self.device.raw;
        // SAFETY: no dispatch is in flight: a runner borrows its kernels until they are done. Destroying a null handle
        // does nothing.
        unsafe {
            raw.destroy_pipeline(self.pipeline, None);
            raw.destroy_pipeline_layout(self.layout, None);
            raw.destroy_descriptor_set_layout(self.set_layout, None);
            raw.destroy_shader_module(self.module, None);
        }
    }
}
