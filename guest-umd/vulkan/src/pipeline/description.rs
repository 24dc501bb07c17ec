// SPDX-License-Identifier: MIT OR Apache-2.0

//! The description of a compute pipeline that the host reads.

use super::layout::PipelineLayout;
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{
    Binding, MAX_BINDINGS, MAX_ENTRY_POINT, MAX_PIPELINE, PipelineHead, SpecialisationEntry,
};
use zerocopy::IntoBytes;

/// What a pipeline consists of.
pub(super) struct Parts<'p> {
    pub(super) layout: &'p PipelineLayout,
    /// Each is inside of the values.
    pub(super) constants: &'p [SpecialisationEntry],
    pub(super) values: &'p [u8],
    pub(super) entry_point: &'p [u8],
    pub(super) spirv: &'p [u32],
    /// The size that subgroups must have, or 0.
    pub(super) subgroup_size: u32,
    pub(super) stage_flags: u32,
}

impl Parts<'_> {
    /// Writes the description. `None` if something of it is larger than it can be.
    pub(super) fn describe(self, serial: u64) -> Option<Vec<u8>> {
        let bindings: Vec<Binding> = self.layout.bindings().collect();
        let can_be = self.constants.len() <= MAX_BINDINGS as usize
            && (1..=MAX_ENTRY_POINT as usize).contains(&self.entry_point.len())
            && self.spirv.len() >= 5;
        if !can_be {
            return None;
        }
        let parts = [
            bindings.as_bytes(),
            self.constants.as_bytes(),
            self.values,
            self.entry_point,
            self.spirv.as_bytes(),
        ];
        let length = size_of::<PipelineHead>()
            + parts.iter().map(|part| part.len().next_multiple_of(UNIT)).sum::<usize>();
        let head = PipelineHead {
            serial,
            length: u32::try_from(length).ok().filter(|length| *length <= MAX_PIPELINE)?,
            sets: self.layout.sets(),
            bindings: bindings.len() as u32,
            constants: self.constants.len() as u32,
            values: self.values.len() as u32,
            entry_point: self.entry_point.len() as u32,
            spirv: size_of_val(self.spirv) as u32,
            push_constants: self.layout.push_constants(),
            subgroup_size: self.subgroup_size,
            stage_flags: self.stage_flags,
        };
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(head.as_bytes());
        for part in parts {
            bytes.extend_from_slice(part);
            bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{Asked, SetLayout};
    use ash::vk;
    use bellhop_protocol::vulkan::{DescriptorKind, PipelineParts};
    use std::sync::Arc;

    fn asked(number: u32, kind: vk::DescriptorType, count: u32) -> Asked {
        let flags = vk::DescriptorBindingFlags::empty();
        Asked { number, kind, count, flags, samplers: Vec::new() }
    }

    fn layout() -> PipelineLayout {
        let storage = vk::DescriptorType::STORAGE_BUFFER;
        let dynamic = vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC;
        let block = vk::DescriptorType::INLINE_UNIFORM_BLOCK;
        let mut first = [asked(7, dynamic, 2), asked(2, storage, 3)];
        let mut last = [asked(0, block, 16)];
        let sets = [&mut first[..], &mut [], &mut last[..]];
        let sets = sets.map(|asked| Arc::new(SetLayout::new(asked, false).unwrap()));
        PipelineLayout::new(sets.into(), 12).unwrap()
    }

    fn entry(id: u32, offset: u32, size: u32) -> SpecialisationEntry {
        SpecialisationEntry { id, offset, size, reserved: 0 }
    }

    #[test]
    fn the_host_reads_what_was_described() {
        let layout = layout();
        let parts = Parts {
            layout: &layout,
            constants: &[entry(0, 0, 4), entry(3, 4, 1)],
            values: &[1, 2, 3, 4, 5],
            entry_point: b"main",
            spirv: &[0x0723_0203, 1, 2, 3, 4],
            subgroup_size: 8,
            stage_flags: 2,
        };
        let bytes = parts.describe(77).unwrap();
        let mut aligned = vec![0u64; bytes.len() / 8];
        aligned.as_mut_slice().as_mut_bytes().copy_from_slice(&bytes);
        let read = PipelineParts::read(aligned.as_slice().as_bytes()).unwrap();
        let head = read.head;
        assert_eq!((head.serial, head.sets, head.push_constants), (77, 3, 12));
        assert_eq!((head.subgroup_size, head.stage_flags), (8, 2));
        assert_eq!(read.constants, [entry(0, 0, 4), entry(3, 4, 1)]);
        assert_eq!((read.values, read.entry_point), (&[1, 2, 3, 4, 5][..], &b"main"[..]));
        assert_eq!(read.spirv.len(), 20);
        let bindings = read.bindings.iter().map(|b| (b.set, b.binding, b.kind, b.count, b.first));
        let expected = [
            (0, 2, DescriptorKind::STORAGE_BUFFER, 3, 0),
            (0, 7, DescriptorKind::UNIFORM_BUFFER_DYNAMIC, 2, 3),
            (2, 0, DescriptorKind::UNIFORM_BUFFER, 1, 0),
        ];
        assert_eq!(bindings.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_cannot_be_is_not_described() {
        let layout = layout();
        let describe = |entry_point: &[u8], spirv: &[u32]| {
            let (constants, values) = (&[][..], &[][..]);
            let (subgroup_size, stage_flags) = (0, 0);
            let layout = &layout;
            Parts { layout, constants, values, entry_point, spirv, subgroup_size, stage_flags }
                .describe(1)
        };
        assert!(describe(b"main", &[0; 5]).is_some());
        assert!(describe(b"", &[0; 5]).is_none());
        assert!(describe(&[b'a'; 257], &[0; 5]).is_none());
        assert!(describe(b"main", &[0; 4]).is_none());
        assert!(describe(b"main", &vec![0; MAX_PIPELINE as usize / 4]).is_none());
    }

    #[test]
    fn offsets_of_sets_follow_each_other() {
        let layout = layout();
        assert_eq!([0, 1, 2, 3].map(|set| layout.offsets_before(set)), [0, 2, 2, 2]);
        assert_eq!(layout.dynamic_offsets(), 2);
        assert!(PipelineLayout::new(vec![Arc::default(); 9], 0).is_none());
        assert!(PipelineLayout::new(Vec::new(), MAX_PIPELINE).is_none());
    }
}
