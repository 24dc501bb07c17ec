// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Layouts of pipelines: their sets and their push constants.

use crate::descriptor::SetLayout;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::{
    Binding, MAX_BINDINGS, MAX_DESCRIPTORS, MAX_DYNAMIC_OFFSETS, MAX_PUSH_CONSTANTS, MAX_SETS,
};
use std::sync::Arc;

/// A layout.
pub(crate) struct PipelineLayout {
    sets: Vec<Arc<SetLayout>>,
    /// Bytes.
    push_constants: u32,
}

impl PipelineLayout {
    /// A layout with these sets. `None` if it has more of something than there can be.
    pub(super) fn new(sets: Vec<Arc<SetLayout>>, push_constants: u32) -> Option<Self> {
        let bindings: usize = sets.iter().map(|set| set.bindings().len()).sum();
        let descriptors: u64 = sets.iter().map(|set| u64::from(set.descriptors())).sum();
        let layout = Self { sets, push_constants: push_constants.next_multiple_of(4) };
        let can_be = layout.sets.len() <= MAX_SETS as usize
            && push_constants <= MAX_PUSH_CONSTANTS
            && layout.dynamic_offsets() <= MAX_DYNAMIC_OFFSETS
            && bindings <= MAX_BINDINGS as usize
            && descriptors <= u64::from(MAX_DESCRIPTORS);
        can_be.then_some(layout)
    }

    /// The layout of a set.
    pub(crate) fn set(&self, number: u32) -> Option<&Arc<SetLayout>> {
        self.sets.get(number as usize)
    }

    /// Number of sets.
    pub(super) fn sets(&self) -> u32 {
        self.sets.len() as u32
    }

    /// Bytes of push constants, a multiple of 4.
    pub(super) const fn push_constants(&self) -> u32 {
        self.push_constants
    }

    /// Number of dynamic offsets of the sets before this one.
    pub(crate) fn offsets_before(&self, set: u32) -> u32 {
        self.sets.iter().take(set as usize).map(|set| set.dynamic()).sum()
    }

    /// Number of dynamic offsets.
    pub(super) fn dynamic_offsets(&self) -> u32 {
        self.offsets_before(self.sets())
    }

    /// Whether shaders may write what its sets have.
    pub(super) fn stores(&self) -> bool {
        let mut bindings = self.sets.iter().flat_map(|set| set.bindings());
        bindings.any(|binding| {
            matches!(
                vk::DescriptorType::from_raw(binding.kind.0 as i32),
                vk::DescriptorType::STORAGE_IMAGE
                    | vk::DescriptorType::STORAGE_TEXEL_BUFFER
                    | vk::DescriptorType::STORAGE_BUFFER
                    | vk::DescriptorType::STORAGE_BUFFER_DYNAMIC
            )
        })
    }

    /// The bindings of all sets, in order.
    pub(super) fn bindings(&self) -> impl Iterator<Item = Binding> {
        self.sets.iter().zip(0..).flat_map(|(layout, set)| {
            layout.bindings().iter().map(move |binding| Binding {
                set,
                binding: binding.number,
                kind: binding.kind,
                count: binding.count,
                first: binding.first,
                reserved: 0,
            })
        })
    }
}

unsafe extern "system" fn create(
    _device: vk::Device,
    information: *const vk::PipelineLayoutCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    layout: *mut vk::PipelineLayout,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let information = &*information;
        let sets = raw::slice(information.p_set_layouts, information.set_layout_count);
        let sets = sets.iter().map(|set| match set.as_raw() {
            0 => Arc::default(),
            set => Arc::clone(handle::get::<Arc<SetLayout>>(set)),
        });
        let count = information.push_constant_range_count;
        let ranges = raw::slice(information.p_push_constant_ranges, count).iter();
        let end = ranges.map(|range| range.offset.saturating_add(range.size)).max();
        let Some(made) = PipelineLayout::new(sets.collect(), end.unwrap_or(0)) else {
            return vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
        };
        *layout = vk::PipelineLayout::from_raw(handle::create(made));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    layout: vk::PipelineLayout,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<PipelineLayout>(layout.as_raw()) };
}

crate::entry::entry_points! {
    vkCreatePipelineLayout = create,
    vkDestroyPipelineLayout = destroy,
}
