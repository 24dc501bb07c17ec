// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptions of pipelines in memory: they are copied, divided and checked, and then made.

use super::drawing::{Draws, check_pipeline};
use super::pipelines::Known;
use super::wrong::Why;
use crate::serve::memory::Memory;
use crate::vulkan::{Bounds, Module, Point, VulkanError};
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{
    Binding, DescriptorKind, GraphicsPipelineHead, GraphicsPipelineParts, MAX_PIPELINE,
    PipelineHead, PipelineParts, SpecialisationEntry,
};
use std::ffi::CString;
use std::mem::offset_of;
use std::rc::Rc;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// SPIR-V's first word.
const MAGIC: u32 = 0x0723_0203;
/// Vulkan's flags of a stage that are known: subgroups of varying sizes, and full subgroups.
const STAGE_FLAGS: u32 = 0b11;

/// A description that was checked, in parts, with the modules of its stages.
pub enum Description<'p> {
    /// Of a pipeline for dispatches.
    Compute(&'p PipelineParts<'p>, &'p Module<'p>),
    /// Of one for draws.
    Graphics(&'p GraphicsPipelineParts<'p>, &'p [Module<'p>]),
}

/// What the descriptions of all pipelines begin with.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Head {
    /// The serial number.
    pub serial: u64,
    /// Bytes of the description.
    pub length: u32,
    sets: u32,
}

const _: () = {
    assert!(offset_of!(PipelineHead, serial) == 0 && offset_of!(PipelineHead, length) == 8);
    assert!(offset_of!(GraphicsPipelineHead, serial) == 0);
    assert!(offset_of!(GraphicsPipelineHead, length) == 8);
};

impl Head {
    /// Reads what a description at an address begins with.
    ///
    /// # Errors
    /// When there can be none.
    pub fn at(address: u64, memory: &Memory) -> Result<Self, Why> {
        let mut head = Self::new_zeroed();
        memory.read(address, head.as_mut_bytes())?;
        Ok(head)
    }

    /// Copies the description with this head into `buffer`.
    ///
    /// # Errors
    /// When it has an impossible length, or is not in the window.
    pub fn copy(
        &self,
        point: Point,
        address: u64,
        memory: &Memory,
        buffer: &mut Vec<u64>,
    ) -> Result<(), Why> {
        let length = self.length as usize;
        let least = match point {
            Point::Compute => size_of::<PipelineHead>(),
            Point::Graphics => size_of::<GraphicsPipelineHead>(),
        };
        if length < least || self.length > MAX_PIPELINE || !length.is_multiple_of(UNIT) {
            return Err("a pipeline of an impossible length".into());
        }
        buffer.clear();
        buffer.resize(length / UNIT, 0);
        Ok(memory.read(address, buffer.as_mut_bytes())?)
    }
}

