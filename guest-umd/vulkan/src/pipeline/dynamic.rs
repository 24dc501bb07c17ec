// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which states of a graphics pipeline are dynamic.

use ash::vk::DynamicState as State;
use bellhop_protocol::vulkan::MAX_STATES;

/// The states that there are: those of Vulkan 1.0 and 1.3, and that of lines.
const ALL: [State; 25] = [
    State::VIEWPORT,
    State::SCISSOR,
    State::LINE_WIDTH,
    State::DEPTH_BIAS,
    State::BLEND_CONSTANTS,
    State::DEPTH_BOUNDS,
    State::STENCIL_COMPARE_MASK,
    State::STENCIL_WRITE_MASK,
    State::STENCIL_REFERENCE,
    State::CULL_MODE,
    State::FRONT_FACE,
    State::PRIMITIVE_TOPOLOGY,
    State::VIEWPORT_WITH_COUNT,
    State::SCISSOR_WITH_COUNT,
    State::VERTEX_INPUT_BINDING_STRIDE,
    State::DEPTH_TEST_ENABLE,
    State::DEPTH_WRITE_ENABLE,
    State::DEPTH_COMPARE_OP,
    State::DEPTH_BOUNDS_TEST_ENABLE,
    State::STENCIL_TEST_ENABLE,
    State::STENCIL_OP,
    State::RASTERIZER_DISCARD_ENABLE,
    State::DEPTH_BIAS_ENABLE,
    State::PRIMITIVE_RESTART_ENABLE,
    State::LINE_STIPPLE_EXT,
];
const _: () = assert!(ALL.len() <= MAX_STATES as usize);

/// The dynamic states of a pipeline, each once.
#[derive(Default)]
pub(super) struct Dynamic(Vec<State>);

impl Dynamic {
    /// Those of these that there are.
    pub(super) fn of(asked: &[State]) -> Self {
        Self(ALL.into_iter().filter(|state| asked.contains(state)).collect())
    }

    /// Whether a state is dynamic.
    pub(super) fn has(&self, state: State) -> bool {
        self.0.contains(&state)
    }

    /// Their numbers.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.0.iter().map(|state| state.as_raw() as u32).collect()
    }
}
