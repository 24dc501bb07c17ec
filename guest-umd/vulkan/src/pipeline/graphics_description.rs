// SPDX-License-Identifier: MIT OR Apache-2.0

//! The description of a graphics pipeline that the host reads.

use super::fixed::Fixed;
use super::layout::PipelineLayout;
use super::stage::Asked;
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{
    Binding, GraphicsPipelineHead, MAX_BINDINGS, MAX_ENTRY_POINT, MAX_PIPELINE, MAX_STAGES, Stage,
};
use zerocopy::IntoBytes;

/// Appends bytes, and what pads them.
fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(part);
    bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
}

/// A stage as the host reads it, with this SPIR-V. `None` if something of it is larger than it can be.
fn stage(asked: &Asked<'_>, spirv: &[u32]) -> Option<Stage> {
    let can_be = asked.constants.len() <= MAX_BINDINGS as usize
        && (1..=MAX_ENTRY_POINT as usize).contains(&asked.entry_point.len())
        && spirv.len() >= 5
        && size_of_val(spirv) <= MAX_PIPELINE as usize;
    can_be.then_some(Stage {
        stage: asked.stage.as_raw(),
        flags: asked.flags,
        subgroup_size: asked.subgroup_size,
        constants: asked.constants.len() as u32,
        values: asked.values.len() as u32,
        entry_point: asked.entry_point.len() as u32,
        spirv: size_of_val(spirv) as u32,
        reserved: 0,
    })
}

/// Writes the description. `None` if something of it is larger than it can be. `stages` are with their SPIR-V.
pub(super) fn describe(
    serial: u64,
    layout: &PipelineLayout,
    fixed: &Fixed,
    stages: &[(&Asked<'_>, &[u32])],
) -> Option<Vec<u8>> {
    if stages.is_empty() || stages.len() > MAX_STAGES as usize {
        return None;
    }
    let bindings: Vec<Binding> = layout.bindings().collect();
    let states = fixed.dynamic.numbers();
    let described = stages.iter().map(|(asked, spirv)| stage(asked, spirv));
    let described: Vec<Stage> = described.collect::<Option<_>>()?;
    let mut bytes = vec![0; size_of::<GraphicsPipelineHead>()];
    put(&mut bytes, bindings.as_bytes());
    put(&mut bytes, fixed.vertex_bindings.as_bytes());
    put(&mut bytes, fixed.vertex_attributes.as_bytes());
    put(&mut bytes, fixed.colors.as_bytes());
    put(&mut bytes, states.as_bytes());
    put(&mut bytes, fixed.viewports.as_bytes());
    put(&mut bytes, fixed.scissors.as_bytes());
    put(&mut bytes, described.as_bytes());
    for (asked, spirv) in stages {
        put(&mut bytes, asked.constants.as_bytes());
        put(&mut bytes, asked.values);
        put(&mut bytes, asked.entry_point);
        put(&mut bytes, spirv.as_bytes());
    }
    let head = GraphicsPipelineHead {
        serial,
        length: u32::try_from(bytes.len()).ok().filter(|length| *length <= MAX_PIPELINE)?,
        sets: layout.sets(),
        bindings: bindings.len() as u32,
        push_constants: layout.push_constants(),
        stages: described.len() as u32,
        vertex_bindings: fixed.vertex_bindings.len() as u32,
        vertex_attributes: fixed.vertex_attributes.len() as u32,
        colors: fixed.colors.len() as u32,
        states: states.len() as u32,
        viewports: fixed.viewports.len() as u32,
        scissors: fixed.scissors.len() as u32,
        reserved: 0,
        state: fixed.state,
    };
    bytes.get_mut(..size_of_val(&head))?.copy_from_slice(head.as_bytes());
    Some(bytes)
}
