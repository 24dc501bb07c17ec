// SPDX-License-Identifier: MIT OR Apache-2.0

//! Graphics pipelines: what Vulkan and a device allow of how they draw. What is dynamic does not count.

use super::states::{
    COMPARISONS, CULL_MODES, STENCIL_OPERATIONS, check_for, check_words, fits_count, is_stipple,
};
use crate::vulkan::OfGraphics;
use ash::vk::{Bool32, DynamicState, FALSE, PolygonMode, TRUE};
use bellhop_protocol::vulkan::{GraphicsPipelineParts, GraphicsState, StencilFace};
use zerocopy::IntoBytes;

/// `VkPolygonMode`s and `VkLogicOp`s of Vulkan 1.0 are less.
const POLYGON_MODES: u32 = 3;
const LOGIC_OPERATIONS: u32 = 16;
/// As an extension does not say, off, and on.
const DEPTH_CLIPS: u32 = 3;
/// `VkLineRasterizationModeEXT`s are less, and the last begins a list of features, as its stipples do.
const LINE_MODES: u32 = 4;

/// Checks the state of a pipeline that is not about its stages, vertices and attachments.
///
/// # Errors
/// The first rule that it breaks.
pub fn check(parts: &GraphicsPipelineParts<'_>, device: &OfGraphics) -> Result<(), &'static str> {
    check_numbers(parts)?;
    check_features(&parts.head.state, device)?;
    check_lines(parts, device)?;
    check_viewports(parts, device)?;
    let state = &parts.head.state;
    let [least, most] = state.depth_bounds.map(f32::to_bits);
    for (number, words) in [
        (DynamicState::LINE_WIDTH, &[state.line_width.to_bits()][..]),
        (DynamicState::DEPTH_BIAS, &state.depth_bias.map(f32::to_bits)),
        (DynamicState::DEPTH_BOUNDS, &[least, most]),
        (DynamicState::DEPTH_BOUNDS_TEST_ENABLE, &[state.tests_bounds]),
    ] {
        check_static(parts, number, words, device)?;
    }
    Ok(())
}

/// Whether a state is dynamic.
pub fn has(parts: &GraphicsPipelineParts<'_>, state: DynamicState) -> bool {
    parts.states.contains(&(state.as_raw() as u32))
}

/// Checks that numbers are booleans.
pub fn check_booleans(numbers: &[u32]) -> Result<(), &'static str> {
    if numbers.iter().all(|number| *number <= 1) {
        Ok(())
    } else {
        Err("a pipeline with a number that is neither yes nor no")
    }
}

/// Checks a state that is not dynamic, as if it were.
fn check_static(
    parts: &GraphicsPipelineParts<'_>,
    state: DynamicState,
    words: &[u32],
    device: &OfGraphics,
) -> Result<(), &'static str> {
    if has(parts, state) {
        return Ok(());
    }
    let number = state.as_raw() as u32;
    check_words(number, words)?;
    check_for(number, words, device)
}

