// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! States that commands set: those of Vulkan 1.0, and those of Vulkan 1.3.

use super::super::Recorder;
use ash::vk;

// As in `recorder`: each call appends a command to a command buffer that is being recorded by this thread, and passes structures
// that live until it returns.
impl Recorder<'_> {
    /// Sets states by commands that take the command buffer.
    pub(crate) fn state(&self, set: State<'_>) -> &Self {
        let (device, raw) = (&self.gpu.raw, self.raw);
        // SAFETY: as above.
        unsafe {
            match set {
                State::Viewports(all) => device.cmd_set_viewport(raw, 0, all),
                State::Scissors(all) => device.cmd_set_scissor(raw, 0, all),
                State::LineWidth(width) => device.cmd_set_line_width(raw, width),
                State::Bias([constant, clamp, slope]) => {
                    device.cmd_set_depth_bias(raw, constant, clamp, slope);
                }
                State::BlendConstants(constants) => device.cmd_set_blend_constants(raw, &constants),
                State::DepthBounds([least, most]) => device.cmd_set_depth_bounds(raw, least, most),
                State::StencilCompareMask(faces, mask) => {
                    device.cmd_set_stencil_compare_mask(raw, faces, mask);
                }
                State::StencilWriteMask(faces, mask) => {
                    device.cmd_set_stencil_write_mask(raw, faces, mask);
                }
                State::StencilReference(faces, reference) => {
                    device.cmd_set_stencil_reference(raw, faces, reference);
                }
                State::Cull(faces) => device.cmd_set_cull_mode(raw, faces),
                State::Front(front) => device.cmd_set_front_face(raw, front),
                State::Topology(topology) => device.cmd_set_primitive_topology(raw, topology),
                State::ViewportsAndCount(all) => device.cmd_set_viewport_with_count(raw, all),
                State::ScissorsAndCount(all) => device.cmd_set_scissor_with_count(raw, all),
                State::DepthTest(on) => device.cmd_set_depth_test_enable(raw, on),
                State::DepthWrite(on) => device.cmd_set_depth_write_enable(raw, on),
                State::DepthCompare(compare) => device.cmd_set_depth_compare_op(raw, compare),
                State::DepthBoundsTest(on) => device.cmd_set_depth_bounds_test_enable(raw, on),
                State::StencilTest(on) => device.cmd_set_stencil_test_enable(raw, on),
                State::Stencil(faces, [fail, pass, depth_fail], compare) => {
                    device.cmd_set_stencil_op(raw, faces, fail, pass, depth_fail, compare);
                }
                State::Discard(on) => device.cmd_set_rasterizer_discard_enable(raw, on),
                State::BiasTest(on) => device.cmd_set_depth_bias_enable(raw, on),
                State::Restart(on) => device.cmd_set_primitive_restart_enable(raw, on),
            }
        }
        self
    }
}

/// A state.
#[derive(Clone, Copy)]
pub(crate) enum State<'a> {
    Viewports(&'a [vk::Viewport]),
    Scissors(&'a [vk::Rect2D]),
    LineWidth(f32),
    /// What is added, the most of it, and what is added for each step of a slope.
    Bias([f32; 3]),
    BlendConstants([f32; 4]),
    DepthBounds([f32; 2]),
    StencilCompareMask(vk::StencilFaceFlags, u32),
    StencilWriteMask(vk::StencilFaceFlags, u32),
    StencilReference(vk::StencilFaceFlags, u32),
    Cull(vk::CullModeFlags),
    Front(vk::FrontFace),
    Topology(vk::PrimitiveTopology),
    ViewportsAndCount(&'a [vk::Viewport]),
    ScissorsAndCount(&'a [vk::Rect2D]),
    DepthTest(bool),
    DepthWrite(bool),
    DepthCompare(vk::CompareOp),
    DepthBoundsTest(bool),
    StencilTest(bool),
    /// What is done where the stencil test fails, where all pass, and where the depth test fails.
    Stencil(vk::StencilFaceFlags, [vk::StencilOp; 3], vk::CompareOp),
    Discard(bool),
    BiasTest(bool),
    Restart(bool),
}
