// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Graphics pipelines, as they are described in a process's memory.

use crate::vulkan::image::format;
use crate::vulkan::pipeline::map_entry;
use crate::vulkan::{Called, Device, Pipeline, Point, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan::{
    Blend, GraphicsPipelineHead, GraphicsPipelineParts, GraphicsState, Scissor, StencilFace,
    VertexBinding, Viewport,
};
use std::ffi::CString;

/// A stage's module.
pub struct Module<'p> {
    /// Its words.
    pub spirv: &'p [u32],
    /// The entry point's name.
    pub entry_point: CString,
}

impl<'i> Device<'i> {
    /// Makes a pipeline of its description, which the device and Vulkan allow, with the modules of its stages. As with
    /// [`Self::pipeline`], descriptors of dynamic kinds become those of the others, and malformed modules may do anything in
    /// this process.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn graphics_pipeline(
        &self,
        parts: &GraphicsPipelineParts<'_>,
        modules: &[Module<'_>],
    ) -> Result<Pipeline<'_>, VulkanError> {
        let mut pipeline = Pipeline::new(self, Point::Graphics);
        let GraphicsPipelineHead { sets, push_constants, .. } = parts.head;
        pipeline.make_layout(sets, parts.bindings, push_constants)?;
        let mut made = Vec::new();
        let mut make = || {
            for module in modules {
                let information = vk::ShaderModuleCreateInfo::default().code(module.spirv);
                // SAFETY: the structure lives until the call returns.
                let module = unsafe { self.raw.create_shader_module(&information, None) };
                made.push(module.called("vkCreateShaderModule")?);
            }
            pipeline.make_graphics(parts, modules, &made)
        };
        let result = make();
        for module in made {
            // SAFETY: the pipeline does not need the modules that it was made of.
            unsafe { self.raw.destroy_shader_module(module, None) };
        }
        result.map(|()| pipeline)
    }
}

impl Pipeline<'_> {
    /// Makes the pipeline of its layout, and of the stages' modules.
    fn make_graphics(
        &mut self,
        parts: &GraphicsPipelineParts<'_>,
        modules: &[Module<'_>],
        made: &[vk::ShaderModule],
    ) -> Result<(), VulkanError> {
        let entries: Vec<Vec<_>> =
            parts.stages.iter().map(|it| it.constants.iter().map(map_entry).collect()).collect();
        let constants = entries.iter().zip(&parts.stages).map(|(entries, stage)| {
            vk::SpecializationInfo::default().map_entries(entries).data(stage.values)
        });
        let constants: Vec<_> = constants.collect();
        let mut subgroups: Vec<_> =
            parts.stages.iter().map(|it| subgroup(it.stage.subgroup_size)).collect();
        let stages = parts.stages.iter().zip(modules).zip(made).zip(&constants).zip(&mut subgroups);
        let stages: Vec<_> = stages
            .map(|((((parts, module), made), constants), subgroup)| {
                let stage = vk::PipelineShaderStageCreateInfo::default()
                    .flags(vk::PipelineShaderStageCreateFlags::from_raw(parts.stage.flags))
                    .stage(vk::ShaderStageFlags::from_raw(parts.stage.stage))
                    .module(*made)
                    .name(&module.entry_point)
                    .specialization_info(constants);
                if parts.stage.subgroup_size > 0 { stage.push_next(subgroup) } else { stage }
            })
            .collect();
        let state = &parts.head.state;
        let (bindings, attributes) = vertices(parts);
        let divisors = divisors(parts);
        let mut divided = vk::PipelineVertexInputDivisorStateCreateInfoEXT::default()
            .vertex_binding_divisors(&divisors);
        let mut vertices = vk::PipelineVertexInputStateCreateInfo::default()
            .vertex_binding_descriptions(&bindings)
            .vertex_attribute_descriptions(&attributes);
        if !divisors.is_empty() {
            vertices = vertices.push_next(&mut divided);
        }
        let assembly = vk::PipelineInputAssemblyStateCreateInfo::default()
            .topology(vk::PrimitiveTopology::from_raw(state.topology as i32))
            .primitive_restart_enable(state.restarts != 0);
        let mut origin = vk::PipelineTessellationDomainOriginStateCreateInfo::default()
            .domain_origin(vk::TessellationDomainOrigin::from_raw(state.domain_origin as i32));
        let tessellation = vk::PipelineTessellationStateCreateInfo::default()
            .patch_control_points(state.patch_points)
            .push_next(&mut origin);
        let viewports: Vec<_> = parts.viewports.iter().map(viewport).collect();
        let scissors: Vec<_> = parts.scissors.iter().map(scissor).collect();
        let mut from_minus_one =
            vk::PipelineViewportDepthClipControlCreateInfoEXT::default().negative_one_to_one(true);
        let mut viewports = vk::PipelineViewportStateCreateInfo::default()
            .viewports(&viewports)
            .scissors(&scissors);
        if state.depth_from_minus_one != 0 {
            viewports = viewports.push_next(&mut from_minus_one);
        }
        let mut newer = Newer::of(state);
        let raster = newer.chain(raster(state), parts);
        let multisample = vk::PipelineMultisampleStateCreateInfo::default()
            .rasterization_samples(vk::SampleCountFlags::from_raw(state.samples))
            .sample_shading_enable(state.shades_samples != 0)
            .min_sample_shading(state.least_shading)
            .sample_mask(&state.sample_mask)
            .alpha_to_coverage_enable(state.alpha_covers != 0)
            .alpha_to_one_enable(state.alpha_is_one != 0);
        let depth = depth(state);
        let blends: Vec<_> = parts.colors.iter().map(blend).collect();
        let blends = vk::PipelineColorBlendStateCreateInfo::default()
            .logic_op_enable(state.has_logic != 0)
            .logic_op(vk::LogicOp::from_raw(state.logic as i32))
            .attachments(&blends)
            .blend_constants(state.blend_constants);
        let states: Vec<_> =
            parts.states.iter().map(|it| vk::DynamicState::from_raw(*it as i32)).collect();
        let states = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&states);
        let formats: Vec<_> = parts.colors.iter().map(|color| format(color.format)).collect();
        let mut rendering = vk::PipelineRenderingCreateInfo::default()
            .view_mask(state.view_mask)
            .color_attachment_formats(&formats)
            .depth_attachment_format(format(state.depth_format))
            .stencil_attachment_format(format(state.stencil_format));
        let mut pipeline = vk::GraphicsPipelineCreateInfo::default()
            .stages(&stages)
            .vertex_input_state(&vertices)
            .input_assembly_state(&assembly)
            .viewport_state(&viewports)
            .rasterization_state(&raster)
            .multisample_state(&multisample)
            .depth_stencil_state(&depth)
            .color_blend_state(&blends)
            .dynamic_state(&states)
            .layout(self.layout)
            .push_next(&mut rendering);
        if state.patch_points > 0 {
            pipeline = pipeline.tessellation_state(&tessellation);
        }
        let raw = &self.device.raw;
        // SAFETY: the structures live until the call returns, and name live objects of this device, which allows them, as
        // the caller of `graphics_pipeline` says.
        let made =
            unsafe { raw.create_graphics_pipelines(vk::PipelineCache::null(), &[pipeline], None) };
        let made = made.map_err(|(_, result)| result).called("vkCreateGraphicsPipelines")?;
        self.raw = made[0];
        Ok(())
    }
}

