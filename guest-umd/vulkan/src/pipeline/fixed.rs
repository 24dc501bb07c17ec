// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers")]

//! The state of a graphics pipeline that is not about its shaders. What Vulkan ignores is not looked at, pointers first of all: it is
//! told as numbers that Vulkan knows.

use super::dynamic::Dynamic;
use super::newer;
use crate::raw;
use crate::rendering::Formats;
use ash::vk::{self, DynamicState as State};
use bellhop_protocol::vulkan::{
    Blend, GraphicsState, MAX_COLORS, MAX_VERTEX_BINDINGS, MAX_VIEWPORTS, Scissor, StencilFace,
    VertexAttribute, VertexBinding, Viewport,
};
use zerocopy::FromZeros;

/// The state.
pub(super) struct Fixed {
    pub(super) state: GraphicsState,
    pub(super) vertex_bindings: Vec<VertexBinding>,
    pub(super) vertex_attributes: Vec<VertexAttribute>,
    pub(super) colors: Vec<Blend>,
    pub(super) dynamic: Dynamic,
    pub(super) viewports: Vec<Viewport>,
    pub(super) scissors: Vec<Scissor>,
}

impl Fixed {
    /// That of a pipeline for attachments of these formats. `None` if it has more of something than there can be.
    ///
    /// # Safety
    /// The structure is valid, as Vulkan demands it.
    pub(super) unsafe fn new(
        information: &vk::GraphicsPipelineCreateInfo<'_>,
        stages: vk::ShaderStageFlags,
        formats: &Formats,
    ) -> Option<Self> {
        // SAFETY: a valid structure's pointers are, unless Vulkan ignores them.
        let dynamic = unsafe {
            let states = information.p_dynamic_state.as_ref();
            let states = states.map(|of| raw::slice(of.p_dynamic_states, of.dynamic_state_count));
            Dynamic::of(states.unwrap_or_default())
        };
        let mut fixed = Self {
            state: GraphicsState::new_zeroed(),
            vertex_bindings: Vec::new(),
            vertex_attributes: Vec::new(),
            colors: Vec::new(),
            dynamic,
            viewports: Vec::new(),
            scissors: Vec::new(),
        };
        let state = &mut fixed.state;
        (state.samples, state.line_width, state.sample_mask) = (1, 1.0, [u32::MAX; 2]);
        state.view_mask = formats.view_mask;
        (state.depth_format, state.stencil_format) = (formats.depth, formats.stencil);
        let colors = formats.colors.iter();
        fixed.colors = colors.map(|format| Blend { format: *format, ..none() }).collect();
        // SAFETY: as above.
        unsafe {
            fixed.add_vertices(information);
            if stages.contains(vk::ShaderStageFlags::TESSELLATION_EVALUATION) {
                fixed.add_tessellation(information);
            }
            fixed.add_rasterization(information);
            let is_off =
                fixed.state.discards != 0 && !fixed.dynamic.has(State::RASTERIZER_DISCARD_ENABLE);
            if !is_off {
                fixed.add_viewports(information);
                fixed.add_samples(information);
                if formats.depth != 0 || formats.stencil != 0 {
                    fixed.add_depth(information);
                }
                if !fixed.colors.is_empty() {
                    fixed.add_blending(information);
                }
            }
        }
        let can_be = fixed.vertex_bindings.len() <= MAX_VERTEX_BINDINGS as usize
            && fixed.vertex_attributes.len() <= MAX_VERTEX_BINDINGS as usize
            && fixed.colors.len() <= MAX_COLORS as usize
            && fixed.viewports.len() <= MAX_VIEWPORTS as usize
            && fixed.scissors.len() <= MAX_VIEWPORTS as usize;
        can_be.then_some(fixed)
    }

