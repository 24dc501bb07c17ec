// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Records dynamic state.

use super::pipeline::{scissor, viewport};
use crate::vulkan::Recorder;
use ash::vk::{
    CompareOp, CullModeFlags, DynamicState, FrontFace, PrimitiveTopology, StencilFaceFlags,
    StencilOp,
};
use bellhop_protocol::vulkan::{Scissor, Viewport};
use zerocopy::FromBytes;
use zerocopy::IntoBytes;

/// Whether a number is that of a dynamic state that a pipeline can have here: of Vulkan 1.0 and 1.3, and that of lines.
pub fn is_state(number: u32) -> bool {
    matches!(
        DynamicState::from_raw(number as i32),
        DynamicState::VIEWPORT
            | DynamicState::SCISSOR
            | DynamicState::LINE_WIDTH
            | DynamicState::DEPTH_BIAS
            | DynamicState::BLEND_CONSTANTS
            | DynamicState::DEPTH_BOUNDS
            | DynamicState::STENCIL_COMPARE_MASK
            | DynamicState::STENCIL_WRITE_MASK
            | DynamicState::STENCIL_REFERENCE
            | DynamicState::CULL_MODE
            | DynamicState::FRONT_FACE
            | DynamicState::PRIMITIVE_TOPOLOGY
            | DynamicState::VIEWPORT_WITH_COUNT
            | DynamicState::SCISSOR_WITH_COUNT
            | DynamicState::VERTEX_INPUT_BINDING_STRIDE
            | DynamicState::DEPTH_TEST_ENABLE
            | DynamicState::DEPTH_WRITE_ENABLE
            | DynamicState::DEPTH_COMPARE_OP
            | DynamicState::DEPTH_BOUNDS_TEST_ENABLE
            | DynamicState::STENCIL_TEST_ENABLE
            | DynamicState::STENCIL_OP
            | DynamicState::RASTERIZER_DISCARD_ENABLE
            | DynamicState::DEPTH_BIAS_ENABLE
            | DynamicState::PRIMITIVE_RESTART_ENABLE
            | DynamicState::LINE_STIPPLE_EXT
    )
}

