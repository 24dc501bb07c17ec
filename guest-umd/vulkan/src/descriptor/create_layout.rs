// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Creates layouts of descriptor sets. Whoever uses a layout keeps it, so that a program may destroy it before.

use super::describe::sampler;
use super::layout::{Asked, SetLayout};
use crate::device::Device;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::{Descriptor, DescriptorKind};
use std::sync::Arc;

/// The samplers that a binding says are its own.
///
/// # Safety
/// The binding is valid, as Vulkan demands it.
unsafe fn samplers(binding: &vk::DescriptorSetLayoutBinding<'_>) -> Vec<Descriptor> {
    let kind = DescriptorKind(binding.descriptor_type.as_raw() as u32);
    if !kind.has_sampler() {
        // The pointer is to nothing.
        return Vec::new();
    }
    // SAFETY: a valid binding has none or as many as descriptors, which are live.
    unsafe {
        let samplers = raw::slice(binding.p_immutable_samplers, binding.descriptor_count);
        samplers.iter().map(|own| sampler(*own)).collect()
    }
}

/// Lays out what a program asks for.
///
/// # Safety
/// The handle and the structure are valid, as Vulkan demands it.
unsafe fn lay_out(
    device: vk::Device,
    information: &vk::DescriptorSetLayoutCreateInfo<'_>,
) -> Option<SetLayout> {
    type Flags<'a> = vk::DescriptorSetLayoutBindingFlagsCreateInfo<'a>;
    // SAFETY: a valid structure's pointers are.
    let (caps, bindings, flags) = unsafe {
        let bindings = raw::slice(information.p_bindings, information.binding_count);
        let flags = raw::find::<Flags<'_>>(information.p_next);
        let flags = flags.map(|flags| raw::slice(flags.p_binding_flags, flags.binding_count));
        (&Device::get(device).caps, bindings, flags)
    };
    let needs_images = |binding: &vk::DescriptorSetLayoutBinding<'_>| {
        binding.descriptor_type < vk::DescriptorType::UNIFORM_BUFFER
    };
    let needs_graphics = |binding: &vk::DescriptorSetLayoutBinding<'_>| {
        binding.descriptor_type == vk::DescriptorType::INPUT_ATTACHMENT
    };
    if !caps.have_images() && bindings.iter().any(needs_images)
        || !caps.have_graphics() && bindings.iter().any(needs_graphics)
    {
        return None;
    }
    let flags = flags.unwrap_or_default();
    let mut asked: Vec<_> = bindings
        .iter()
        .enumerate()
        .map(|(at, binding)| Asked {
            number: binding.binding,
            kind: binding.descriptor_type,
            count: binding.descriptor_count,
            flags: flags.get(at).copied().unwrap_or_default(),
            // SAFETY: as above.
            samplers: unsafe { samplers(binding) },
        })
        .collect();
    let pushed = vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR;
    SetLayout::new(&mut asked, information.flags.contains(pushed))
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::DescriptorSetLayoutCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    layout: *mut vk::DescriptorSetLayout,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let Some(made) = lay_out(device, &*information) else {
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
    device: vk::Device,
    information: *const vk::DescriptorSetLayoutCreateInfo<'_>,
    support: *mut vk::DescriptorSetLayoutSupport<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        type Variable<'a> = vk::DescriptorSetVariableDescriptorCountLayoutSupport<'a>;
        let made = lay_out(device, &*information);
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
