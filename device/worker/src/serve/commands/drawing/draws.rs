// SPDX-License-Identifier: MIT OR Apache-2.0

//! What draws must have: a pipeline for their rendering, and buffers for the pipeline.

use super::commands::size_of_index;
use super::current::Current;
use super::demands::Draws;
use super::renderings::Rendering;
use super::states::class_of;
use crate::vulkan::{Bounds, OfGraphics};
use ash::vk::{DynamicState, IndexType, TRUE};
use bellhop_protocol::vulkan::{Command, DrawIndexed, DrawIndirect, VertexBinding};

impl Draws {
    /// Checks that a rendering has what the pipeline draws into.
    fn check_rendering(&self, rendering: &Rendering) -> Result<(), &'static str> {
        if self.view_mask != rendering.begin.view_mask {
            return Err("a draw with a pipeline for other views than its rendering's");
        }
        if self.colors != rendering.colors
            || [self.depth, self.stencil] != [rendering.depth, rendering.stencil]
        {
            return Err("a draw with a pipeline for other attachments than its rendering's");
        }
        if rendering.samples.is_some_and(|samples| samples != self.samples) {
            return Err("a draw with a pipeline for another number of samples");
        }
        Ok(())
    }

    /// Checks that the current state has what the pipeline needs.
    fn check_current(&self, current: &Current<'_>, bounds: &Bounds) -> Result<(), &'static str> {
        let is_there = |binding: &VertexBinding| {
            bounds.null_descriptors || current.vertices_of(binding.binding).is_some()
        };
        if !self.vertices.iter().all(is_there) {
            return Err("a draw without a vertex buffer");
        }
        if self.has(DynamicState::VERTEX_INPUT_BINDING_STRIDE)
            && let Some(graphics) = &bounds.graphics
        {
            let most = graphics.limits.max_vertex_input_binding_stride;
            let buffers = self.vertices.iter().filter_map(|it| current.vertices_of(it.binding));
            if buffers.into_iter().any(|buffer| buffer.stride > most.into()) {
                return Err("vertices that are farther from each other than the device takes");
            }
        }
        if self.has(DynamicState::PRIMITIVE_TOPOLOGY)
            && class_of(current.topology(self)) != class_of(self.topology)
        {
            return Err("a draw with a topology of another class than its pipeline's");
        }
        let count = |with_count: DynamicState, own: u32| match self.has(with_count) {
            true => current.states.count(with_count.as_raw() as u32),
            false => own,
        };
        if count(DynamicState::VIEWPORT_WITH_COUNT, self.viewports)
            != count(DynamicState::SCISSOR_WITH_COUNT, self.scissors)
        {
            return Err("a draw with another number of viewports than of scissors");
        }
        Ok(())
    }
}

/// Checks a draw with a pipeline in a rendering. Commands of other kinds are none.
///
/// # Errors
/// What is wrong with it.
pub fn check_draw(
    command: &Command<'_>,
    current: &Current<'_>,
    draws: &Draws,
    rendering: &Rendering,
    bounds: &Bounds,
) -> Result<(), &'static str> {
    draws.check_rendering(rendering)?;
    draws.check_current(current, bounds)?;
    match command {
        Command::DrawIndexed(draw, _) => check_indexed(draw, current, bounds),
        Command::DrawIndirect(draw, _) => check_indirect(draw, current, graphics(bounds)?),
        Command::DrawByteCount(draw, _) => {
            let transform = graphics(bounds)?.transform.filter(|of| of.draws);
            match transform.is_some_and(|of| draw.stride <= of.stride) {
                true => Ok(()),
                false => Err("a draw of stored vertices that the device does not take"),
            }
        }
        _ => Ok(()),
    }
}

fn graphics(bounds: &Bounds) -> Result<&OfGraphics, &'static str> {
    bounds.graphics.as_deref().ok_or("a draw on a device that does not")
}

/// Checks that a device takes a `VkIndexType`.
fn check_index_type(kind: u32, device: &OfGraphics) -> Result<(), &'static str> {
    let is_small = kind == IndexType::UINT8_EXT.as_raw() as u32;
    if is_small && device.extensions.index_type_uint8 != TRUE {
        return Err("indices of 8 bits, on a device that has none");
    }
    Ok(())
}

fn check_indexed(
    draw: &DrawIndexed,
    current: &Current<'_>,
    bounds: &Bounds,
) -> Result<(), &'static str> {
    let buffer = current.indices.ok_or("a draw without an index buffer")?;
    check_index_type(buffer.header.argument, graphics(bounds)?)?;
    let size = size_of_index(buffer.header.argument).ok_or("indices of an unknown type")?;
    let end = u64::from(draw.first_index) + u64::from(draw.indices);
    if draw.indices > 0 && end * size > buffer.length {
        return Err("a draw of more indices than there are");
    }
    Ok(())
}

fn check_indirect(
    draw: &DrawIndirect,
    current: &Current<'_>,
    device: &OfGraphics,
) -> Result<(), &'static str> {
    if draw.header.argument == 1 {
        let buffer = current.indices.ok_or("a draw without an index buffer")?;
        check_index_type(buffer.header.argument, device)?;
    }
    let has_several = device.features.multi_draw_indirect == TRUE;
    if draw.most > if has_several { device.limits.max_draw_indirect_count } else { 1 } {
        return Err("more indirect draws than the device takes");
    }
    if draw.count != 0 && !device.has_draw_counts {
        return Err("a number of draws in memory, on a device that does not look there");
    }
    Ok(())
}
