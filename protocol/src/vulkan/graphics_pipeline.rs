// SPDX-License-Identifier: MIT OR Apache-2.0

//! Graphics pipelines, as they lie in a process's memory. Numbers, bits and booleans of 32 bits are Vulkan's, and so are the
//! names of fields that are not explained (`VkGraphicsPipelineCreateInfo`).

use super::pipeline::{check_bindings, check_stage, part};
use super::{
    Binding, MAX_BINDINGS, MAX_COLORS, MAX_ENTRY_POINT, MAX_PIPELINE, MAX_PUSH_CONSTANTS, MAX_SETS,
    MAX_STAGES, MAX_STATES, MAX_VERTEX_BINDINGS, MAX_VIEWPORTS, SpecialisationEntry,
};
use alloc::vec::Vec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A stage of a graphics pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Stage {
    /// `VkShaderStageFlagBits`: one bit, which no other stage of the pipeline has.
    pub stage: u32,
    /// Vulkan's flags of the shader stage.
    pub flags: u32,
    /// The size that subgroups must have, or 0 for any.
    pub subgroup_size: u32,
    /// Number of specialisation entries, at most [`MAX_BINDINGS`].
    pub constants: u32,
    /// Bytes of their values.
    pub values: u32,
    /// Bytes of the entry point's name, 1 to [`MAX_ENTRY_POINT`].
    pub entry_point: u32,
    /// Bytes of SPIR-V, a multiple of 4.
    pub spirv: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    Stage, 32,
    stage at 0, flags at 4, subgroup_size at 8, constants at 12, values at 16, entry_point at 20, spirv at 24,
    reserved at 28,
);

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
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(VertexBinding, 16, binding at 0, stride at 4, rate at 8, reserved at 12);

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
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    GraphicsState, 208,
    topology at 0, restarts at 4, patch_points at 8, domain_origin at 12, clamps_depth at 16, discards at 20,
    polygon_mode at 24, cull_mode at 28, front_face at 32, biases_depth at 36, depth_bias at 40, line_width at 52,
    samples at 56, shades_samples at 60, least_shading at 64, sample_mask at 68, alpha_covers at 76,
    alpha_is_one at 80, tests_depth at 84, writes_depth at 88, depth_compare at 92, tests_bounds at 96,
    depth_bounds at 100, tests_stencil at 108, front at 112, back at 140, has_logic at 168, logic at 172,
    blend_constants at 176, view_mask at 192, depth_format at 196, stencil_format at 200, reserved at 204,
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

/// How the description of a graphics pipeline begins. Behind it, each padded to 8 bytes: [`Binding`]s, in the order of sets and
/// bindings; [`VertexBinding`]s; [`VertexAttribute`]s; [`Blend`]s, one for each attachment of colour; the numbers of dynamic
/// states; [`Viewport`]s; [`Scissor`]s; [`Stage`]s; and then for each stage [`SpecialisationEntry`]s, their values, the name of
/// the entry point, and SPIR-V.
#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct GraphicsPipelineHead {
    /// Tells it from all other pipelines that were or will be in the process. Not 0.
    pub serial: u64,
    /// Bytes of everything, at most [`MAX_PIPELINE`].
    pub length: u32,
    /// Number of sets of the layout, at most [`MAX_SETS`].
    pub sets: u32,
    /// Number of bindings, at most [`MAX_BINDINGS`].
    pub bindings: u32,
    /// Bytes of push constants: a multiple of 4, at most [`MAX_PUSH_CONSTANTS`].
    pub push_constants: u32,
    /// Number of stages, at most [`MAX_STAGES`].
    pub stages: u32,
    /// Number of vertex bindings, at most [`MAX_VERTEX_BINDINGS`].
    pub vertex_bindings: u32,
    /// Number of vertex attributes, at most [`MAX_VERTEX_BINDINGS`].
    pub vertex_attributes: u32,
    /// Number of attachments of colour, at most [`MAX_COLORS`].
    pub colors: u32,
    /// Number of dynamic states, at most [`MAX_STATES`].
    pub states: u32,
    /// Number of viewports, at most [`MAX_VIEWPORTS`]; 0 if the number is dynamic.
    pub viewports: u32,
    /// Number of scissors, at most [`MAX_VIEWPORTS`]; 0 if the number is dynamic.
    pub scissors: u32,
    /// Zero.
    pub reserved: u32,
    /// The rest of its state.
    pub state: GraphicsState,
}
crate::assert_layout!(
    GraphicsPipelineHead, 264,
    serial at 0, length at 8, sets at 12, bindings at 16, push_constants at 20, stages at 24, vertex_bindings at 28,
    vertex_attributes at 32, colors at 36, states at 40, viewports at 44, scissors at 48, reserved at 52, state at 56,
);

/// A stage's parts, whose numbers have been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageParts<'p> {
    /// How it is described.
    pub stage: Stage,
    /// The specialisation constants: each is inside [`Self::values`].
    pub constants: &'p [SpecialisationEntry],
    /// Their values.
    pub values: &'p [u8],
    /// The entry point's name.
    pub entry_point: &'p [u8],
    /// The module.
    pub spirv: &'p [u8],
}

