// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands that set dynamic state.

use super::super::buffer::CommandBuffer;
use super::super::drawn::{Faced, List, Single, States, stale};
use crate::raw;
use ash::vk;

/// The states of a call that sets some.
///
/// # Safety
/// As [`CommandBuffer::record`].
unsafe fn states<'a>(buffer: vk::CommandBuffer) -> &'a mut States {
    // SAFETY: as the caller says.
    let recording = unsafe { CommandBuffer::record(buffer) };
    recording.stale |= stale::STATES;
    &mut recording.drawing().states
}

/// Functions that set one state, of numbers.
macro_rules! single {
    ($($name:ident $state:ident ($($parameter:ident: $type:ty),*) [$($word:expr),*];)*) => { $(
        unsafe extern "system" fn $name(buffer: vk::CommandBuffer, $($parameter: $type),*) {
            // SAFETY: the call is the only one with this handle.
            unsafe { states(buffer) }.set(Single::$state, &[$($word),*]);
        }
    )* };
}

single! {
    line_width LineWidth (width: f32) [width.to_bits()];
    depth_bias DepthBias (constant: f32, clamp: f32, slope: f32)
        [constant.to_bits(), clamp.to_bits(), slope.to_bits()];
    depth_bounds DepthBounds (least: f32, most: f32) [least.to_bits(), most.to_bits()];
    cull_mode CullMode (mode: vk::CullModeFlags) [mode.as_raw()];
    front_face FrontFace (face: vk::FrontFace) [face.as_raw() as u32];
    topology Topology (topology: vk::PrimitiveTopology) [topology.as_raw() as u32];
    depth_test DepthTest (is_on: vk::Bool32) [is_on];
    depth_write DepthWrite (is_on: vk::Bool32) [is_on];
    depth_compare DepthCompare (compare: vk::CompareOp) [compare.as_raw() as u32];
    depth_bounds_test DepthBoundsTest (is_on: vk::Bool32) [is_on];
    stencil_test StencilTest (is_on: vk::Bool32) [is_on];
    discard Discard (is_on: vk::Bool32) [is_on];
    depth_bias_enable DepthBiasEnable (is_on: vk::Bool32) [is_on];
    restart Restart (is_on: vk::Bool32) [is_on];
    line_stipple LineStipple (factor: u32, pattern: u16) [factor, pattern.into()];
}

unsafe extern "system" fn blend_constants(buffer: vk::CommandBuffer, constants: *const [f32; 4]) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let words = (*constants).map(f32::to_bits);
        states(buffer).set(Single::BlendConstants, &words);
    }
}

/// Functions that set a number of faces of the stencil.
macro_rules! faced {
    ($($name:ident $state:ident;)*) => { $(
        unsafe extern "system" fn $name(
            buffer: vk::CommandBuffer,
            faces: vk::StencilFaceFlags,
            value: u32,
        ) {
            // SAFETY: the call is the only one with this handle.
            unsafe { states(buffer) }.set_faces(Faced::$state, faces, [value]);
        }
    )* };
}

faced! {
    compare_mask CompareMask;
    write_mask WriteMask;
    reference Reference;
}

unsafe extern "system" fn stencil_op(
    buffer: vk::CommandBuffer,
    faces: vk::StencilFaceFlags,
    fail: vk::StencilOp,
    pass: vk::StencilOp,
    depth_fail: vk::StencilOp,
    compare: vk::CompareOp,
) {
    let [fail, pass, depth_fail] = [fail, pass, depth_fail].map(|op| op.as_raw() as u32);
    let words = [fail, pass, depth_fail, compare.as_raw() as u32];
    // SAFETY: the call is the only one with this handle.
    unsafe { states(buffer) }.set_faces(Faced::Op, faces, words);
}

/// The words of a viewport.
fn viewport(of: &vk::Viewport) -> [u32; 6] {
    [of.x, of.y, of.width, of.height, of.min_depth, of.max_depth].map(f32::to_bits)
}

