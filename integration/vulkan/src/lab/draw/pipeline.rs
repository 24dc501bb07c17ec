// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Pipelines that draw, made as planned.

use super::super::kernel::{Kernel, Module, Slot};
use super::super::{Gpu, Outcome};
use super::plan::Plan;
use ash::vk;

/// The stages that push constants and buffers are for.
pub(super) const BOTH: vk::ShaderStageFlags = vk::ShaderStageFlags::from_raw(
    vk::ShaderStageFlags::VERTEX.as_raw() | vk::ShaderStageFlags::FRAGMENT.as_raw(),
);

impl Gpu<'_> {
    /// A pipeline and its layout.
    pub(crate) fn drawer(&self, plan: &Plan<'_>) -> Outcome<Kernel> {
        let sets = match plan.slots.as_slice() {
            [] => Vec::new(),
            slots => vec![self.drawn_set_layout(slots)?],
        };
        let layout = self.drawn_layout(&sets, plan.push)?;
        let pipeline = self.drawn_pipeline(plan, layout)?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_pipeline(pipeline, None) });
        Ok(Kernel { pipeline, layout, sets })
    }

    fn drawn_set_layout(&self, slots: &[Slot]) -> Outcome<vk::DescriptorSetLayout> {
        let bindings: Vec<_> = slots
            .iter()
            .map(|Slot(number, kind, count)| {
                let stages = match *kind {
                    vk::DescriptorType::INPUT_ATTACHMENT => vk::ShaderStageFlags::FRAGMENT,
                    _ => BOTH,
                };
                let binding = vk::DescriptorSetLayoutBinding::default().binding(*number);
                binding.descriptor_type(*kind).descriptor_count(*count).stage_flags(stages)
            })
            .collect();
        let information = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the device is open. The structures live until the call returns.
        let layout = unsafe { self.raw.create_descriptor_set_layout(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_descriptor_set_layout(layout, None) });
        Ok(layout)
    }

    fn drawn_layout(
        &self,
        sets: &[vk::DescriptorSetLayout],
        push: u32,
    ) -> Outcome<vk::PipelineLayout> {
        let pushed = [vk::PushConstantRange::default().stage_flags(BOTH).size(push)];
        let pushed: &[_] = if push == 0 { &[] } else { &pushed };
        let information =
            vk::PipelineLayoutCreateInfo::default().set_layouts(sets).push_constant_ranges(pushed);
        // SAFETY: the device is open, the layouts are its own, and the structures live until the call returns.
        let layout = unsafe { self.raw.create_pipeline_layout(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_pipeline_layout(layout, None) });
        Ok(layout)
    }

    /// The modules of a plan's stages.
    fn modules(&self, plan: &Plan<'_>) -> Result<Vec<vk::ShaderModule>, vk::Result> {
        let each = plan.stages.iter().map(|stage| {
            let words = Module(&stage.module).words();
            let information = vk::ShaderModuleCreateInfo::default().code(&words);
            // SAFETY: the device is open. The structures live until the call returns, and the module is valid SPIR-V.
            let module = unsafe { self.raw.create_shader_module(&information, None) }?;
            // SAFETY: nothing executes when this is called, and no pipeline is made of it.
            self.later(move |device| unsafe { device.destroy_shader_module(module, None) });
            Ok(module)
        });
        each.collect()
    }

    fn drawn_pipeline(&self, plan: &Plan<'_>, layout: vk::PipelineLayout) -> Outcome<vk::Pipeline> {
        let modules = self.modules(plan)?;
        let mut values = Vec::new();
        let mut entries = Vec::new();
        for (id, bytes) in plan.values {
            let entry = vk::SpecializationMapEntry::default().constant_id(*id);
            entries.push(entry.offset(values.len() as u32).size(bytes.len()));
            values.extend_from_slice(bytes);
        }
        let constants = vk::SpecializationInfo::default().map_entries(&entries).data(&values);
        let stage = |(stage, module): (&super::plan::Stage, &vk::ShaderModule)| {
            vk::PipelineShaderStageCreateInfo::default()
                .stage(stage.kind)
                .module(*module)
                .name(stage.entry)
                .specialization_info(&constants)
        };
        let stages: Vec<_> = plan.stages.iter().zip(&modules).map(stage).collect();
        let divisors = plan.newer.divisors();
        let mut divided = vk::PipelineVertexInputDivisorStateCreateInfoEXT::default()
            .vertex_binding_divisors(&divisors);
        let mut input = vk::PipelineVertexInputStateCreateInfo::default()
            .vertex_binding_descriptions(&plan.bindings)
            .vertex_attribute_descriptions(&plan.attributes);
        if !divisors.is_empty() {
            input = input.push_next(&mut divided);
        }
        let mut newer = plan.newer.structures();
        let raster = plan.newer.chain(&mut newer, plan.raster);
        let mut control =
            vk::PipelineViewportDepthClipControlCreateInfoEXT::default().negative_one_to_one(true);
        let assembly = vk::PipelineInputAssemblyStateCreateInfo::default()
            .topology(plan.topology)
            .primitive_restart_enable(plan.restart);
        let patches =
            vk::PipelineTessellationStateCreateInfo::default().patch_control_points(plan.patch);
        let mut viewports = vk::PipelineViewportStateCreateInfo::default()
            .viewports(&plan.viewports)
            .scissors(&plan.scissors);
        if plan.newer.from_minus_one {
            viewports = viewports.push_next(&mut control);
        }
        let mask: Vec<_> = plan.mask.into_iter().collect();
        let samples = match mask.as_slice() {
            [] => plan.samples,
            mask => plan.samples.sample_mask(mask),
        };
        let blends = vk::PipelineColorBlendStateCreateInfo::default()
            .logic_op_enable(plan.logic.is_some())
            .logic_op(plan.logic.unwrap_or(vk::LogicOp::COPY))
            .attachments(&plan.blends)
            .blend_constants(plan.constants);
        let dynamic = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&plan.dynamic);
        let mut rendering = vk::PipelineRenderingCreateInfo::default()
            .view_mask(plan.views)
            .color_attachment_formats(&plan.targets)
            .depth_attachment_format(plan.depth_format)
            .stencil_attachment_format(plan.stencil_format);
        let mut information = vk::GraphicsPipelineCreateInfo::default()
            .flags(plan.flags)
            .stages(&stages)
            .vertex_input_state(&input)
            .input_assembly_state(&assembly)
            .viewport_state(&viewports)
            .rasterization_state(&raster)
            .multisample_state(&samples)
            .depth_stencil_state(&plan.depth)
            .color_blend_state(&blends)
            .dynamic_state(&dynamic)
            .layout(layout);
        if plan.patch > 0 {
            information = information.tessellation_state(&patches);
        }
        information = match plan.pass {
            Some((pass, subpass)) => information.render_pass(pass).subpass(subpass),
            None => information.push_next(&mut rendering),
        };
        let (cache, all) = (vk::PipelineCache::null(), [information]);
        // SAFETY: the device is open, the objects are its own, and the structures live until the call returns.
        let made = unsafe { self.raw.create_graphics_pipelines(cache, &all, None) };
        Ok(made.map_err(|(_, result)| result)?.first().copied().unwrap_or_default())
    }
}