impl Recorder<'_> {
    /// Records a dynamic state of the bound pipeline: as many words as it has, with values that Vulkan and the device allow.
    /// Those of the stencil are those of the front, and then those of the back. Does nothing with other numbers of words.
    pub fn set_state(&self, state: u32, words: &[u32]) {
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        let number = |at: usize| f32::from_bits(words.get(at).copied().unwrap_or_default());
        let is_on = words.first().is_some_and(|word| *word != 0);
        let faces = [StencilFaceFlags::FRONT, StencilFaceFlags::BACK];
        // SAFETY: the command buffer is being recorded, and the values are allowed, as the caller says.
        unsafe {
            match (DynamicState::from_raw(state as i32), words) {
                (DynamicState::VIEWPORT, [_, ..]) => {
                    raw.cmd_set_viewport(commands, 0, &all(words, viewport));
                }
                (DynamicState::VIEWPORT_WITH_COUNT, _) => {
                    raw.cmd_set_viewport_with_count(commands, &all(words, viewport));
                }
                (DynamicState::SCISSOR, [_, ..]) => {
                    raw.cmd_set_scissor(commands, 0, &all(words, scissor));
                }
                (DynamicState::SCISSOR_WITH_COUNT, _) => {
                    raw.cmd_set_scissor_with_count(commands, &all(words, scissor));
                }
                (DynamicState::LINE_WIDTH, [_]) => raw.cmd_set_line_width(commands, number(0)),
                (DynamicState::DEPTH_BIAS, [..]) => {
                    raw.cmd_set_depth_bias(commands, number(0), number(1), number(2));
                }
                (DynamicState::BLEND_CONSTANTS, [..]) => {
                    let constants = [number(0), number(1), number(2), number(3)];
                    raw.cmd_set_blend_constants(commands, &constants);
                }
                (DynamicState::DEPTH_BOUNDS, [..]) => {
                    raw.cmd_set_depth_bounds(commands, number(0), number(1));
                }
                (DynamicState::STENCIL_COMPARE_MASK, [front, back]) => {
                    for (face, mask) in faces.into_iter().zip([front, back]) {
                        raw.cmd_set_stencil_compare_mask(commands, face, *mask);
                    }
                }
                (DynamicState::STENCIL_WRITE_MASK, [front, back]) => {
                    for (face, mask) in faces.into_iter().zip([front, back]) {
                        raw.cmd_set_stencil_write_mask(commands, face, *mask);
                    }
                }
                (DynamicState::STENCIL_REFERENCE, [front, back]) => {
                    for (face, reference) in faces.into_iter().zip([front, back]) {
                        raw.cmd_set_stencil_reference(commands, face, *reference);
                    }
                }
                (DynamicState::STENCIL_OP, _) => {
                    for (face, words) in faces.into_iter().zip(words.as_chunks().0) {
                        let [fail, pass, depth_fail, compare] = words.map(|word: u32| word as i32);
                        raw.cmd_set_stencil_op(
                            commands,
                            face,
                            StencilOp::from_raw(fail),
                            StencilOp::from_raw(pass),
                            StencilOp::from_raw(depth_fail),
                            CompareOp::from_raw(compare),
                        );
                    }
                }
                (DynamicState::CULL_MODE, [mode]) => {
                    raw.cmd_set_cull_mode(commands, CullModeFlags::from_raw(*mode));
                }
                (DynamicState::FRONT_FACE, [face]) => {
                    raw.cmd_set_front_face(commands, FrontFace::from_raw(*face as i32));
                }
                (DynamicState::PRIMITIVE_TOPOLOGY, [topology]) => {
                    let topology = PrimitiveTopology::from_raw(*topology as i32);
                    raw.cmd_set_primitive_topology(commands, topology);
                }
                (DynamicState::DEPTH_COMPARE_OP, [compare]) => {
                    raw.cmd_set_depth_compare_op(commands, CompareOp::from_raw(*compare as i32));
                }
                (DynamicState::DEPTH_TEST_ENABLE, _) => {
                    raw.cmd_set_depth_test_enable(commands, is_on);
                }
                (DynamicState::DEPTH_WRITE_ENABLE, _) => {
                    raw.cmd_set_depth_write_enable(commands, is_on);
                }
                (DynamicState::DEPTH_BOUNDS_TEST_ENABLE, _) => {
                    raw.cmd_set_depth_bounds_test_enable(commands, is_on);
                }
                (DynamicState::STENCIL_TEST_ENABLE, _) => {
                    raw.cmd_set_stencil_test_enable(commands, is_on);
                }
                (DynamicState::RASTERIZER_DISCARD_ENABLE, _) => {
                    raw.cmd_set_rasterizer_discard_enable(commands, is_on);
                }
                (DynamicState::DEPTH_BIAS_ENABLE, _) => {
                    raw.cmd_set_depth_bias_enable(commands, is_on);
                }
                (DynamicState::PRIMITIVE_RESTART_ENABLE, _) => {
                    raw.cmd_set_primitive_restart_enable(commands, is_on);
                }
                (DynamicState::LINE_STIPPLE_EXT, [factor, pattern]) => {
                    let set = self.device.lines.fp().cmd_set_line_stipple_ext;
                    set(commands, *factor, *pattern as u16);
                }
                _ => {}
            }
        }
    }
}

/// The structures that words are.
fn all<T: FromBytes, V>(words: &[u32], make: impl Fn(&T) -> V) -> Vec<V> {
    let each = words.chunks_exact(size_of::<T>() / size_of::<u32>());
    each.filter_map(|words| T::read_from_bytes(words.as_bytes()).ok()).map(|it| make(&it)).collect()
}

/// Checks at build time that structures of words are such.
const _: () = assert!(size_of::<Viewport>() == 24 && size_of::<Scissor>() == 16);
