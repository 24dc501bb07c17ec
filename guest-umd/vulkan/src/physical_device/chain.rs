// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes chains of structures")]

//! Chains of Vulkan's structures as bytes: many of them are parts of others, under another number.

use ash::vk;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;

/// Where the fields of a structure begin that can be in a chain: behind `sType` and `pNext`.
pub(crate) const HEAD: usize = offset_of!(vk::PhysicalDeviceFeatures2<'static>, features);

/// Calls `visit` with the kind of each structure of a chain, and the address of its fields.
///
/// # Safety
/// `next` is null or a chain of Vulkan's structures.
unsafe fn each(next: *const c_void, mut visit: impl FnMut(vk::StructureType, *const u8)) {
    let mut next = next.cast::<vk::BaseInStructure<'_>>();
    // SAFETY: each is null or a structure that begins like this.
    while let Some(structure) = unsafe { next.as_ref() } {
        visit(structure.s_type, next.cast::<u8>().wrapping_add(HEAD));
        next = structure.p_next;
    }
}

/// Fills the structures of a chain of which there is something to say: their first bytes.
///
/// # Safety
/// `next` is null or a chain of Vulkan's structures, which nobody else accesses, and `content` has no more bytes for a kind than
/// its structures have behind [`HEAD`].
pub(crate) unsafe fn fill(
    next: *mut c_void,
    content: impl Fn(vk::StructureType) -> Option<Vec<u8>>,
) {
    let write = |kind, fields: *const u8| {
        if let Some(bytes) = content(kind) {
            // SAFETY: the caller says that the structure has room. `next` may be written, and so may what it leads to.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), fields.cast_mut(), bytes.len()) };
        }
    };
    // SAFETY: as the caller says.
    unsafe { each(next, write) };
}

/// Returns whether `check` accepts the first words of each structure of which `length` says a number of words.
///
/// # Safety
/// `next` is null or a chain of Vulkan's structures, which nobody writes, and have as many words behind [`HEAD`].
pub(crate) unsafe fn all(
    next: *const c_void,
    length: impl Fn(vk::StructureType) -> Option<usize>,
    check: impl Fn(vk::StructureType, &[u32]) -> bool,
) -> bool {
    let mut are_good = true;
    let look = |kind, fields: *const u8| {
        if let Some(length) = length(kind) {
            // SAFETY: the caller says that there are so many. A structure with a pointer is aligned for words.
            let words = unsafe { std::slice::from_raw_parts(fields.cast::<u32>(), length) };
            are_good &= check(kind, words);
        }
    };
    // SAFETY: as the caller says.
    unsafe { each(next, look) };
    are_good
}