fn subgroup(size: u32) -> vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'static> {
    vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default().required_subgroup_size(size)
}

type Vertices = (Vec<vk::VertexInputBindingDescription>, Vec<vk::VertexInputAttributeDescription>);

fn vertices(parts: &GraphicsPipelineParts<'_>) -> Vertices {
    let bindings = parts.vertex_bindings.iter().map(|of| {
        vk::VertexInputBindingDescription::default()
            .binding(of.binding)
            .stride(of.stride)
            .input_rate(vk::VertexInputRate::from_raw(of.rate as i32))
    });
    let attributes = parts.vertex_attributes.iter().map(|of| {
        vk::VertexInputAttributeDescription::default()
            .location(of.location)
            .binding(of.binding)
            .format(format(of.format))
            .offset(of.offset)
    });
    (bindings.collect(), attributes.collect())
}

/// Bindings whose numbers are those of other numbers of instances than one.
fn divisors(parts: &GraphicsPipelineParts<'_>) -> Vec<vk::VertexInputBindingDivisorDescriptionEXT> {
    let others = parts.vertex_bindings.iter().filter(|of| of.divisor != 1);
    let divisor = |of: &VertexBinding| {
        vk::VertexInputBindingDivisorDescriptionEXT::default()
            .binding(of.binding)
            .divisor(of.divisor)
    };
    others.map(divisor).collect()
}

/// What extensions say of rasterization.
struct Newer {
    clip: vk::PipelineRasterizationDepthClipStateCreateInfoEXT<'static>,
    provoking: vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT<'static>,
    stream: vk::PipelineRasterizationStateStreamCreateInfoEXT<'static>,
    lines: vk::PipelineRasterizationLineStateCreateInfoEXT<'static>,
}

