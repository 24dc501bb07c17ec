// SPDX-License-Identifier: MIT OR Apache-2.0

//! Graphics pipelines: what Vulkan and a device allow of their stages, vertices and attachments.

use super::raster::{self, check_booleans, has};
use super::states::{TOPOLOGIES, is_topology};
use crate::serve::commands::stages::check_stage;
use crate::vulkan::{Bounds, OfGraphics, aspects, is_state};
use ash::vk::{
    DynamicState, FormatFeatureFlags, ImageAspectFlags, PrimitiveTopology, ShaderStageFlags, TRUE,
};
use bellhop_protocol::vulkan::{Blend, GraphicsPipelineParts, MAX_VERTEX_BINDINGS, Tiling};
use std::collections::BTreeSet;

const TESSELLATION: ShaderStageFlags = ShaderStageFlags::from_raw(
    ShaderStageFlags::TESSELLATION_CONTROL.as_raw()
        | ShaderStageFlags::TESSELLATION_EVALUATION.as_raw(),
);
const STAGES: ShaderStageFlags = ShaderStageFlags::from_raw(
    ShaderStageFlags::VERTEX.as_raw()
        | TESSELLATION.as_raw()
        | ShaderStageFlags::GEOMETRY.as_raw()
        | ShaderStageFlags::FRAGMENT.as_raw(),
);
/// Each number of Vulkan 1.0 in these fields is less.
const BLEND_FACTORS: u32 = 19;
const BLEND_OPERATIONS: u32 = 5;
/// The factors that take a second colour of the shader begin here.
const DUAL: u32 = 15;
/// Red, green, blue and alpha.
const COMPONENTS: u32 = 0b1111;

/// Checks what Vulkan and the device must have for a pipeline. What it has in common with one for dispatches is not looked at.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_pipeline(
    parts: &GraphicsPipelineParts<'_>,
    bounds: &Bounds,
) -> Result<(), &'static str> {
    let device = bounds.graphics.as_deref();
    let device = device.ok_or("a pipeline for drawing, and the device does not draw")?;
    let stages = check_stages(parts, bounds, device)?;
    check_states(parts)?;
    check_vertices(parts, bounds, device)?;
    check_assembly(parts, stages.intersects(TESSELLATION), device)?;
    raster::check(parts, device)?;
    check_colors(parts, bounds, device)?;
    check_attachments(parts, stages, bounds, device)
}

fn check_stages(
    parts: &GraphicsPipelineParts<'_>,
    bounds: &Bounds,
    device: &OfGraphics,
) -> Result<ShaderStageFlags, &'static str> {
    let mut stages = ShaderStageFlags::empty();
    for part in &parts.stages {
        let stage = ShaderStageFlags::from_raw(part.stage.stage);
        if !STAGES.contains(stage) {
            return Err("a stage that is not for drawing");
        }
        let may_ask = device.subgroup_stages.contains(stage);
        check_stage(part.stage.flags, part.stage.subgroup_size, may_ask, bounds)?;
        stages |= stage;
    }
    if !stages.contains(ShaderStageFlags::VERTEX) {
        return Err("a pipeline for drawing without a stage for vertices");
    }
    if stages.intersects(TESSELLATION) != stages.contains(TESSELLATION) {
        return Err("a pipeline with one stage of tessellation");
    }
    let features = &device.features;
    if (stages.intersects(TESSELLATION) && features.tessellation_shader != TRUE)
        || (stages.contains(ShaderStageFlags::GEOMETRY) && features.geometry_shader != TRUE)
    {
        return Err("a pipeline with a stage that the device does not have");
    }
    Ok(stages)
}