    /// # Safety
    /// As [`Self::new`], here and below.
    unsafe fn add_vertices(&mut self, information: &vk::GraphicsPipelineCreateInfo<'_>) {
        // SAFETY: a valid structure's pointers are.
        let (input, assembly) = unsafe {
            let input = information.p_vertex_input_state.as_ref().map(|input| {
                let count = input.vertex_attribute_description_count;
                (
                    raw::slice(
                        input.p_vertex_binding_descriptions,
                        input.vertex_binding_description_count,
                    ),
                    raw::slice(input.p_vertex_attribute_descriptions, count),
                )
            });
            (input.unwrap_or_default(), information.p_input_assembly_state.as_ref())
        };
        let (bindings, attributes) = input;
        let binding = |of: &vk::VertexInputBindingDescription| VertexBinding {
            binding: of.binding,
            stride: of.stride,
            rate: of.input_rate.as_raw() as u32,
            divisor: 1,
        };
        let attribute = |of: &vk::VertexInputAttributeDescription| VertexAttribute {
            location: of.location,
            binding: of.binding,
            format: of.format.as_raw() as u32,
            offset: of.offset,
        };
        self.vertex_bindings = bindings.iter().map(binding).collect();
        self.vertex_attributes = attributes.iter().map(attribute).collect();
        // SAFETY: as above.
        unsafe { newer::add_divisors(&mut self.vertex_bindings, information) };
        if let Some(assembly) = assembly {
            self.state.topology = assembly.topology.as_raw() as u32;
            self.state.restarts = assembly.primitive_restart_enable;
        }
    }

    unsafe fn add_tessellation(&mut self, information: &vk::GraphicsPipelineCreateInfo<'_>) {
        type Origin<'a> = vk::PipelineTessellationDomainOriginStateCreateInfo<'a>;
        // SAFETY: a valid structure's pointers and chain are.
        unsafe {
            let Some(tessellation) = information.p_tessellation_state.as_ref() else { return };
            self.state.patch_points = tessellation.patch_control_points;
            let origin = raw::find::<Origin<'_>>(tessellation.p_next);
            self.state.domain_origin = origin.map_or(0, |of| of.domain_origin.as_raw() as u32);
        }
    }

    unsafe fn add_rasterization(&mut self, information: &vk::GraphicsPipelineCreateInfo<'_>) {
        // SAFETY: a valid structure's pointers are.
        let Some(of) = (unsafe { information.p_rasterization_state.as_ref() }) else { return };
        let state = &mut self.state;
        state.clamps_depth = of.depth_clamp_enable;
        state.discards = of.rasterizer_discard_enable;
        state.polygon_mode = of.polygon_mode.as_raw() as u32;
        state.cull_mode = of.cull_mode.as_raw();
        state.front_face = of.front_face.as_raw() as u32;
        state.biases_depth = of.depth_bias_enable;
        if of.depth_bias_enable != 0 || self.dynamic.has(State::DEPTH_BIAS_ENABLE) {
            state.depth_bias =
                [of.depth_bias_constant_factor, of.depth_bias_clamp, of.depth_bias_slope_factor];
        }
        state.line_width = of.line_width;
        // SAFETY: a valid structure's chain is.
        unsafe { newer::add_rasterization(&mut self.state, of) };
    }

    unsafe fn add_viewports(&mut self, information: &vk::GraphicsPipelineCreateInfo<'_>) {
        // SAFETY: a valid structure's pointers are.
        let Some(of) = (unsafe { information.p_viewport_state.as_ref() }) else { return };
        // SAFETY: a valid structure's chain is.
        unsafe { newer::add_depths(&mut self.state, of) };
        let viewport = |of: &vk::Viewport| Viewport {
            offset: [of.x, of.y],
            extent: [of.width, of.height],
            depths: [of.min_depth, of.max_depth],
        };
        let scissor = |of: &vk::Rect2D| Scissor {
            offset: [of.offset.x, of.offset.y],
            extent: [of.extent.width, of.extent.height],
        };
        let most = |count: u32| count.min(MAX_VIEWPORTS + 1) as usize;
        // SAFETY: as above. Where they are dynamic, the pointers are to nothing.
        unsafe {
            if self.dynamic.has(State::VIEWPORT) {
                self.viewports = vec![Viewport::new_zeroed(); most(of.viewport_count)];
            } else if !self.dynamic.has(State::VIEWPORT_WITH_COUNT) {
                let viewports = raw::slice(of.p_viewports, of.viewport_count);
                self.viewports = viewports.iter().map(viewport).collect();
            }
            if self.dynamic.has(State::SCISSOR) {
                self.scissors = vec![Scissor::new_zeroed(); most(of.scissor_count)];
            } else if !self.dynamic.has(State::SCISSOR_WITH_COUNT) {
                let scissors = raw::slice(of.p_scissors, of.scissor_count);
                self.scissors = scissors.iter().map(scissor).collect();
            }
        }
    }

