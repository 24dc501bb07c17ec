// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pipelines that were made of their descriptions in memory.

use super::wrong::Why;
use crate::serve::memory::Memory;
use crate::vulkan::{Bounds, VulkanError};
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{
    Binding, DescriptorKind, MAX_PIPELINE, PipelineHead, PipelineParts,
};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::rc::Rc;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Most bytes of their SPIR-V, in all. What compilers make of it is some times as long.
const MOST_BYTES: u64 = 64 << 20;

/// SPIR-V's first word.
const MAGIC: u32 = 0x0723_0203;
/// Vulkan's flags of a stage that are known: subgroups of varying sizes, and full subgroups.
const STAGE_FLAGS: u32 = 0b11;

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
    /// What Vulkan made of it.
    pub made: Rc<P>,
    /// Bytes of its SPIR-V.
    bytes: u64,
}

struct Kept<P> {
    known: Rc<Known<P>>,
    /// When it was last used.
    used: u64,
}

/// The pipelines that were made last, by their addresses.
pub struct Pipelines<P> {
    kept: BTreeMap<u64, Kept<P>>,
    /// Most of them.
    most: usize,
    bytes: u64,
    /// Descriptions, as they were copied, of pipelines that have yet to be made, by their addresses.
    lacking: BTreeMap<u64, Vec<u64>>,
    /// Counts uses.
    now: u64,
    /// A description, kept for its room.
    buffer: Vec<u64>,
}

impl<P> Pipelines<P> {
    /// Keeps so many at most.
    pub fn new(most: usize) -> Self {
        let (kept, lacking) = (BTreeMap::new(), BTreeMap::new());
        Self { kept, most, bytes: 0, lacking, now: 0, buffer: Vec::new() }
    }