fn check_states(parts: &GraphicsPipelineParts<'_>) -> Result<(), &'static str> {
    let mut seen = BTreeSet::new();
    if !parts.states.iter().all(|state| is_state(*state) && seen.insert(*state)) {
        return Err("a dynamic state that is unknown, or is there twice");
    }
    let both = |one, other| has(parts, one) && has(parts, other);
    if both(DynamicState::VIEWPORT, DynamicState::VIEWPORT_WITH_COUNT)
        || both(DynamicState::SCISSOR, DynamicState::SCISSOR_WITH_COUNT)
    {
        return Err("a dynamic state that is there with and without a number");
    }
    Ok(())
}

fn check_vertices(
    parts: &GraphicsPipelineParts<'_>,
    bounds: &Bounds,
    device: &OfGraphics,
) -> Result<(), &'static str> {
    let limits = &device.limits;
    let most_bindings = limits.max_vertex_input_bindings.min(MAX_VERTEX_BINDINGS);
    let is_dynamic = has(parts, DynamicState::VERTEX_INPUT_BINDING_STRIDE);
    let mut bindings = BTreeSet::new();
    for of in parts.vertex_bindings {
        if of.rate > 1 || !bindings.insert(of.binding) {
            return Err("a vertex binding that is unknown, or is there twice");
        }
        let is_far = !is_dynamic && of.stride > limits.max_vertex_input_binding_stride;
        if of.binding >= most_bindings || is_far {
            return Err("a vertex binding that the device does not take");
        }
        let [others, zero] = device.extensions.vertex_attribute_divisor;
        let is_divisor = match of.divisor {
            1 => true,
            0 => of.rate == 1 && zero == TRUE,
            divisor => of.rate == 1 && others == TRUE && divisor <= device.most_divisor,
        };
        if !is_divisor {
            return Err("a vertex binding of a divisor that the device does not take");
        }
    }
    let mut locations = BTreeSet::new();
    for of in parts.vertex_attributes {
        if !bindings.contains(&of.binding) || !locations.insert(of.location) {
            return Err("a vertex attribute without a binding, or that is there twice");
        }
        let features = bounds.formats.of_buffers(of.format);
        if of.location >= limits.max_vertex_input_attributes
            || of.offset > limits.max_vertex_input_attribute_offset
            || !features.contains(FormatFeatureFlags::VERTEX_BUFFER)
        {
            return Err("a vertex attribute that the device does not take");
        }
    }
    Ok(())
}

fn check_assembly(
    parts: &GraphicsPipelineParts<'_>,
    has_tessellation: bool,
    device: &OfGraphics,
) -> Result<(), &'static str> {
    let state = &parts.head.state;
    check_booleans(&[state.restarts, state.domain_origin])?;
    if state.topology >= TOPOLOGIES || !is_topology(state.topology, device) {
        return Err("a pipeline of a topology that the device does not have");
    }
    let topology = PrimitiveTopology::from_raw(state.topology as i32);
    let most = device.limits.max_tessellation_patch_size;
    let are_points = match has_tessellation {
        true => (1..=most).contains(&state.patch_points),
        false => state.patch_points == 0,
    };
    if !are_points || has_tessellation != (topology == PrimitiveTopology::PATCH_LIST) {
        return Err("a pipeline with patches that are not for its stages");
    }
    let is_list = matches!(
        topology,
        PrimitiveTopology::POINT_LIST
            | PrimitiveTopology::LINE_LIST
            | PrimitiveTopology::TRIANGLE_LIST
            | PrimitiveTopology::LINE_LIST_WITH_ADJACENCY
            | PrimitiveTopology::TRIANGLE_LIST_WITH_ADJACENCY
            | PrimitiveTopology::PATCH_LIST
    );
    let is_dynamic = has(parts, DynamicState::PRIMITIVE_TOPOLOGY)
        || has(parts, DynamicState::PRIMITIVE_RESTART_ENABLE);
    let [lists, patches] = device.extensions.primitive_topology_list_restart;
    let may = if topology == PrimitiveTopology::PATCH_LIST { patches } else { lists };
    if is_list && state.restarts != 0 && !is_dynamic && may != TRUE {
        return Err("a pipeline that begins anew in a list");
    }
    Ok(())
}