/// Checks a description, and makes its pipeline.
///
/// # Errors
/// What is wrong with it, or why `make` failed.
pub fn made<P>(
    description: &[u8],
    point: Point,
    bounds: &Bounds,
    make: impl FnOnce(&Description<'_>) -> Result<P, VulkanError>,
) -> Result<Known<P>, Why> {
    match point {
        Point::Compute => {
            let parts = PipelineParts::read(description)?;
            let PipelineHead { serial, sets, push_constants, subgroup_size, .. } = parts.head;
            check_layout(parts.bindings, sets, push_constants, bounds)?;
            check_constants(parts.constants)?;
            check_stage(parts.head.stage_flags, subgroup_size, true, bounds)?;
            let module = module(parts.spirv, parts.entry_point)?;
            let made = || make(&Description::Compute(&parts, &module));
            known(serial, parts.bindings, sets, push_constants, None, parts.spirv.len(), made)
        }
        Point::Graphics => {
            let parts = GraphicsPipelineParts::read(description)?;
            let GraphicsPipelineHead { serial, sets, push_constants, .. } = parts.head;
            check_layout(parts.bindings, sets, push_constants, bounds)?;
            parts.stages.iter().try_for_each(|stage| check_constants(stage.constants))?;
            check_pipeline(&parts, bounds)?;
            let stages = parts.stages.iter();
            let modules: Result<Vec<_>, _> =
                stages.map(|stage| module(stage.spirv, stage.entry_point)).collect();
            let modules = modules?;
            let bytes = parts.stages.iter().map(|stage| stage.spirv.len()).sum();
            let draws = Some(Draws::new(&parts));
            let made = || make(&Description::Graphics(&parts, &modules));
            known(serial, parts.bindings, sets, push_constants, draws, bytes, made)
        }
    }
}

/// Makes a pipeline whose description has been checked.
fn known<P>(
    serial: u64,
    bindings: &[Binding],
    sets: u32,
    push_constants: u32,
    draws: Option<Draws>,
    bytes: usize,
    make: impl FnOnce() -> Result<P, VulkanError>,
) -> Result<Known<P>, Why> {
    let mut bindings_of = vec![Vec::new(); sets as usize];
    for binding in bindings {
        let set = bindings_of.get_mut(binding.set as usize);
        set.ok_or("a binding of a set that is not there")?.push(*binding);
    }
    let dynamic = bindings.iter().filter(|binding| binding.kind.is_dynamic());
    Ok(Known {
        serial,
        sets: bindings_of,
        dynamic: dynamic.map(|binding| binding.count).sum(),
        push_constants,
        draws,
        made: Rc::new(make()?),
        bytes: bytes as u64,
    })
}

fn module<'p>(spirv: &'p [u8], entry_point: &[u8]) -> Result<Module<'p>, &'static str> {
    let spirv = <[u32]>::ref_from_bytes(spirv).map_err(|_| "SPIR-V that is not aligned")?;
    if spirv.first() != Some(&MAGIC) {
        return Err("a pipeline whose SPIR-V is none");
    }
    let entry_point = CString::new(entry_point).map_err(|_| "a zero in an entry point's name")?;
    Ok(Module { spirv, entry_point })
}

/// Checks what the device must have for a layout.
fn check_layout(
    bindings: &[Binding],
    sets: u32,
    push_constants: u32,
    bounds: &Bounds,
) -> Result<(), &'static str> {
    if sets > bounds.sets {
        return Err("a pipeline with more sets than the device takes");
    }
    if push_constants > bounds.push_constants {
        return Err("a pipeline with more push constants than the device takes");
    }
    if bindings.iter().any(|binding| binding.reserved != 0) {
        return Err("a pipeline with a reserved field that is not 0");
    }
    if !bounds.formats.are_there() && bindings.iter().any(|binding| has_texels(binding.kind)) {
        return Err("a pipeline with images, and the device makes none of a process's memory");
    }
    Ok(())
}

fn check_constants(constants: &[SpecialisationEntry]) -> Result<(), &'static str> {
    if constants.iter().any(|constant| constant.reserved != 0) {
        return Err("a pipeline with a reserved field that is not 0");
    }
    Ok(())
}

/// Checks what the device must have for a stage that may ask for a size of subgroups or not.
///
/// # Errors
/// What it does not have.
pub fn check_stage(
    flags: u32,
    subgroup_size: u32,
    may_ask: bool,
    bounds: &Bounds,
) -> Result<(), &'static str> {
    if flags & !STAGE_FLAGS != 0 {
        return Err("a pipeline with an unknown flag");
    }
    if subgroup_size == 0 && flags == 0 {
        return Ok(());
    }
    let sizes = bounds.subgroup_sizes.as_ref();
    let sizes = sizes.ok_or("a pipeline with subgroups of its own on a device that has none")?;
    let is_size = may_ask && subgroup_size.is_power_of_two() && sizes.contains(&subgroup_size);
    if subgroup_size != 0 && !is_size {
        return Err("a pipeline with subgroups of an impossible size");
    }
    Ok(())
}

/// Whether descriptors of a kind are about texels.
fn has_texels(kind: DescriptorKind) -> bool {
    kind.has_view() || kind.has_sampler() || kind.has_texels()
}
