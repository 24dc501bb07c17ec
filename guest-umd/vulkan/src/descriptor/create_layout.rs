// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Creates layouts of descriptor sets. Whoever uses a layout keeps it, so that a program may destroy it before.

use super::layout::{Asked, SetLayout};
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::sync::Arc;

/// Lays out what a program asks for.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn lay_out(information: &vk::DescriptorSetLayoutCreateInfo<'_>) -> Option<SetLayout> {
    type Flags<'a> = vk::DescriptorSetLayoutBindingFlagsCreateInfo<'a>;
    // SAFETY: a valid structure's pointers are.
    let (bindings, flags) = unsafe {
        let bindings = raw::slice(information.p_bindings, information.binding_count);
        let flags = raw::find::<Flags<'_>>(information.p_next);
        (bindings, flags.map(|flags| raw::slice(flags.p_binding_flags, flags.binding_count)))
    };
    let flags = flags.unwrap_or_default();
    let mut asked: Vec<_> = bindings
        .iter()
        .enumerate()
        .map(|(at, binding)| Asked {
            number: binding.binding,
            kind: binding.descriptor_type,
            count: binding.descriptor_count,
            flags: flags.get(at).copied().unwrap_or_default(),
        })
        .collect();
    let pushed = vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR;
    SetLayout::new(&mut asked, information.flags.contains(pushed))
}

unsafe extern "system" fn create(
    _device: vk::Device,
    information: *const vk::DescriptorSetLayoutCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    layout: *mut vk::DescriptorSetLayout,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let Some(made) = lay_out(&*information) else {
            return vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
        };
        *layout = vk::DescriptorSetLayout::from_raw(handle::create(Arc::new(made)));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    layout: vk::DescriptorSetLayout,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Arc<SetLayout>>(layout.as_raw()) };
}

unsafe extern "system" fn support(
    _device: vk::Device,
    information: *const vk::DescriptorSetLayoutCreateInfo<'_>,
    support: *mut vk::DescriptorSetLayoutSupport<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        type Variable<'a> = vk::DescriptorSetVariableDescriptorCountLayoutSupport<'a>;
        let made = lay_out(&*information);
        let next = (*support).p_next;
        (*support).supported = made.is_some().into();
        if let Some(variable) = raw::find_mut::<Variable<'_>>(next) {
            let most = made.map_or(0, |layout| layout.most_variable());
            variable.max_variable_descriptor_count = most;
        }
    }
}

crate::entry::entry_points! {
    vkCreateDescriptorSetLayout = create,
    vkDestroyDescriptorSetLayout = destroy,
    vkGetDescriptorSetLayoutSupport = support,
    vkGetDescriptorSetLayoutSupportKHR = support,
}