fn check_colors(
    parts: &GraphicsPipelineParts<'_>,
    bounds: &Bounds,
    device: &OfGraphics,
) -> Result<(), &'static str> {
    let (features, limits) = (&device.features, &device.limits);
    if parts.head.colors > limits.max_color_attachments {
        return Err("a pipeline with more attachments than the device takes");
    }
    for of in parts.colors {
        check_blend(of)?;
        let factors = [of.color[0], of.color[1], of.alpha[0], of.alpha[1]];
        if of.is_on != 0 && factors.iter().any(|factor| *factor >= DUAL) {
            let most = limits.max_fragment_dual_src_attachments;
            if features.dual_src_blend != TRUE || parts.head.colors > most {
                return Err("a pipeline that blends two colours, on a device that does not");
            }
        }
        let all = of_any(bounds, of.format);
        if of.format != 0
            && (!all.contains(FormatFeatureFlags::COLOR_ATTACHMENT)
                || (of.is_on != 0 && !all.contains(FormatFeatureFlags::COLOR_ATTACHMENT_BLEND)))
        {
            return Err("an attachment of a format that the device does not draw into, or blend");
        }
    }
    let how = |of: &Blend| (of.is_on, of.color, of.alpha, of.write_mask);
    if features.independent_blend != TRUE
        && !parts.colors.windows(2).all(|pair| how(&pair[0]) == how(&pair[1]))
    {
        return Err("a pipeline that blends in different ways, on a device that does not");
    }
    Ok(())
}

fn check_blend(of: &Blend) -> Result<(), &'static str> {
    check_booleans(&[of.is_on])?;
    let ([source, destination, how], [source_alpha, destination_alpha, how_alpha]) =
        (of.color, of.alpha);
    let factors = [source, destination, source_alpha, destination_alpha];
    if factors.iter().any(|factor| *factor >= BLEND_FACTORS)
        || [how, how_alpha].iter().any(|how| *how >= BLEND_OPERATIONS)
        || of.write_mask & !COMPONENTS != 0
        || of.reserved != 0
    {
        return Err("a pipeline that blends in an unknown way");
    }
    Ok(())
}

/// What the device does with images of a format, however they lie.
fn of_any(bounds: &Bounds, format: u32) -> FormatFeatureFlags {
    bounds.formats.of_images(format, Tiling::OPTIMAL)
        | bounds.formats.of_images(format, Tiling::LINEAR)
}

fn check_attachments(
    parts: &GraphicsPipelineParts<'_>,
    stages: ShaderStageFlags,
    bounds: &Bounds,
    device: &OfGraphics,
) -> Result<(), &'static str> {
    let state = &parts.head.state;
    let (depth, stencil) = (state.depth_format, state.stencil_format);
    for (format, aspect) in [(depth, ImageAspectFlags::DEPTH), (stencil, ImageAspectFlags::STENCIL)]
    {
        let is_right = aspects(format).contains(aspect)
            && of_any(bounds, format).contains(FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT);
        if format != 0 && !is_right {
            return Err("a depth or stencil of a format that the device does not take there");
        }
    }
    if depth != 0 && stencil != 0 && depth != stencil {
        return Err("a depth and a stencil of different formats");
    }
    let limits = &device.limits;
    let mut samples = limits.framebuffer_no_attachments_sample_counts;
    for (is_there, counts) in [
        (parts.colors.iter().any(|of| of.format != 0), limits.framebuffer_color_sample_counts),
        (depth != 0, limits.framebuffer_depth_sample_counts),
        (stencil != 0, limits.framebuffer_stencil_sample_counts),
    ] {
        if is_there {
            samples = counts;
        }
    }
    if !state.samples.is_power_of_two() || state.samples & !samples.as_raw() != 0 {
        return Err("a pipeline with a number of samples that the device does not take");
    }
    let views = u32::BITS - state.view_mask.leading_zeros();
    if views > device.most_views || (views > 0 && !device.view_stages.contains(stages)) {
        return Err("a pipeline of more views than the device takes, or with stages that see none");
    }
    Ok(())
}