/// The words of a scissor.
const fn scissor(of: &vk::Rect2D) -> [u32; 4] {
    let vk::Rect2D { offset, extent } = *of;
    [offset.x as u32, offset.y as u32, extent.width, extent.height]
}

unsafe extern "system" fn viewports(
    buffer: vk::CommandBuffer,
    first: u32,
    count: u32,
    entries: *const vk::Viewport,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let entries = raw::slice(entries, count).iter().map(viewport);
        states(buffer).set_list(List::Viewports, first, entries);
    }
}

unsafe extern "system" fn scissors(
    buffer: vk::CommandBuffer,
    first: u32,
    count: u32,
    entries: *const vk::Rect2D,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let entries = raw::slice(entries, count).iter().map(scissor);
        states(buffer).set_list(List::Scissors, first, entries);
    }
}

unsafe extern "system" fn viewports_with_count(
    buffer: vk::CommandBuffer,
    count: u32,
    entries: *const vk::Viewport,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let entries = raw::slice(entries, count).iter().map(viewport);
        states(buffer).set_list(List::ViewportsWithCount, 0, entries);
    }
}

unsafe extern "system" fn scissors_with_count(
    buffer: vk::CommandBuffer,
    count: u32,
    entries: *const vk::Rect2D,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let entries = raw::slice(entries, count).iter().map(scissor);
        states(buffer).set_list(List::ScissorsWithCount, 0, entries);
    }
}

crate::entry::entry_points! {
    vkCmdSetViewport = viewports,
    vkCmdSetScissor = scissors,
    vkCmdSetLineWidth = line_width,
    vkCmdSetDepthBias = depth_bias,
    vkCmdSetBlendConstants = blend_constants,
    vkCmdSetDepthBounds = depth_bounds,
    vkCmdSetStencilCompareMask = compare_mask,
    vkCmdSetStencilWriteMask = write_mask,
    vkCmdSetStencilReference = reference,
    vkCmdSetCullMode = cull_mode,
    vkCmdSetCullModeEXT = cull_mode,
    vkCmdSetFrontFace = front_face,
    vkCmdSetFrontFaceEXT = front_face,
    vkCmdSetPrimitiveTopology = topology,
    vkCmdSetPrimitiveTopologyEXT = topology,
    vkCmdSetViewportWithCount = viewports_with_count,
    vkCmdSetViewportWithCountEXT = viewports_with_count,
    vkCmdSetScissorWithCount = scissors_with_count,
    vkCmdSetScissorWithCountEXT = scissors_with_count,
    vkCmdSetDepthTestEnable = depth_test,
    vkCmdSetDepthTestEnableEXT = depth_test,
    vkCmdSetDepthWriteEnable = depth_write,
    vkCmdSetDepthWriteEnableEXT = depth_write,
    vkCmdSetDepthCompareOp = depth_compare,
    vkCmdSetDepthCompareOpEXT = depth_compare,
    vkCmdSetDepthBoundsTestEnable = depth_bounds_test,
    vkCmdSetDepthBoundsTestEnableEXT = depth_bounds_test,
    vkCmdSetStencilTestEnable = stencil_test,
    vkCmdSetStencilTestEnableEXT = stencil_test,
    vkCmdSetStencilOp = stencil_op,
    vkCmdSetStencilOpEXT = stencil_op,
    vkCmdSetRasterizerDiscardEnable = discard,
    vkCmdSetRasterizerDiscardEnableEXT = discard,
    vkCmdSetDepthBiasEnable = depth_bias_enable,
    vkCmdSetDepthBiasEnableEXT = depth_bias_enable,
    vkCmdSetLineStippleEXT = line_stipple,
    vkCmdSetLineStippleKHR = line_stipple,
    vkCmdSetPrimitiveRestartEnable = restart,
    vkCmdSetPrimitiveRestartEnableEXT = restart,
}