fn check_numbers(parts: &GraphicsPipelineParts<'_>) -> Result<(), &'static str> {
    let state = &parts.head.state;
    check_booleans(&[
        state.clamps_depth,
        state.shades_samples,
        state.alpha_covers,
        state.alpha_is_one,
        state.has_logic,
        state.depth_from_minus_one,
        state.provoking_vertex,
        state.stipples_lines,
    ])?;
    for (number, is_on) in [
        (DynamicState::RASTERIZER_DISCARD_ENABLE, state.discards),
        (DynamicState::FRONT_FACE, state.front_face),
        (DynamicState::DEPTH_BIAS_ENABLE, state.biases_depth),
        (DynamicState::DEPTH_TEST_ENABLE, state.tests_depth),
        (DynamicState::DEPTH_WRITE_ENABLE, state.writes_depth),
        (DynamicState::STENCIL_TEST_ENABLE, state.tests_stencil),
    ] {
        if !has(parts, number) {
            check_booleans(&[is_on])?;
        }
    }
    let is_operation = |of: &StencilFace| {
        [of.fail, of.pass, of.depth_fail].iter().all(|it| *it < STENCIL_OPERATIONS)
            && of.compare < COMPARISONS
    };
    let knows = |number, is_known| has(parts, number) || is_known;
    if !knows(DynamicState::CULL_MODE, state.cull_mode < CULL_MODES)
        || !knows(DynamicState::DEPTH_COMPARE_OP, state.depth_compare < COMPARISONS)
        || !knows(DynamicState::STENCIL_OP, [state.front, state.back].iter().all(is_operation))
        || state.polygon_mode >= POLYGON_MODES
        || state.logic >= LOGIC_OPERATIONS
        || state.depth_clip >= DEPTH_CLIPS
    {
        return Err("a pipeline with an unknown number");
    }
    if !(0.0..=1.0).contains(&state.least_shading) {
        return Err("a pipeline that shades an impossible part of samples");
    }
    Ok(())
}

fn check_features(state: &GraphicsState, device: &OfGraphics) -> Result<(), &'static str> {
    let features = &device.features;
    let is_filled = state.polygon_mode == PolygonMode::FILL.as_raw() as u32;
    let lacks = |is_used: bool, feature: Bool32| is_used && feature != TRUE;
    if lacks(state.clamps_depth != 0, features.depth_clamp)
        || lacks(!is_filled, features.fill_mode_non_solid)
        || lacks(state.shades_samples != 0, features.sample_rate_shading)
        || lacks(state.alpha_is_one != 0, features.alpha_to_one)
        || lacks(state.has_logic != 0, features.logic_op)
        || lacks(state.depth_clip != 0, device.extensions.depth_clip_enable)
        || lacks(state.depth_from_minus_one != 0, device.extensions.depth_clip_control)
        || lacks(state.provoking_vertex != 0, device.extensions.provoking_vertex[0])
    {
        return Err("a pipeline that draws as the device does not");
    }
    Ok(())
}

/// Checks how lines are drawn, and of which stream.
fn check_lines(parts: &GraphicsPipelineParts<'_>, device: &OfGraphics) -> Result<(), &'static str> {
    let state = &parts.head.state;
    let [rectangular, bresenham, smooth, stipples @ ..] = device.extensions.line_rasterization;
    // By the mode, of which the first is what the device does without the extension.
    let modes = [TRUE, rectangular, bresenham, smooth];
    let stipples = [stipples[0], stipples[0], stipples[1], stipples[2]];
    let is_there = |list: [Bool32; LINE_MODES as usize]| {
        list.get(state.line_mode as usize).is_some_and(|is_there| *is_there == TRUE)
    };
    let has_stipple = has(parts, DynamicState::LINE_STIPPLE_EXT) || is_stipple(state.line_stipple);
    if !is_there(modes) || (state.stipples_lines != 0 && !(is_there(stipples) && has_stipple)) {
        return Err("a pipeline that draws lines as the device does not");
    }
    let streams = device.transform.filter(|of| of.selects_stream).map_or(1, |of| of.streams);
    if state.stream >= streams {
        return Err("a pipeline that draws a stream that there is not");
    }
    Ok(())
}

fn check_viewports(
    parts: &GraphicsPipelineParts<'_>,
    device: &OfGraphics,
) -> Result<(), &'static str> {
    // Nothing is drawn into viewports.
    let discards =
        parts.head.state.discards != FALSE && !has(parts, DynamicState::RASTERIZER_DISCARD_ENABLE);
    let (viewports, scissors) = (parts.head.viewports, parts.head.scissors);
    let several = [
        (viewports, DynamicState::VIEWPORT, DynamicState::VIEWPORT_WITH_COUNT),
        (scissors, DynamicState::SCISSOR, DynamicState::SCISSOR_WITH_COUNT),
    ];
    for (count, _, with_count) in several {
        let is_right = match has(parts, with_count) {
            true => count == 0,
            false => (count > 0 || discards) && fits_count(count as usize, device),
        };
        if !is_right {
            return Err("a pipeline with an impossible number of viewports or scissors");
        }
    }
    let is_any = has(parts, DynamicState::VIEWPORT_WITH_COUNT)
        || has(parts, DynamicState::SCISSOR_WITH_COUNT);
    if !is_any && viewports != scissors {
        return Err("a pipeline with another number of viewports than of scissors");
    }
    if viewports > 0 {
        let words: Vec<u32> = words(parts.viewports.as_bytes());
        check_static(parts, DynamicState::VIEWPORT, &words, device)?;
    }
    if scissors > 0 {
        let words: Vec<u32> = words(parts.scissors.as_bytes());
        check_static(parts, DynamicState::SCISSOR, &words, device)?;
    }
    Ok(())
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}
