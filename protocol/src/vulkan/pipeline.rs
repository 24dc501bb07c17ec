// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pipelines and descriptors, as they lie in a process's memory.

use super::{
    MAX_BINDINGS, MAX_DESCRIPTORS, MAX_ENTRY_POINT, MAX_PIPELINE, MAX_PUSH_CONSTANTS, MAX_SETS,
};
use crate::packet::UNIT;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// What a descriptor is: Vulkan's numbers (`VkDescriptorType`).
    pub struct DescriptorKind: u32 {
        /// A sampler.
        SAMPLER = 0;
        /// An image that shaders read through a sampler, and the sampler.
        COMBINED_IMAGE_SAMPLER = 1;
        /// An image that shaders read, with a sampler of another descriptor or without one.
        SAMPLED_IMAGE = 2;
        /// An image that shaders read and write.
        STORAGE_IMAGE = 3;
        /// A buffer of texels that shaders read.
        UNIFORM_TEXEL_BUFFER = 4;
        /// A buffer of texels that shaders read and write.
        STORAGE_TEXEL_BUFFER = 5;
        /// A buffer that shaders read.
        UNIFORM_BUFFER = 6;
        /// A buffer that shaders read and write.
        STORAGE_BUFFER = 7;
        /// As `UNIFORM_BUFFER`, to whose address a dispatch adds an offset.
        UNIFORM_BUFFER_DYNAMIC = 8;
        /// As `STORAGE_BUFFER`, to whose address a dispatch adds an offset.
        STORAGE_BUFFER_DYNAMIC = 9;
        /// An image that fragments read where they are.
        INPUT_ATTACHMENT = 10;
    }
}

impl DescriptorKind {
    /// Whether a dispatch has an offset for each.
    #[must_use]
    pub const fn is_dynamic(self) -> bool {
        matches!(self, Self::UNIFORM_BUFFER_DYNAMIC | Self::STORAGE_BUFFER_DYNAMIC)
    }

    /// Whether each is of a view of an image.
    #[must_use]
    pub const fn has_view(self) -> bool {
        matches!(
            self,
            Self::COMBINED_IMAGE_SAMPLER
                | Self::SAMPLED_IMAGE
                | Self::STORAGE_IMAGE
                | Self::INPUT_ATTACHMENT
        )
    }

    /// Whether each is of a sampler, perhaps among others.
    #[must_use]
    pub const fn has_sampler(self) -> bool {
        matches!(self, Self::SAMPLER | Self::COMBINED_IMAGE_SAMPLER)
    }

    /// Whether each is of a buffer of texels.
    #[must_use]
    pub const fn has_texels(self) -> bool {
        matches!(self, Self::UNIFORM_TEXEL_BUFFER | Self::STORAGE_TEXEL_BUFFER)
    }
}

/// A descriptor of a set. A set is an array of them, in memory of the process.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Descriptor {
    /// Of a buffer: its first byte's address. Of a view: that of its [`ImageView`](super::ImageView). 0 if there is none.
    pub address: u64,
    /// Of a buffer: bytes. Of a view: its serial number.
    pub length: u64,
    /// Of a sampler: the address of its [`Sampler`](super::Sampler). 0 if there is none.
    pub sampler: u64,
    /// Of a sampler: its serial number. Of a buffer of texels: their `VkFormat`.
    pub about: u64,
}
crate::assert_layout!(Descriptor, 32, address at 0, length at 8, sampler at 16, about at 24);

/// A binding of a pipeline's layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Binding {
    /// The set that it is in.
    pub set: u32,
    /// Its number in the set.
    pub binding: u32,
    /// What its descriptors are.
    pub kind: DescriptorKind,
    /// Number of descriptors.
    pub count: u32,
    /// Index of the first of them in the set's memory.
    pub first: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    Binding, 24, set at 0, binding at 4, kind at 8, count at 12, first at 16, reserved at 20,
);

/// Where the value of a specialisation constant is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SpecialisationEntry {
    /// Its number in the module (`SpecId`).
    pub id: u32,
    /// First byte in the values.
    pub offset: u32,
    /// Bytes: 1, 2, 4 or 8.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(SpecialisationEntry, 16, id at 0, offset at 4, size at 8, reserved at 12);

/// How the description of a compute pipeline begins. Behind it, each padded to 8 bytes: [`Binding`]s, in the order of sets and
/// bindings; [`SpecialisationEntry`]s; their values; the name of the entry point; SPIR-V.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct PipelineHead {
    /// Tells it from all other pipelines that were or will be in the process. Not 0.
    pub serial: u64,
    /// Bytes of everything, at most [`MAX_PIPELINE`].
    pub length: u32,
    /// Number of sets of the layout, at most [`MAX_SETS`].
    pub sets: u32,
    /// Number of bindings, at most [`MAX_BINDINGS`].
    pub bindings: u32,
    /// Number of specialisation entries, at most [`MAX_BINDINGS`].
    pub constants: u32,
    /// Bytes of their values.
    pub values: u32,
    /// Bytes of the entry point's name, 1 to [`MAX_ENTRY_POINT`].
    pub entry_point: u32,
    /// Bytes of SPIR-V, a multiple of 4.
    pub spirv: u32,
    /// Bytes of push constants: a multiple of 4, at most [`MAX_PUSH_CONSTANTS`].
    pub push_constants: u32,
    /// The size that subgroups must have, or 0 for any.
    pub subgroup_size: u32,
    /// Vulkan's flags of the shader stage.
    pub stage_flags: u32,
}
crate::assert_layout!(
    PipelineHead, 48,
    serial at 0, length at 8, sets at 12, bindings at 16, constants at 20, values at 24, entry_point at 28,
    spirv at 32, push_constants at 36, subgroup_size at 40, stage_flags at 44,
);