impl Newer {
    fn of(state: &GraphicsState) -> Self {
        let mode = |mode: u32| vk::ProvokingVertexModeEXT::from_raw(mode as i32);
        let [factor, pattern] = state.line_stipple;
        Self {
            clip: vk::PipelineRasterizationDepthClipStateCreateInfoEXT::default()
                .depth_clip_enable(state.depth_clip == 2),
            provoking: vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT::default()
                .provoking_vertex_mode(mode(state.provoking_vertex)),
            stream: vk::PipelineRasterizationStateStreamCreateInfoEXT::default()
                .rasterization_stream(state.stream),
            lines: vk::PipelineRasterizationLineStateCreateInfoEXT::default()
                .line_rasterization_mode(vk::LineRasterizationModeEXT::from_raw(
                    state.line_mode as i32,
                ))
                .stippled_line_enable(state.stipples_lines != 0)
                .line_stipple_factor(factor)
                .line_stipple_pattern(pattern as u16),
        }
    }

    /// Chains what is not as it would be without an extension.
    fn chain<'a>(
        &'a mut self,
        mut raster: vk::PipelineRasterizationStateCreateInfo<'a>,
        parts: &GraphicsPipelineParts<'_>,
    ) -> vk::PipelineRasterizationStateCreateInfo<'a> {
        let state = &parts.head.state;
        if state.depth_clip != 0 {
            raster = raster.push_next(&mut self.clip);
        }
        if state.provoking_vertex != 0 {
            raster = raster.push_next(&mut self.provoking);
        }
        if state.stream != 0 {
            raster = raster.push_next(&mut self.stream);
        }
        if state.line_mode != 0 || state.stipples_lines != 0 {
            raster = raster.push_next(&mut self.lines);
        }
        raster
    }
}

fn raster(state: &GraphicsState) -> vk::PipelineRasterizationStateCreateInfo<'static> {
    let [constant, clamp, slope] = state.depth_bias;
    vk::PipelineRasterizationStateCreateInfo::default()
        .depth_clamp_enable(state.clamps_depth != 0)
        .rasterizer_discard_enable(state.discards != 0)
        .polygon_mode(vk::PolygonMode::from_raw(state.polygon_mode as i32))
        .cull_mode(vk::CullModeFlags::from_raw(state.cull_mode))
        .front_face(vk::FrontFace::from_raw(state.front_face as i32))
        .depth_bias_enable(state.biases_depth != 0)
        .depth_bias_constant_factor(constant)
        .depth_bias_clamp(clamp)
        .depth_bias_slope_factor(slope)
        .line_width(state.line_width)
}

fn depth(state: &GraphicsState) -> vk::PipelineDepthStencilStateCreateInfo<'static> {
    let [least, most] = state.depth_bounds;
    vk::PipelineDepthStencilStateCreateInfo::default()
        .depth_test_enable(state.tests_depth != 0)
        .depth_write_enable(state.writes_depth != 0)
        .depth_compare_op(vk::CompareOp::from_raw(state.depth_compare as i32))
        .depth_bounds_test_enable(state.tests_bounds != 0)
        .stencil_test_enable(state.tests_stencil != 0)
        .front(face(&state.front))
        .back(face(&state.back))
        .min_depth_bounds(least)
        .max_depth_bounds(most)
}

fn face(of: &StencilFace) -> vk::StencilOpState {
    vk::StencilOpState {
        fail_op: vk::StencilOp::from_raw(of.fail as i32),
        pass_op: vk::StencilOp::from_raw(of.pass as i32),
        depth_fail_op: vk::StencilOp::from_raw(of.depth_fail as i32),
        compare_op: vk::CompareOp::from_raw(of.compare as i32),
        compare_mask: of.compare_mask,
        write_mask: of.write_mask,
        reference: of.reference,
    }
}

fn blend(of: &Blend) -> vk::PipelineColorBlendAttachmentState {
    let factor = |factor: u32| vk::BlendFactor::from_raw(factor as i32);
    let operation = |operation: u32| vk::BlendOp::from_raw(operation as i32);
    let ([source, destination, how], [source_alpha, destination_alpha, how_alpha]) =
        (of.color, of.alpha);
    vk::PipelineColorBlendAttachmentState::default()
        .blend_enable(of.is_on != 0)
        .src_color_blend_factor(factor(source))
        .dst_color_blend_factor(factor(destination))
        .color_blend_op(operation(how))
        .src_alpha_blend_factor(factor(source_alpha))
        .dst_alpha_blend_factor(factor(destination_alpha))
        .alpha_blend_op(operation(how_alpha))
        .color_write_mask(vk::ColorComponentFlags::from_raw(of.write_mask))
}

/// Vulkan's viewport.
pub(super) fn viewport(of: &Viewport) -> vk::Viewport {
    let ([x, y], [width, height], [min_depth, max_depth]) = (of.offset, of.extent, of.depths);
    vk::Viewport { x, y, width, height, min_depth, max_depth }
}

/// Vulkan's scissor.
pub(super) fn scissor(of: &Scissor) -> vk::Rect2D {
    let ([x, y], [width, height]) = (of.offset, of.extent);
    vk::Rect2D { offset: vk::Offset2D { x, y }, extent: vk::Extent2D { width, height } }
}
