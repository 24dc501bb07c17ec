// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Stages of pipelines, as a program asks for them.

use super::module::Module;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::SpecialisationEntry;
use std::borrow::Cow;
use std::ffi::CStr;

/// A stage.
pub(super) struct Asked<'s> {
    pub(super) stage: vk::ShaderStageFlags,
    pub(super) flags: u32,
    /// The size that subgroups must have, or 0.
    pub(super) subgroup_size: u32,
    /// Those that name bytes outside of the values, or a size that no constant has, are left out: no shader uses them.
    pub(super) constants: Vec<SpecialisationEntry>,
    pub(super) values: &'s [u8],
    pub(super) entry_point: &'s [u8],
    pub(super) spirv: Cow<'s, [u32]>,
}

impl<'s> Asked<'s> {
    /// What a structure asks for.
    ///
    /// # Safety
    /// The structure is valid, as Vulkan demands it, and lives as long as this.
    pub(super) unsafe fn new(stage: &'s vk::PipelineShaderStageCreateInfo<'_>) -> Self {
        type Size<'a> = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'a>;
        // SAFETY: a valid structure's chain and pointers are.
        let (inline, size, entry_point, specialisation) = unsafe {
            (
                raw::find::<vk::ShaderModuleCreateInfo<'_>>(stage.p_next),
                raw::find::<Size<'_>>(stage.p_next),
                CStr::from_ptr(stage.p_name).to_bytes(),
                stage.p_specialization_info.as_ref(),
            )
        };
        // SAFETY: as above: a stage has a module, or what one is made of.
        let spirv = unsafe {
            match inline {
                Some(inline) => Cow::Owned(Module::new(inline).spirv),
                None => {
                    Cow::Borrowed(handle::get::<Module>(stage.module.as_raw()).spirv.as_slice())
                }
            }
        };
        // SAFETY: as above.
        let (entries, values) = specialisation.map_or((&[][..], &[][..]), |given| unsafe {
            let values = raw::slice(given.p_data.cast::<u8>(), given.data_size as u32);
            (raw::slice(given.p_map_entries, given.map_entry_count), values)
        });
        let constants = entries.iter().map(|entry| SpecialisationEntry {
            id: entry.constant_id,
            offset: entry.offset,
            size: u32::try_from(entry.size).unwrap_or(0),
            reserved: 0,
        });
        Self {
            stage: stage.stage,
            flags: stage.flags.as_raw(),
            subgroup_size: size.map_or(0, |size| size.required_subgroup_size),
            constants: constants.filter(|entry| is_inside(entry, values)).collect(),
            values,
            entry_point,
            spirv,
        }
    }
}

/// Whether a constant has a size that there is, and its value is one of these.
fn is_inside(entry: &SpecialisationEntry, values: &[u8]) -> bool {
    let end = u64::from(entry.offset) + u64::from(entry.size);
    matches!(entry.size, 1 | 2 | 4 | 8) && end <= values.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_has_the_constants_that_have_values() {
        let code = [0x0723_0203, 0x0001_0000, 0, 5, 0];
        let mut inline = vk::ShaderModuleCreateInfo::default().code(&code);
        let entry =
            |constant_id, offset, size| vk::SpecializationMapEntry { constant_id, offset, size };
        let entries = [entry(1, 0, 4), entry(2, 3, 4), entry(3, 0, 3), entry(4, 4, 1)];
        let values = [1, 2, 3, 4, 5];
        let specialisation = vk::SpecializationInfo::default().map_entries(&entries).data(&values);
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::VERTEX)
            .name(c"main")
            .specialization_info(&specialisation)
            .push_next(&mut inline);
        // SAFETY: the structure is valid.
        let asked = unsafe { Asked::new(&stage) };
        assert_eq!((&*asked.spirv, asked.entry_point), (&code[..], &b"main"[..]));
        let entry = |id, offset, size| SpecialisationEntry { id, offset, size, reserved: 0 };
        assert_eq!(asked.constants, [entry(1, 0, 4), entry(4, 4, 1)]);
        assert_eq!(asked.values, values);
    }
}
