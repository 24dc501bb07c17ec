// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers")]

//! What the pointers that a program passes point to.

use ash::vk;
use std::ffi::c_void;

/// An array. No elements need no pointer.
///
/// # Safety
/// So many elements are there, and nobody writes them for so long.
pub(crate) unsafe fn slice<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if count == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: the caller says that they are there.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}

/// An array that Vulkan lets nobody leave out: its pointer counts unless it has no elements.
///
/// # Safety
/// As [`slice`].
pub(crate) unsafe fn array<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller says that they are there.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}

/// An array to be written.
///
/// # Safety
/// There is room for so many elements, which nobody else accesses for so long.
pub(crate) unsafe fn slice_mut<'a, T>(first: *mut T, count: u32) -> &'a mut [T] {
    if count == 0 || first.is_null() {
        return &mut [];
    }
    // SAFETY: the caller says that there is room.
    unsafe { std::slice::from_raw_parts_mut(first, count as usize) }
}

/// The structure of this type in a chain.
///
/// # Safety
/// `next` is null or a chain of Vulkan's structures, which nobody writes for so long.
pub(crate) unsafe fn find<'a, T: vk::TaggedStructure>(next: *const c_void) -> Option<&'a T> {
    let mut next = next.cast::<vk::BaseInStructure<'a>>();
    // SAFETY: each is null or a structure that begins like this.
    while let Some(structure) = unsafe { next.as_ref() } {
        if structure.s_type == T::STRUCTURE_TYPE {
            // SAFETY: a structure with this number has this type.
            return unsafe { next.cast::<T>().as_ref() };
        }
        next = structure.p_next;
    }
    None
}

/// The structure of this type in a chain to be written.
///
/// # Safety
/// `next` is null or a chain of Vulkan's structures, which nobody else accesses for so long.
pub(crate) unsafe fn find_mut<'a, T: vk::TaggedStructure>(next: *mut c_void) -> Option<&'a mut T> {
    let mut next = next.cast::<vk::BaseOutStructure<'a>>();
    // SAFETY: each is null or a structure that begins like this.
    while let Some(structure) = unsafe { next.as_ref() } {
        if structure.s_type == T::STRUCTURE_TYPE {
            // SAFETY: a structure with this number has this type.
            return unsafe { next.cast::<T>().as_mut() };
        }
        next = structure.p_next;
    }
    None
}
