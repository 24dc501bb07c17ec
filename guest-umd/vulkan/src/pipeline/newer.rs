// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers")]

//! What extensions say of the state of a graphics pipeline.

use crate::raw;
use ash::vk;
use bellhop_protocol::vulkan::{GraphicsState, VertexBinding};

/// Adds how many instances have the same numbers.
///
/// # Safety
/// The structure is valid, as Vulkan demands it; so are those below.
pub(super) unsafe fn add_divisors(
    bindings: &mut [VertexBinding],
    information: &vk::GraphicsPipelineCreateInfo<'_>,
) {
    type Divisors<'a> = vk::PipelineVertexInputDivisorStateCreateInfoEXT<'a>;
    // SAFETY: a valid structure's pointers and chain are.
    let divisors = unsafe {
        let input = information.p_vertex_input_state.as_ref();
        let divisors = input.and_then(|input| raw::find::<Divisors<'_>>(input.p_next));
        divisors.map_or(&[][..], |of| {
            raw::slice(of.p_vertex_binding_divisors, of.vertex_binding_divisor_count)
        })
    };
    for of in divisors {
        let is_it = |binding: &&mut VertexBinding| binding.binding == of.binding;
        if let Some(binding) = bindings.iter_mut().find(is_it) {
            binding.divisor = of.divisor;
        }
    }
}

/// Adds where depths begin.
///
/// # Safety
/// As [`add_divisors`].
pub(super) unsafe fn add_depths(
    state: &mut GraphicsState,
    of: &vk::PipelineViewportStateCreateInfo<'_>,
) {
    type Control<'a> = vk::PipelineViewportDepthClipControlCreateInfoEXT<'a>;
    // SAFETY: a valid structure's chain is.
    let control = unsafe { raw::find::<Control<'_>>(of.p_next) };
    state.depth_from_minus_one = control.map_or(0, |of| of.negative_one_to_one);
}

/// Adds what is clipped, which vertex counts for flat values, which stream is drawn, and how lines are.
///
/// # Safety
/// As [`add_divisors`].
pub(super) unsafe fn add_rasterization(
    state: &mut GraphicsState,
    of: &vk::PipelineRasterizationStateCreateInfo<'_>,
) {
    type Clip<'a> = vk::PipelineRasterizationDepthClipStateCreateInfoEXT<'a>;
    type Provoking<'a> = vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT<'a>;
    type Stream<'a> = vk::PipelineRasterizationStateStreamCreateInfoEXT<'a>;
    type Lines<'a> = vk::PipelineRasterizationLineStateCreateInfoEXT<'a>;
    // SAFETY: a valid structure's chain is.
    let (clip, provoking, stream, lines) = unsafe {
        let next = of.p_next;
        (
            raw::find::<Clip<'_>>(next),
            raw::find::<Provoking<'_>>(next),
            raw::find::<Stream<'_>>(next),
            raw::find::<Lines<'_>>(next),
        )
    };
    state.depth_clip = clip.map_or(0, |of| of.depth_clip_enable + 1);
    state.provoking_vertex = provoking.map_or(0, |of| of.provoking_vertex_mode.as_raw() as u32);
    state.stream = stream.map_or(0, |of| of.rasterization_stream);
    let Some(lines) = lines else { return };
    state.line_mode = lines.line_rasterization_mode.as_raw() as u32;
    state.stipples_lines = lines.stippled_line_enable;
    if lines.stippled_line_enable != 0 {
        state.line_stipple = [lines.line_stipple_factor, lines.line_stipple_pattern.into()];
    }
}
