// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Creates instances, and says what they can have.

use super::Instance;
use crate::physical_device::caps::NEWEST;
use crate::physical_device::{PhysicalDevice, Profile, extensions::describe};
use crate::{handle, list, raw};
use ash::vk::{self, Handle as _};
use ash::{ext, khr};
use std::ffi::{CStr, c_char};
use std::sync::{Arc, OnceLock};

/// The extensions of instances, and their versions. Some are parts of Vulkan 1.1.
const EXTENSIONS: [(&CStr, u32); 13] = [
    (ext::debug_utils::NAME, 2),
    (khr::device_group_creation::NAME, 1),
    (khr::display::NAME, 23),
    (khr::external_fence_capabilities::NAME, 1),
    (khr::external_memory_capabilities::NAME, 1),
    (khr::external_semaphore_capabilities::NAME, 1),
    (khr::get_display_properties2::NAME, 1),
    (khr::get_physical_device_properties2::NAME, 2),
    (khr::get_surface_capabilities2::NAME, 1),
    (khr::surface::NAME, 25),
    (khr::xcb_surface::NAME, 6),
    (khr::xlib_surface::NAME, 6),
    (ext::headless_surface::NAME, 1),
];

/// Whether there is what a program asks for.
fn check(
    api_version: u32,
    mut extensions: impl Iterator<Item = &'static CStr>,
    layers: u32,
) -> Result<(), vk::Result> {
    // A variant is another Vulkan. 0 is any version.
    if vk::api_version_variant(api_version) != 0 {
        return Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER);
    }
    // The loader keeps those to itself that it has.
    if layers > 0 {
        return Err(vk::Result::ERROR_LAYER_NOT_PRESENT);
    }
    if !extensions.all(|name| EXTENSIONS.iter().any(|(offered, _)| *offered == name)) {
        return Err(vk::Result::ERROR_EXTENSION_NOT_PRESENT);
    }
    Ok(())
}

unsafe extern "system" fn create(
    information: *const vk::InstanceCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    instance: *mut vk::Instance,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let information = &*information;
        let application = information.p_application_info.as_ref();
        let api_version = application.map_or(0, |application| application.api_version);
        let names = information.pp_enabled_extension_names;
        let names = raw::slice(names, information.enabled_extension_count).iter();
        let names = names.map(|name| CStr::from_ptr(*name));
        if let Err(error) = check(api_version, names, information.enabled_layer_count) {
            return error;
        }
        let name = application.map(|application| application.p_application_name);
        let name = name.filter(|name| !name.is_null()).map(|name| CStr::from_ptr(name));
        let profile = Profile::of(&name.unwrap_or_default().to_string_lossy());
        let messengers = Arc::default();
        let made = Instance { devices: OnceLock::new(), messengers, profile };
        *instance = vk::Instance::from_raw(handle::create_dispatchable(made));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    instance: vk::Instance,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    if instance.is_null() {
        return;
    }
    // SAFETY: the program destroys it once, and uses its physical devices no more.
    unsafe {
        let made = handle::get_dispatchable::<Instance>(instance.as_raw());
        for device in made.devices.get().into_iter().flatten() {
            handle::destroy_dispatchable::<PhysicalDevice>(*device);
        }
        handle::destroy_dispatchable::<Instance>(instance.as_raw());
    }
}

unsafe extern "system" fn version(version: *mut u32) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { *version = NEWEST };
    vk::Result::SUCCESS
}

unsafe extern "system" fn instance_extensions(
    layer: *const c_char,
    count: *mut u32,
    properties: *mut vk::ExtensionProperties,
) -> vk::Result {
    if !layer.is_null() {
        return vk::Result::ERROR_LAYER_NOT_PRESENT;
    }
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::copy(EXTENSIONS.map(describe), count, properties) }
}

unsafe extern "system" fn instance_layers(
    count: *mut u32,
    properties: *mut vk::LayerProperties,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::copy([], count, properties) }
}

crate::entry::entry_points! {
    vkDestroyInstance = destroy,
}

/// Those that need no instance.
mod without {
    use super::{create, instance_extensions, instance_layers, version};

    crate::entry::entry_points! {
        vkCreateInstance = create,
        vkEnumerateInstanceVersion = version,
        vkEnumerateInstanceExtensionProperties = instance_extensions,
        vkEnumerateInstanceLayerProperties = instance_layers,
    }
}

pub use without::lookup as lookup_global;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_what_is_there() {
        let properties = khr::get_physical_device_properties2::NAME;
        assert_eq!(check(0, [].into_iter(), 0), Ok(()));
        assert_eq!(check(vk::make_api_version(0, 1, 4, 0), [properties].into_iter(), 0), Ok(()));
        let missing = [properties, khr::android_surface::NAME].into_iter();
        assert_eq!(check(0, missing, 0), Err(vk::Result::ERROR_EXTENSION_NOT_PRESENT));
        assert_eq!(check(0, [].into_iter(), 1), Err(vk::Result::ERROR_LAYER_NOT_PRESENT));
        let other = vk::make_api_version(1, 1, 0, 0);
        assert_eq!(check(other, [].into_iter(), 0), Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER));
    }
}
