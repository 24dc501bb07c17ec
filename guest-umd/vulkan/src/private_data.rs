// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Private data: slots, for each of which a program attaches a number to objects.

use crate::{attached, handle};
use ash::vk::{self, Handle as _};

/// A slot has no content: the numbers are in one place.
struct Slot;

unsafe extern "system" fn create_slot(
    _device: vk::Device,
    _information: *const vk::PrivateDataSlotCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    slot: *mut vk::PrivateDataSlot,
) -> vk::Result {
    // SAFETY: a program passes a place for the handle.
    unsafe { *slot = vk::PrivateDataSlot::from_raw(handle::create(Slot)) };
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy_slot(
    _device: vk::Device,
    slot: vk::PrivateDataSlot,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    let slot = slot.as_raw();
    attached::forget_slot(slot);
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Slot>(slot) };
}

unsafe extern "system" fn set_data(
    _device: vk::Device,
    _kind: vk::ObjectType,
    object: u64,
    slot: vk::PrivateDataSlot,
    number: u64,
) -> vk::Result {
    attached::set(object, slot.as_raw(), number);
    vk::Result::SUCCESS
}

unsafe extern "system" fn get_data(
    _device: vk::Device,
    _kind: vk::ObjectType,
    object: u64,
    slot: vk::PrivateDataSlot,
    number: *mut u64,
) {
    // SAFETY: a program passes a place for the number.
    unsafe { *number = attached::get(object, slot.as_raw()) };
}

crate::entry::entry_points! {
    vkCreatePrivateDataSlot = create_slot,
    vkCreatePrivateDataSlotEXT = create_slot,
    vkDestroyPrivateDataSlot = destroy_slot,
    vkDestroyPrivateDataSlotEXT = destroy_slot,
    vkSetPrivateData = set_data,
    vkSetPrivateDataEXT = set_data,
    vkGetPrivateData = get_data,
    vkGetPrivateDataEXT = get_data,
}
