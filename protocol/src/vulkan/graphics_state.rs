// SPDX-License-Identifier: MIT OR Apache-2.0

//! The state of graphics pipelines that is not about their shaders, as it lies in a process's memory. Numbers, bits and booleans of 32
//! bits are Vulkan's, and so are the names of fields that are not explained (`VkGraphicsPipelineCreateInfo`).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What vertices of a binding are (`VkVertexInputBindingDescription`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct VertexBinding {
    /// Its number.
    pub binding: u32,
    /// Bytes from a vertex to the next.
    pub stride: u32,
    /// `VkVertexInputRate`.
    pub rate: u32,
    /// How many instances have the same numbers: 1 unless the rate is that of instances, 0 for all of them.
    pub divisor: u32,
}
crate::assert_layout!(VertexBinding, 16, binding at 0, stride at 4, rate at 8, divisor at 12);

/// A number of a vertex (`VkVertexInputAttributeDescription`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct VertexAttribute {
    /// The shader's number of it.
    pub location: u32,
    /// The binding that it is from.
    pub binding: u32,
    /// `VkFormat`.
    pub format: u32,
    /// Where in a vertex it begins.
    pub offset: u32,
}
crate::assert_layout!(
    VertexAttribute, 16, location at 0, binding at 4, format at 8, offset at 12,
);

/// How colours go into an attachment (`VkPipelineColorBlendAttachmentState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Blend {
    /// `VkFormat` of the attachment, 0 if there is none.
    pub format: u32,
    /// `blendEnable`.
    pub is_on: u32,
    /// `srcColorBlendFactor`, `dstColorBlendFactor`, `colorBlendOp`.
    pub color: [u32; 3],
    /// `srcAlphaBlendFactor`, `dstAlphaBlendFactor`, `alphaBlendOp`.
    pub alpha: [u32; 3],
    /// `colorWriteMask`.
    pub write_mask: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    Blend, 40, format at 0, is_on at 4, color at 8, alpha at 20, write_mask at 32, reserved at 36,
);

/// What the stencil does on a side (`VkStencilOpState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct StencilFace {
    /// `failOp`.
    pub fail: u32,
    /// `passOp`.
    pub pass: u32,
    /// `depthFailOp`.
    pub depth_fail: u32,
    /// `compareOp`.
    pub compare: u32,
    /// `compareMask`.
    pub compare_mask: u32,
    /// `writeMask`.
    pub write_mask: u32,
    /// `reference`.
    pub reference: u32,
}
crate::assert_layout!(
    StencilFace, 28,
    fail at 0, pass at 4, depth_fail at 8, compare at 12, compare_mask at 16, write_mask at 20, reference at 24,
);

/// The state of a graphics pipeline that is not about its shaders. What is dynamic is there, and does not count.
#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct GraphicsState {
    /// `topology`.
    pub topology: u32,
    /// `primitiveRestartEnable`.
    pub restarts: u32,
    /// `patchControlPoints`, 0 without tessellation.
    pub patch_points: u32,
    /// `VkTessellationDomainOrigin`.
    pub domain_origin: u32,
    /// `depthClampEnable`.
    pub clamps_depth: u32,
    /// `rasterizerDiscardEnable`.
    pub discards: u32,
    /// `polygonMode`.
    pub polygon_mode: u32,
    /// `cullMode`.
    pub cull_mode: u32,
    /// `frontFace`.
    pub front_face: u32,
    /// `depthBiasEnable`.
    pub biases_depth: u32,
    /// `depthBiasConstantFactor`, `depthBiasClamp`, `depthBiasSlopeFactor`.
    pub depth_bias: [f32; 3],
    /// `lineWidth`.
    pub line_width: f32,
    /// `rasterizationSamples`.
    pub samples: u32,
    /// `sampleShadingEnable`.
    pub shades_samples: u32,
    /// `minSampleShading`.
    pub least_shading: f32,
    /// The samples that are written, a bit for each.
    pub sample_mask: [u32; 2],
    /// `alphaToCoverageEnable`.
    pub alpha_covers: u32,
    /// `alphaToOneEnable`.
    pub alpha_is_one: u32,
    /// `depthTestEnable`.
    pub tests_depth: u32,
    /// `depthWriteEnable`.
    pub writes_depth: u32,
    /// `depthCompareOp`.
    pub depth_compare: u32,
    /// `depthBoundsTestEnable`.
    pub tests_bounds: u32,
    /// `minDepthBounds`, `maxDepthBounds`.
    pub depth_bounds: [f32; 2],
    /// `stencilTestEnable`.
    pub tests_stencil: u32,
    /// `front`.
    pub front: StencilFace,
    /// `back`.
    pub back: StencilFace,
    /// `logicOpEnable`.
    pub has_logic: u32,
    /// `logicOp`.
    pub logic: u32,
    /// `blendConstants`.
    pub blend_constants: [f32; 4],
    /// The views that are drawn, a bit for each, or 0.
    pub view_mask: u32,
    /// `VkFormat` of the attachment of depth, 0 if there is none.
    pub depth_format: u32,
    /// `VkFormat` of the attachment of stencil, 0 if there is none.
    pub stencil_format: u32,
    /// 0 if depths are clipped where they are not clamped; else 1 more than `depthClipEnable`.
    pub depth_clip: u32,
    /// `negativeOneToOne`.
    pub depth_from_minus_one: u32,
    /// `VkProvokingVertexModeEXT`.
    pub provoking_vertex: u32,
    /// `rasterizationStream`.
    pub stream: u32,
    /// `VkLineRasterizationModeEXT`.
    pub line_mode: u32,
    /// `stippledLineEnable`.
    pub stipples_lines: u32,
    /// `lineStippleFactor` and `lineStipplePattern`.
    pub line_stipple: [u32; 2],
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    GraphicsState, 240,
    topology at 0, restarts at 4, patch_points at 8, domain_origin at 12, clamps_depth at 16, discards at 20,
    polygon_mode at 24, cull_mode at 28, front_face at 32, biases_depth at 36, depth_bias at 40, line_width at 52,
    samples at 56, shades_samples at 60, least_shading at 64, sample_mask at 68, alpha_covers at 76,
    alpha_is_one at 80, tests_depth at 84, writes_depth at 88, depth_compare at 92, tests_bounds at 96,
    depth_bounds at 100, tests_stencil at 108, front at 112, back at 140, has_logic at 168, logic at 172,
    blend_constants at 176, view_mask at 192, depth_format at 196, stencil_format at 200,
    depth_clip at 204, depth_from_minus_one at 208, provoking_vertex at 212, stream at 216, line_mode at 220,
    stipples_lines at 224, line_stipple at 228, reserved at 236,
);

/// A viewport (`VkViewport`).
#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Viewport {
    /// `x`, `y`.
    pub offset: [f32; 2],
    /// `width`, `height`.
    pub extent: [f32; 2],
    /// `minDepth`, `maxDepth`.
    pub depths: [f32; 2],
}
crate::assert_layout!(Viewport, 24, offset at 0, extent at 8, depths at 16);

/// A scissor (`VkRect2D`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Scissor {
    /// `offset`.
    pub offset: [i32; 2],
    /// `extent`.
    pub extent: [u32; 2],
}
crate::assert_layout!(Scissor, 16, offset at 0, extent at 8);
