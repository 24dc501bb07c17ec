// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(
    unsafe_code,
    reason = "the loader calls functions of C, by names that it has as pointers"
)]

//! Finding entry points: what the loader and programs ask for by name.
//!
//! Source: the loader's "Driver interface to the Vulkan Loader".

use crate::entry::entry_points;
use crate::{
    buffer, command, creation, descriptor, device, event, fence, image, instance, memory, names,
    physical_device, pipeline, private_data, query, queue, rendering, semaphore, surface,
    unsupported,
};
use ash::vk;
use std::ffi::{CStr, c_char};

/// The versions of the loader's interface that this driver has. From 5 on the loader passes any version of Vulkan to
/// `vkCreateInstance`; from 7 on it finds the three functions of the interface by name.
const INTERFACES: std::ops::RangeInclusive<u32> = 5..=7;

/// The functions that need no instance.
fn global(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    instance::global(name).or_else(|| interface::lookup(name))
}

/// The functions whose first argument is an instance or a physical device.
fn of_instance(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    instance::lookup(name)
        .or_else(|| surface::lookup_of_instance(name))
        .or_else(|| of_physical_device(name))
}

/// The functions whose first argument is a physical device.
fn of_physical_device(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    physical_device::lookup(name)
        .or_else(|| creation::lookup_creation(name))
        .or_else(|| surface::lookup_of_physical_device(name))
}

/// The functions whose first argument is a device, a queue or a command buffer.
fn of_device(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    command::lookup(name)
        .or_else(|| device::lookup(name))
        .or_else(|| names::lookup(name))
        .or_else(|| creation::lookup(name))
        .or_else(|| queue::lookup(name))
        .or_else(|| fence::lookup(name))
        .or_else(|| semaphore::lookup(name))
        .or_else(|| semaphore::lookup_external(name))
        .or_else(|| memory::lookup(name))
        .or_else(|| buffer::lookup(name))
        .or_else(|| image::lookup(name))
        .or_else(|| descriptor::lookup(name))
        .or_else(|| rendering::lookup(name))
        .or_else(|| pipeline::lookup(name))
        .or_else(|| event::lookup(name))
        .or_else(|| query::lookup(name))
        .or_else(|| surface::lookup(name))
        .or_else(|| private_data::lookup(name))
        .or_else(|| unsupported::lookup(name))
        .or_else(|| itself::lookup(name))
}

/// # Safety
/// `name` is null or a text that ends with a zero.
unsafe fn find(
    name: *const c_char,
    find: impl FnOnce(&[u8]) -> Option<vk::PFN_vkVoidFunction>,
) -> vk::PFN_vkVoidFunction {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller says that it is a text.
    find(unsafe { CStr::from_ptr(name) }.to_bytes()).flatten()
}

/// `vkGetInstanceProcAddr`.
///
/// # Safety
/// As Vulkan demands it of the caller.
pub unsafe extern "system" fn instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let all = |name: &[u8]| {
        let found = global(name);
        if instance == vk::Instance::null() {
            return found;
        }
        found.or_else(|| of_instance(name)).or_else(|| of_device(name))
    };
    // SAFETY: the caller passes a text.
    unsafe { find(name, all) }
}

/// `vkGetDeviceProcAddr`.
///
/// # Safety
/// As Vulkan demands it of the caller.
pub unsafe extern "system" fn device_proc_addr(
    _device: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a text.
    unsafe { find(name, of_device) }
}

/// What the loader calls first: both sides agree on a version of their interface.
///
/// # Safety
/// The loader passes its newest version, and takes the driver's in the same place.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdNegotiateLoaderICDInterfaceVersion(
    version: *mut u32,
) -> vk::Result {
    // SAFETY: the loader passes a place.
    let Some(version) = (unsafe { version.as_mut() }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    if *version < *INTERFACES.start() {
        return vk::Result::ERROR_INCOMPATIBLE_DRIVER;
    }
    *version = (*version).min(*INTERFACES.end());
    vk::Result::SUCCESS
}

/// As [`instance_proc_addr`], for the loader.
///
/// # Safety
/// As [`instance_proc_addr`].
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdGetInstanceProcAddr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a text.
    unsafe { instance_proc_addr(instance, name) }
}

/// Finds a function whose first argument is a physical device, and no other.
///
/// # Safety
/// As [`instance_proc_addr`].
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdGetPhysicalDeviceProcAddr(
    _instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a text.
    unsafe { find(name, of_physical_device) }
}

/// What the loader may ask for by name in place of a symbol of the library.
mod interface {
    use super::{
        instance_proc_addr, vk_icdGetInstanceProcAddr, vk_icdGetPhysicalDeviceProcAddr,
        vk_icdNegotiateLoaderICDInterfaceVersion,
    };

    super::entry_points! {
        vkGetInstanceProcAddr = instance_proc_addr,
        vk_icdGetInstanceProcAddr = vk_icdGetInstanceProcAddr,
        vk_icdGetPhysicalDeviceProcAddr = vk_icdGetPhysicalDeviceProcAddr,
        vk_icdNegotiateLoaderICDInterfaceVersion = vk_icdNegotiateLoaderICDInterfaceVersion,
    }
}

/// What finds the others of a device.
mod itself {
    super::entry_points! {
        vkGetDeviceProcAddr = super::device_proc_addr,
    }
}

#[cfg(test)]
mod tests;