    /// Returns the pipeline whose description is at an address, which `make` makes if it is another than the one that was
    /// there before.
    ///
    /// # Errors
    /// What is wrong with the description, why `make` failed, or that there is no `make` and a pipeline to be made.
    pub fn find(
        &mut self,
        address: u64,
        memory: &Memory,
        bounds: &Bounds,
        make: Option<impl FnOnce(&PipelineParts<'_>, &[u32], &CStr) -> Result<P, VulkanError>>,
    ) -> Result<Rc<Known<P>>, Why> {
        let head = head_at(address, memory)?;
        self.now += 1;
        if let Some(kept) = self.kept.get_mut(&address)
            && kept.known.serial == head.serial
        {
            kept.used = self.now;
            return Ok(Rc::clone(&kept.known));
        }
        let make = make.ok_or(Why::Lacks)?;
        copy(&head, address, memory, &mut self.buffer)?;
        let known = Rc::new(made(self.buffer.as_bytes(), bounds, make)?);
        self.keep(address, &known);
        if self.buffer.len() > ROOM {
            self.buffer = Vec::new();
        }
        Ok(known)
    }

    /// Copies the descriptions of those that have yet to be made, as many as there is room for, and forgets what was lacking
    /// before. What is wrong with a description is said when somebody wants to find its pipeline.
    pub fn note_lacking(&mut self, addresses: impl Iterator<Item = u64>, memory: &Memory) {
        self.lacking.clear();
        let mut bytes = 0;
        for address in addresses {
            let Ok(head) = head_at(address, memory) else { continue };
            let is_kept = self.kept.get(&address).is_some_and(|it| it.known.serial == head.serial);
            let mut description = Vec::new();
            if is_kept
                || self.lacking.contains_key(&address)
                || copy(&head, address, memory, &mut description).is_err()
            {
                continue;
            }
            bytes += u64::from(head.length);
            if self.lacking.len() >= self.most || bytes > MOST_BYTES {
                break;
            }
            self.lacking.insert(address, description);
        }
    }

    /// Makes one of those that were lacking, and returns it. One that cannot be made lacks no longer.
    pub fn make_lacking(
        &mut self,
        bounds: &Bounds,
        make: impl FnOnce(&PipelineParts<'_>, &[u32], &CStr) -> Result<P, VulkanError>,
    ) -> Option<Rc<Known<P>>> {
        let (address, description) = self.lacking.pop_first()?;
        let known = Rc::new(made(description.as_bytes(), bounds, make).ok()?);
        self.now += 1;
        self.keep(address, &known);
        Some(known)
    }

    /// Whether some are lacking.
    pub fn lack(&self) -> bool {
        !self.lacking.is_empty()
    }

    /// Keeps a pipeline that was used just now, and forgets others if there are too many.
    fn keep(&mut self, address: u64, known: &Rc<Known<P>>) {
        self.forget(address);
        while self.kept.len() >= self.most || self.bytes + known.bytes > MOST_BYTES {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used);
            let Some((&oldest, _)) = oldest else { break };
            self.forget(oldest);
        }
        self.bytes += known.bytes;
        self.kept.insert(address, Kept { known: Rc::clone(known), used: self.now });
    }

    fn forget(&mut self, address: u64) {
        if let Some(kept) = self.kept.remove(&address) {
            self.bytes -= kept.known.bytes;
        }
    }
}

/// A description that is longer than so many units is not kept room for.
const ROOM: usize = 1 << 17;

fn head_at(address: u64, memory: &Memory) -> Result<PipelineHead, Why> {
    let mut head = PipelineHead::new_zeroed();
    memory.read(address, head.as_mut_bytes())?;
    Ok(head)
}

/// Copies the description with this head into `buffer`.
fn copy(
    head: &PipelineHead,
    address: u64,
    memory: &Memory,
    buffer: &mut Vec<u64>,
) -> Result<(), Why> {
    let length = head.length as usize;
    if length < size_of::<PipelineHead>()
        || head.length > MAX_PIPELINE
        || !length.is_multiple_of(UNIT)
    {
        return Err("a pipeline of an impossible length".into());
    }
    buffer.clear();
    buffer.resize(length / UNIT, 0);
    Ok(memory.read(address, buffer.as_mut_bytes())?)
}

/// Checks a description, and makes its pipeline.
fn made<P>(
    description: &[u8],
    bounds: &Bounds,
    make: impl FnOnce(&PipelineParts<'_>, &[u32], &CStr) -> Result<P, VulkanError>,
) -> Result<Known<P>, Why> {
    let parts = PipelineParts::read(description)?;
    check(&parts, bounds)?;
    let unaligned = "SPIR-V that is not aligned";
    let spirv = <[u32]>::ref_from_bytes(parts.spirv).map_err(|_| unaligned)?;
    if spirv.first() != Some(&MAGIC) {
        return Err("a pipeline whose SPIR-V is none".into());
    }
    let name = CString::new(parts.entry_point).map_err(|_| "a zero in an entry point's name")?;
    let mut sets = vec![Vec::new(); parts.head.sets as usize];
    for binding in parts.bindings {
        let set = sets.get_mut(binding.set as usize);
        set.ok_or("a binding of a set that is not there")?.push(*binding);
    }
    let dynamic = parts.bindings.iter().filter(|binding| binding.kind.is_dynamic());
    Ok(Known {
        serial: parts.head.serial,
        sets,
        dynamic: dynamic.map(|binding| binding.count).sum(),
        push_constants: parts.head.push_constants,
        made: Rc::new(make(&parts, spirv, &name)?),
        bytes: parts.head.spirv.into(),
    })
}

/// Checks what the device must have for a pipeline.
fn check(parts: &PipelineParts<'_>, bounds: &Bounds) -> Result<(), Why> {
    let PipelineHead { sets, push_constants, subgroup_size, stage_flags, .. } = parts.head;
    if sets > bounds.sets {
        return Err("a pipeline with more sets than the device takes".into());
    }
    if push_constants > bounds.push_constants {
        return Err("a pipeline with more push constants than the device takes".into());
    }
    if parts.bindings.iter().any(|binding| binding.reserved != 0)
        || parts.constants.iter().any(|constant| constant.reserved != 0)
    {
        return Err("a pipeline with a reserved field that is not 0".into());
    }
    if !bounds.formats.are_there() && parts.bindings.iter().any(|binding| has_texels(binding.kind))
    {
        return Err(
            "a pipeline with images, and the device makes none of a process's memory".into()
        );
    }
    if stage_flags & !STAGE_FLAGS != 0 {
        return Err("a pipeline with an unknown flag".into());
    }
    if subgroup_size == 0 && stage_flags == 0 {
        return Ok(());
    }
    let sizes = bounds.subgroup_sizes.as_ref();
    let sizes = sizes.ok_or("a pipeline with subgroups of its own on a device that has none")?;
    if subgroup_size != 0 && !(subgroup_size.is_power_of_two() && sizes.contains(&subgroup_size)) {
        return Err("a pipeline with subgroups of an impossible size".into());
    }
    Ok(())
}

/// Whether descriptors of a kind are about texels.
fn has_texels(kind: DescriptorKind) -> bool {
    kind.has_view() || kind.has_sampler() || kind.has_texels()
}
