// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Templates of updates: where in a program's memory what goes into a set is.

use super::set::DescriptorSet;
use super::update::{Target, write_array};
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::ffi::c_void;

/// A template.
pub(crate) struct Template {
    entries: Vec<vk::DescriptorUpdateTemplateEntry>,
    is_for_graphics: bool,
}

impl Template {
    /// A template with these entries.
    pub(super) const fn new(
        entries: Vec<vk::DescriptorUpdateTemplateEntry>,
        is_for_graphics: bool,
    ) -> Self {
        Self { entries, is_for_graphics }
    }

    /// Whether the sets that it pushes are for draws.
    pub(crate) const fn is_for_graphics(&self) -> bool {
        self.is_for_graphics
    }

    /// Does what the template says.
    ///
    /// # Safety
    /// At `data` is what it says, and the target has the template's layout.
    pub(crate) unsafe fn apply(&self, mut target: impl Target, data: *const c_void) {
        let data = data.cast::<u8>();
        for entry in &self.entries {
            let (number, element) = (entry.dst_binding, entry.dst_array_element);
            let first = data.wrapping_add(entry.offset);
            if entry.descriptor_type == vk::DescriptorType::INLINE_UNIFORM_BLOCK {
                // SAFETY: the caller says that so many bytes are there.
                let bytes = unsafe { raw::slice(first, entry.descriptor_count) };
                target.put_block(number, element, bytes);
                continue;
            }
            let array = (first, entry.stride, entry.descriptor_count);
            // SAFETY: as above, and what they name is live.
            unsafe {
                write_array(&mut target, (number, element), entry.descriptor_type, array);
            }
        }
    }
}

unsafe extern "system" fn create(
    _device: vk::Device,
    information: *const vk::DescriptorUpdateTemplateCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    template: *mut vk::DescriptorUpdateTemplate,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let information = &*information;
        let entries = information.p_descriptor_update_entries;
        let entries = raw::slice(entries, information.descriptor_update_entry_count).to_vec();
        let is_for_graphics = information.pipeline_bind_point == vk::PipelineBindPoint::GRAPHICS;
        let made = Template::new(entries, is_for_graphics);
        *template = vk::DescriptorUpdateTemplate::from_raw(handle::create(made));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    template: vk::DescriptorUpdateTemplate,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Template>(template.as_raw()) };
}

unsafe extern "system" fn update(
    _device: vk::Device,
    set: vk::DescriptorSet,
    template: vk::DescriptorUpdateTemplate,
    data: *const c_void,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let set = handle::get::<DescriptorSet>(set.as_raw());
        handle::get::<Template>(template.as_raw()).apply(set, data);
    }
}

crate::entry::entry_points! {
    vkCreateDescriptorUpdateTemplate = create,
    vkCreateDescriptorUpdateTemplateKHR = create,
    vkDestroyDescriptorUpdateTemplate = destroy,
    vkDestroyDescriptorUpdateTemplateKHR = destroy,
    vkUpdateDescriptorSetWithTemplate = update,
    vkUpdateDescriptorSetWithTemplateKHR = update,
}
