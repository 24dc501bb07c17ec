// SPDX-License-Identifier: MIT OR Apache-2.0

//! Graphics pipelines, as they lie in a process's memory, and their parts.

use super::pipeline::{check_bindings, check_stage, part};
use super::{
    Binding, Blend, GraphicsState, MAX_BINDINGS, MAX_COLORS, MAX_ENTRY_POINT, MAX_PIPELINE,
    MAX_PUSH_CONSTANTS, MAX_SETS, MAX_STAGES, MAX_STATES, MAX_VERTEX_BINDINGS, MAX_VIEWPORTS,
    Scissor, SpecialisationEntry, VertexAttribute, VertexBinding, Viewport,
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
    GraphicsPipelineHead, 296,
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