/// A pipeline's description in parts, whose numbers have been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipelineParts<'p> {
    /// How it begins.
    pub head: PipelineHead,
    /// The layout.
    pub bindings: &'p [Binding],
    /// The specialisation constants: each is inside [`Self::values`].
    pub constants: &'p [SpecialisationEntry],
    /// Their values.
    pub values: &'p [u8],
    /// The entry point's name.
    pub entry_point: &'p [u8],
    /// The module.
    pub spirv: &'p [u8],
}

impl<'p> PipelineParts<'p> {
    /// Divides a description, which must lie at a multiple of 8. Returns what is wrong with one that is none.
    ///
    /// `bytes` must be the reader's own copy, not memory that the guest can still write.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn read(bytes: &'p [u8]) -> Result<Self, &'static str> {
        let (head, rest) =
            PipelineHead::read_from_prefix(bytes).map_err(|_| "a pipeline that ends early")?;
        if head.serial == 0 {
            return Err("a pipeline without a serial number");
        }
        if head.length as usize != bytes.len() || head.length > MAX_PIPELINE {
            return Err("a pipeline of another length");
        }
        if head.sets > MAX_SETS || head.bindings > MAX_BINDINGS || head.constants > MAX_BINDINGS {
            return Err("a pipeline with too many sets, bindings or constants");
        }
        if head.push_constants > MAX_PUSH_CONSTANTS || !head.push_constants.is_multiple_of(4) {
            return Err("a pipeline with impossible push constants");
        }
        if head.entry_point == 0 || head.entry_point > MAX_ENTRY_POINT {
            return Err("a pipeline whose entry point has no name, or a long one");
        }
        if head.spirv < 20 || !head.spirv.is_multiple_of(4) {
            return Err("a pipeline without SPIR-V");
        }
        let mut rest = rest;
        let bindings = part(&mut rest, head.bindings as usize * size_of::<Binding>())?;
        let constants =
            part(&mut rest, head.constants as usize * size_of::<SpecialisationEntry>())?;
        let values = part(&mut rest, head.values as usize)?;
        let entry_point = part(&mut rest, head.entry_point as usize)?;
        let spirv = part(&mut rest, head.spirv as usize)?;
        if !rest.is_empty() {
            return Err("a pipeline with bytes at its end");
        }
        let unaligned = "a pipeline that is not aligned";
        let parts = Self {
            head,
            bindings: <[Binding]>::ref_from_bytes(bindings).map_err(|_| unaligned)?,
            constants: <[SpecialisationEntry]>::ref_from_bytes(constants).map_err(|_| unaligned)?,
            values,
            entry_point,
            spirv,
        };
        parts.check()?;
        Ok(parts)
    }

    fn check(&self) -> Result<(), &'static str> {
        check_bindings(self.bindings, self.head.sets)?;
        check_stage(self.constants, self.values, self.entry_point)
    }
}

/// Checks the bindings of a layout with so many sets.
pub(super) fn check_bindings(bindings: &[Binding], sets: u32) -> Result<(), &'static str> {
    let mut descriptors = 0u32;
    let mut last = None;
    for binding in bindings {
        let Binding { set, binding: number, kind, count, first, .. } = *binding;
        if kind.name().is_none() {
            return Err("a binding of an unknown kind");
        }
        if set >= sets || last.is_some_and(|last| last >= (set, number)) {
            return Err("bindings that are not in order");
        }
        last = Some((set, number));
        let end = first.checked_add(count).filter(|end| *end <= MAX_DESCRIPTORS);
        descriptors = descriptors.saturating_add(count);
        if end.is_none() || descriptors > MAX_DESCRIPTORS {
            return Err("a pipeline with too many descriptors");
        }
    }
    Ok(())
}

/// Checks a stage's specialisation constants, and the name of its entry point.
pub(super) fn check_stage(
    constants: &[SpecialisationEntry],
    values: &[u8],
    entry_point: &[u8],
) -> Result<(), &'static str> {
    for entry in constants {
        let end = u64::from(entry.offset) + u64::from(entry.size);
        if !matches!(entry.size, 1 | 2 | 4 | 8) || end > values.len() as u64 {
            return Err("a specialisation constant outside of the values");
        }
    }
    if entry_point.contains(&0) {
        return Err("an entry point with a zero in its name");
    }
    Ok(())
}

/// Takes a part of so many bytes, and its padding.
pub(super) fn part<'p>(rest: &mut &'p [u8], length: usize) -> Result<&'p [u8], &'static str> {
    let early = "a pipeline that ends early";
    let (part, after) = rest.split_at_checked(length.next_multiple_of(UNIT)).ok_or(early)?;
    *rest = after;
    part.get(..length).ok_or(early)
}
