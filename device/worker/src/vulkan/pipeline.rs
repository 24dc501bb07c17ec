// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Compute pipelines, as they are described in a process's memory.

use super::descriptor_sets::kind;
use super::{Called, Device, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan::{Binding, PipelineParts, SpecialisationEntry};
use std::ffi::CStr;

/// A compute pipeline and its layout.
pub struct Pipeline<'d> {
    device: &'d Device<'d>,
    pub(super) set_layouts: Vec<vk::DescriptorSetLayout>,
    pub(super) layout: vk::PipelineLayout,
    pub(super) raw: vk::Pipeline,
}

impl<'i> Device<'i> {
    /// Makes a pipeline of its description, with the module's words and the entry point's name. Descriptors of dynamic
    /// kinds become those of the others: their offsets are added before they are written.
    ///
    /// A driver need not validate the SPIR-V, so a malformed module may do anything in this process.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn pipeline(
        &self,
        parts: &PipelineParts<'_>,
        spirv: &[u32],
        entry_point: &CStr,
    ) -> Result<Pipeline<'_>, VulkanError> {
        // From here on, dropping this destroys what was made if a step fails.
        let mut pipeline = Pipeline {
            device: self,
            set_layouts: Vec::new(),
            layout: vk::PipelineLayout::null(),
            raw: vk::Pipeline::null(),
        };
        pipeline.make_layout(parts)?;
        let module = vk::ShaderModuleCreateInfo::default().code(spirv);
        // SAFETY: the structure lives until the call returns.
        let module = unsafe { self.raw.create_shader_module(&module, None) };
        let module = module.called("vkCreateShaderModule")?;
        let made = pipeline.make(parts, module, entry_point);
        // SAFETY: the pipeline does not need the module that it was made of.
        unsafe { self.raw.destroy_shader_module(module, None) };
        made.map(|()| pipeline)
    }
}

impl Pipeline<'_> {
    fn make_layout(&mut self, parts: &PipelineParts<'_>) -> Result<(), VulkanError> {
        let raw = &self.device.raw;
        let of_set = |set: u32| parts.bindings.iter().filter(move |binding| binding.set == set);
        for set in 0..parts.head.sets {
            let bindings: Vec<_> = of_set(set).map(layout_binding).collect();
            let flags = vec![vk::DescriptorBindingFlags::PARTIALLY_BOUND; bindings.len()];
            let mut flags =
                vk::DescriptorSetLayoutBindingFlagsCreateInfo::default().binding_flags(&flags);
            let mut layout = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            // Not all of its descriptors need be written, if the device can.
            if self.device.bounds.partially_bound {
                layout = layout.push_next(&mut flags);
            }
            // SAFETY: the structures live until the call returns.
            let layout = unsafe { raw.create_descriptor_set_layout(&layout, None) };
            self.set_layouts.push(layout.called("vkCreateDescriptorSetLayout")?);
        }
        let ranges = [vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(parts.head.push_constants)];
        // A range may not be empty.
        let ranges = if parts.head.push_constants > 0 { &ranges[..] } else { &[] };
        let layout = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&self.set_layouts)
            .push_constant_ranges(ranges);
        // SAFETY: the structures live until the call returns, and name live objects of this device.
        let layout = unsafe { raw.create_pipeline_layout(&layout, None) };
        self.layout = layout.called("vkCreatePipelineLayout")?;
        Ok(())
    }

    fn make(
        &mut self,
        parts: &PipelineParts<'_>,
        module: vk::ShaderModule,
        entry_point: &CStr,
    ) -> Result<(), VulkanError> {
        let entries: Vec<_> = parts.constants.iter().map(map_entry).collect();
        let constants = vk::SpecializationInfo::default().map_entries(&entries).data(parts.values);
        let mut subgroups = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(parts.head.subgroup_size);
        let flags = vk::PipelineShaderStageCreateFlags::from_raw(parts.head.stage_flags);
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .flags(flags)
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(entry_point)
            .specialization_info(&constants);
        if parts.head.subgroup_size > 0 {
            stage = stage.push_next(&mut subgroups);
        }
        let pipeline = vk::ComputePipelineCreateInfo::default()
            .flags(vk::PipelineCreateFlags::DISPATCH_BASE)
            .stage(stage)
            .layout(self.layout);
        let raw = &self.device.raw;
        // SAFETY: the structures live until the call returns, and name live objects of this device.
        let made =
            unsafe { raw.create_compute_pipelines(vk::PipelineCache::null(), &[pipeline], None) };
        let made = made.map_err(|(_, result)| result).called("vkCreateComputePipelines")?;
        self.raw = made[0];
        Ok(())
    }
}

fn layout_binding(binding: &Binding) -> vk::DescriptorSetLayoutBinding<'static> {
    vk::DescriptorSetLayoutBinding::default()
        .binding(binding.binding)
        .descriptor_type(kind(binding.kind))
        .descriptor_count(binding.count)
        .stage_flags(vk::ShaderStageFlags::COMPUTE)
}

fn map_entry(entry: &SpecialisationEntry) -> vk::SpecializationMapEntry {
    vk::SpecializationMapEntry::default()
        .constant_id(entry.id)
        .offset(entry.offset)
        .size(entry.size as usize)
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        let raw = &self.device.raw;
        // SAFETY: no dispatch is in flight: a recorder keeps its pipelines until they are done. Destroying a null handle
        // does nothing.
        unsafe {
            raw.destroy_pipeline(self.raw, None);
            raw.destroy_pipeline_layout(self.layout, None);
            for layout in &self.set_layouts {
                raw.destroy_descriptor_set_layout(*layout, None);
            }
        }
    }
}
