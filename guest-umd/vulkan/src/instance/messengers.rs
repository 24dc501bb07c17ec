// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Messengers of an instance: `VK_EXT_debug_utils`.

use super::Instance;
use crate::handle;
use crate::messengers::Messenger;
use ash::vk::{self, Handle as _};

unsafe extern "system" fn create(
    instance: vk::Instance,
    information: *const vk::DebugUtilsMessengerCreateInfoEXT<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    messenger: *mut vk::DebugUtilsMessengerEXT,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it: the callback may be called until the messenger is
    // destroyed, with this pointer.
    unsafe {
        let instance = handle::get_dispatchable::<Instance>(instance.as_raw());
        // It has no content: the instance has it all.
        let made = handle::create(());
        instance.messengers.add(made, Messenger::new(&*information));
        *messenger = vk::DebugUtilsMessengerEXT::from_raw(made);
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    instance: vk::Instance,
    messenger: vk::DebugUtilsMessengerEXT,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it; it destroys the messenger once.
    unsafe {
        let instance = handle::get_dispatchable::<Instance>(instance.as_raw());
        instance.messengers.remove(messenger.as_raw());
        handle::destroy::<()>(messenger.as_raw());
    }
}

/// What a program submits, the loader tells the messengers: each of several drivers would tell them once more.
unsafe extern "system" fn submit(
    _instance: vk::Instance,
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kinds: vk::DebugUtilsMessageTypeFlagsEXT,
    _data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
) {
}

crate::entry::entry_points! {
    vkCreateDebugUtilsMessengerEXT = create,
    vkDestroyDebugUtilsMessengerEXT = destroy,
    vkSubmitDebugUtilsMessageEXT = submit,
}