    unsafe fn add_samples(&mut self, information: &vk::GraphicsPipelineCreateInfo<'_>) {
        // SAFETY: a valid structure's pointers are.
        let Some(of) = (unsafe { information.p_multisample_state.as_ref() }) else { return };
        let state = &mut self.state;
        state.samples = of.rasterization_samples.as_raw();
        state.shades_samples = of.sample_shading_enable;
        if of.sample_shading_enable != 0 {
            state.least_shading = of.min_sample_shading;
        }
        // SAFETY: as above: there are bits for all samples.
        let mask = unsafe { raw::slice(of.p_sample_mask, state.samples.div_ceil(32).min(2)) };
        for (word, mask) in state.sample_mask.iter_mut().zip(mask) {
            *word = *mask;
        }
        state.alpha_covers = of.alpha_to_coverage_enable;
        state.alpha_is_one = of.alpha_to_one_enable;
    }

    unsafe fn add_depth(&mut self, information: &vk::GraphicsPipelineCreateInfo<'_>) {
        // SAFETY: a valid structure's pointers are.
        let Some(of) = (unsafe { information.p_depth_stencil_state.as_ref() }) else { return };
        let state = &mut self.state;
        state.tests_depth = of.depth_test_enable;
        state.writes_depth = of.depth_write_enable;
        state.depth_compare = of.depth_compare_op.as_raw() as u32;
        state.tests_bounds = of.depth_bounds_test_enable;
        if of.depth_bounds_test_enable != 0 || self.dynamic.has(State::DEPTH_BOUNDS_TEST_ENABLE) {
            state.depth_bounds = [of.min_depth_bounds, of.max_depth_bounds];
        }
        state.tests_stencil = of.stencil_test_enable;
        if of.stencil_test_enable != 0 || self.dynamic.has(State::STENCIL_TEST_ENABLE) {
            (state.front, state.back) = (face(&of.front), face(&of.back));
        }
    }

    unsafe fn add_blending(&mut self, information: &vk::GraphicsPipelineCreateInfo<'_>) {
        // SAFETY: a valid structure's pointers are.
        let (of, blends) = unsafe {
            let Some(of) = information.p_color_blend_state.as_ref() else { return };
            (of, raw::slice(of.p_attachments, of.attachment_count))
        };
        for (color, of) in self.colors.iter_mut().zip(blends) {
            *color = blend(color.format, of);
        }
        self.state.has_logic = of.logic_op_enable;
        if of.logic_op_enable != 0 {
            self.state.logic = of.logic_op.as_raw() as u32;
        }
        self.state.blend_constants = of.blend_constants;
    }
}

/// How nothing is blended, or written.
fn none() -> Blend {
    Blend::new_zeroed()
}

fn blend(format: u32, of: &vk::PipelineColorBlendAttachmentState) -> Blend {
    let plain = Blend { format, write_mask: of.color_write_mask.as_raw(), ..none() };
    if of.blend_enable == 0 {
        return plain;
    }
    let factors = [
        of.src_color_blend_factor,
        of.dst_color_blend_factor,
        of.src_alpha_blend_factor,
        of.dst_alpha_blend_factor,
    ];
    let [from, to, alpha_from, alpha_to] = factors.map(|factor| factor.as_raw() as u32);
    let [color, alpha] = [of.color_blend_op, of.alpha_blend_op].map(|it| it.as_raw() as u32);
    Blend { is_on: 1, color: [from, to, color], alpha: [alpha_from, alpha_to, alpha], ..plain }
}

const fn face(of: &vk::StencilOpState) -> StencilFace {
    StencilFace {
        fail: of.fail_op.as_raw() as u32,
        pass: of.pass_op.as_raw() as u32,
        depth_fail: of.depth_fail_op.as_raw() as u32,
        compare: of.compare_op.as_raw() as u32,
        compare_mask: of.compare_mask,
        write_mask: of.write_mask,
        reference: of.reference,
    }
}

#[cfg(test)]
mod tests;