/// A graphics pipeline's description in parts, whose numbers have been checked.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphicsPipelineParts<'p> {
    /// How it begins.
    pub head: GraphicsPipelineHead,
    /// The layout.
    pub bindings: &'p [Binding],
    /// What vertices are.
    pub vertex_bindings: &'p [VertexBinding],
    /// What they have.
    pub vertex_attributes: &'p [VertexAttribute],
    /// The attachments of colour.
    pub colors: &'p [Blend],
    /// The numbers of dynamic states (`VkDynamicState`).
    pub states: &'p [u32],
    /// The viewports. They do not count where they are dynamic.
    pub viewports: &'p [Viewport],
    /// The scissors. They do not count where they are dynamic.
    pub scissors: &'p [Scissor],
    /// The stages.
    pub stages: Vec<StageParts<'p>>,
}

impl<'p> GraphicsPipelineParts<'p> {
    /// Divides a description, which must lie at a multiple of 8. Returns what is wrong with one that is none. What Vulkan
    /// allows of its state is not checked.
    ///
    /// `bytes` must be the reader's own copy, not memory that the guest can still write.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn read(bytes: &'p [u8]) -> Result<Self, &'static str> {
        let (head, mut rest) = GraphicsPipelineHead::read_from_prefix(bytes)
            .map_err(|_| "a pipeline that ends early")?;
        check_head(&head, bytes.len())?;
        let rest = &mut rest;
        let mut parts = Self {
            head,
            bindings: array(rest, head.bindings)?,
            vertex_bindings: array(rest, head.vertex_bindings)?,
            vertex_attributes: array(rest, head.vertex_attributes)?,
            colors: array(rest, head.colors)?,
            states: array(rest, head.states)?,
            viewports: array(rest, head.viewports)?,
            scissors: array(rest, head.scissors)?,
            stages: Vec::new(),
        };
        check_bindings(parts.bindings, head.sets)?;
        let stages: &[Stage] = array(rest, head.stages)?;
        let mut seen = 0;
        for stage in stages {
            if !stage.stage.is_power_of_two() || seen & stage.stage != 0 {
                return Err("a stage that is none, or is there twice");
            }
            seen |= stage.stage;
            parts.stages.push(read_stage(rest, stage)?);
        }
        if !rest.is_empty() {
            return Err("a pipeline with bytes at its end");
        }
        Ok(parts)
    }
}

fn check_head(head: &GraphicsPipelineHead, length: usize) -> Result<(), &'static str> {
    if head.serial == 0 {
        return Err("a pipeline without a serial number");
    }
    if head.length as usize != length || head.length > MAX_PIPELINE {
        return Err("a pipeline of another length");
    }
    if head.sets > MAX_SETS || head.bindings > MAX_BINDINGS {
        return Err("a pipeline with too many sets or bindings");
    }
    if head.push_constants > MAX_PUSH_CONSTANTS || !head.push_constants.is_multiple_of(4) {
        return Err("a pipeline with impossible push constants");
    }
    if head.stages == 0 || head.stages > MAX_STAGES {
        return Err("a pipeline of no stages, or too many");
    }
    if head.vertex_bindings > MAX_VERTEX_BINDINGS || head.vertex_attributes > MAX_VERTEX_BINDINGS {
        return Err("a pipeline with too many vertex bindings or attributes");
    }
    if head.colors > MAX_COLORS || head.states > MAX_STATES {
        return Err("a pipeline with too many attachments or dynamic states");
    }
    if head.viewports > MAX_VIEWPORTS || head.scissors > MAX_VIEWPORTS {
        return Err("a pipeline with too many viewports or scissors");
    }
    if head.reserved != 0 || head.state.reserved != 0 {
        return Err("a pipeline with a reserved field that is not 0");
    }
    Ok(())
}

fn read_stage<'p>(rest: &mut &'p [u8], stage: &Stage) -> Result<StageParts<'p>, &'static str> {
    if stage.constants > MAX_BINDINGS {
        return Err("a stage with too many constants");
    }
    if stage.entry_point == 0 || stage.entry_point > MAX_ENTRY_POINT {
        return Err("a stage whose entry point has no name, or a long one");
    }
    if stage.spirv < 20 || !stage.spirv.is_multiple_of(4) {
        return Err("a stage without SPIR-V");
    }
    if stage.reserved != 0 {
        return Err("a stage with a reserved field that is not 0");
    }
    let constants: &[SpecialisationEntry] = array(rest, stage.constants)?;
    let values = part(rest, stage.values as usize)?;
    let entry_point = part(rest, stage.entry_point as usize)?;
    check_stage(constants, values, entry_point)?;
    let spirv = part(rest, stage.spirv as usize)?;
    Ok(StageParts { stage: *stage, constants, values, entry_point, spirv })
}

/// Takes so many structures, and their padding.
fn array<'p, T: FromBytes + KnownLayout + Immutable>(
    rest: &mut &'p [u8],
    count: u32,
) -> Result<&'p [T], &'static str> {
    let bytes = part(rest, count as usize * size_of::<T>())?;
    <[T]>::ref_from_bytes(bytes).map_err(|_| "a pipeline that is not aligned")
}
