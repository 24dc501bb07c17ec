// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptions of pipelines in memory: they are copied, divided and checked, and then made.

use super::drawing::{Draws, check_pipeline};
use super::stages::check_stage;
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
/// A description that was checked, in parts, with the modules of its stages.
pub enum Description<'p> {
    /// Of a pipeline for dispatches.
    Compute(&'p PipelineParts<'p>, &'p Module<'p>),
    /// Of one for draws.
    Graphics(&'p GraphicsPipelineParts<'p>, &'p [Module<'p>]),
}

/// A pipeline that was made.
#[derive(Debug)]
pub struct Known<P> {
    /// Its serial number.
    pub serial: u64,
    /// The bindings of each set, in the order of their numbers.
    pub sets: Vec<Vec<Binding>>,
    /// Descriptors of dynamic kinds.
    pub dynamic: u32,
    /// Most bytes of push constants.
    pub push_constants: u32,
    /// What it demands of draws, if it is for draws.
    pub draws: Option<Draws>,
    /// What Vulkan made of it.
    pub made: Rc<P>,
    /// Bytes of its SPIR-V.
    pub bytes: u64,
}

impl<P> Known<P> {
    /// What it is for.
    pub fn point(&self) -> Point {
        if self.draws.is_some() { Point::Graphics } else { Point::Compute }
    }
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

/// Whether descriptors of a kind are about texels.
fn has_texels(kind: DescriptorKind) -> bool {
    kind.has_view() || kind.has_sampler() || kind.has_texels()
}
