// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Pipelines and their layouts. Compute pipelines, as they are described in a process's memory.

use super::descriptor_sets::kind;
use super::{Called, Device, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan::{
    Binding, DescriptorKind, PipelineHead, PipelineParts, SpecialisationEntry,
};
use std::ffi::CStr;

/// What a pipeline is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// Dispatches.
    Compute,
    /// Draws.
    Graphics,
}

impl Point {
    /// Vulkan's name of it.
    pub(super) fn raw(self) -> vk::PipelineBindPoint {
        match self {
            Self::Compute => vk::PipelineBindPoint::COMPUTE,
            Self::Graphics => vk::PipelineBindPoint::GRAPHICS,
        }
    }

    /// The stages that see its sets and constants.
    pub(super) fn stages(self) -> vk::ShaderStageFlags {
        match self {
            Self::Compute => vk::ShaderStageFlags::COMPUTE,
            Self::Graphics => vk::ShaderStageFlags::ALL_GRAPHICS,
        }
    }
}

/// A pipeline and its layout.
pub struct Pipeline<'d> {
    pub(super) device: &'d Device<'d>,
    /// What it is for.
    pub point: Point,
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
        let mut pipeline = Pipeline::new(self, Point::Compute);
        let PipelineHead { sets, push_constants, .. } = parts.head;
        pipeline.make_layout(sets, parts.bindings, push_constants)?;
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

impl<'d> Pipeline<'d> {
    /// Begins with nothing that Vulkan has made.
    pub(super) fn new(device: &'d Device<'d>, point: Point) -> Self {
        let (layout, raw) = (vk::PipelineLayout::null(), vk::Pipeline::null());
        Self { device, point, set_layouts: Vec::new(), layout, raw }
    }

    /// Makes the layout of so many sets, with these bindings, and of so many bytes of push constants.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub(super) fn make_layout(
        &mut self,
        sets: u32,
        bindings: &[Binding],
        push_constants: u32,
    ) -> Result<(), VulkanError> {
        let (raw, point) = (&self.device.raw, self.point);
        let of_set = |set: u32| bindings.iter().filter(move |binding| binding.set == set);
        for set in 0..sets {
            let bindings: Vec<_> =
                of_set(set).map(|binding| layout_binding(binding, point)).collect();
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
        let ranges =
            [vk::PushConstantRange::default().stage_flags(point.stages()).size(push_constants)];
        // A range may not be empty.
        let ranges = if push_constants > 0 { &ranges[..] } else { &[] };
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

fn layout_binding(binding: &Binding, point: Point) -> vk::DescriptorSetLayoutBinding<'static> {
    // Fragments alone have attachments.
    let stages = match binding.kind {
        DescriptorKind::INPUT_ATTACHMENT => vk::ShaderStageFlags::FRAGMENT,
        _ => point.stages(),
    };
    vk::DescriptorSetLayoutBinding::default()
        .binding(binding.binding)
        .descriptor_type(kind(binding.kind))
        .descriptor_count(binding.count)
        .stage_flags(stages)
}

/// Vulkan's form of a specialisation constant.
pub(super) fn map_entry(entry: &SpecialisationEntry) -> vk::SpecializationMapEntry {
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
