// SPDX-License-Identifier: MIT OR Apache-2.0

//! What graphics pipelines demand of draws.

use ash::vk::DynamicState;
use bellhop_protocol::vulkan::{GraphicsPipelineParts, VertexBinding};

/// What a pipeline demands of draws.
#[derive(Debug, Clone)]
pub struct Draws {
    /// Its vertex bindings.
    pub vertices: Vec<VertexBinding>,
    /// The formats of the attachments of colour, 0 for none.
    pub colors: Vec<u32>,
    /// The format of the attachment of depth, 0 for none.
    pub depth: u32,
    /// The format of the attachment of stencil, 0 for none.
    pub stencil: u32,
    /// The attachments' samples.
    pub samples: u32,
    /// The views that are drawn.
    pub view_mask: u32,
    /// The topology, or one of its class.
    pub topology: u32,
    /// Vertices of a patch, if that is the topology.
    pub patch_points: u32,
    /// Its dynamic states.
    pub states: Vec<u32>,
    /// Number of viewports, 0 if that is dynamic.
    pub viewports: u32,
    /// Number of scissors, 0 if that is dynamic.
    pub scissors: u32,
}

impl Draws {
    /// What a pipeline of a description demands, which has been checked.
    pub fn new(parts: &GraphicsPipelineParts<'_>) -> Self {
        let state = &parts.head.state;
        Self {
            vertices: parts.vertex_bindings.to_vec(),
            colors: parts.colors.iter().map(|color| color.format).collect(),
            depth: state.depth_format,
            stencil: state.stencil_format,
            samples: state.samples,
            view_mask: state.view_mask,
            topology: state.topology,
            patch_points: state.patch_points,
            states: parts.states.to_vec(),
            viewports: parts.head.viewports,
            scissors: parts.head.scissors,
        }
    }

    /// Whether the strides of vertices are dynamic.
    pub fn has_strides(&self) -> bool {
        self.has(DynamicState::VERTEX_INPUT_BINDING_STRIDE)
    }

    /// Whether a state is dynamic.
    pub fn has(&self, state: DynamicState) -> bool {
        self.states.contains(&(state.as_raw() as u32))
    }
}
