// SPDX-License-Identifier: MIT OR Apache-2.0

//! Structures of Vulkan that answer questions, as bytes.

use ash::vk;
use std::ffi::c_void;
use std::ptr;
use zerocopy::{FromBytes, IntoBytes};

/// A structure of Vulkan, whose fields are bytes here: all of them have a value, also those between fields.
#[repr(C, align(8))]
pub(super) struct Chained<const BYTES: usize> {
    kind: vk::StructureType,
    next: *mut c_void,
    pub(super) bytes: [u8; BYTES],
}

impl<const BYTES: usize> Chained<BYTES> {
    pub(super) fn new(kind: vk::StructureType) -> Self {
        Self { kind, next: ptr::null_mut(), bytes: [0; BYTES] }
    }

    /// Puts another structure behind this one, which must outlive the calls that are given this one.
    pub(super) fn chain<const OTHER: usize>(&mut self, next: &mut Chained<OTHER>) {
        next.next = self.next;
        self.next = (&raw mut *next).cast();
    }

    /// Fills a field from these bytes, from the first.
    pub(super) fn fill<T: FromBytes + IntoBytes>(&self, field: &mut T) {
        copy(&self.bytes, field);
    }
}

/// Copies as many bytes as both have.
pub(super) fn copy<T: FromBytes + IntoBytes>(from: &[u8], to: &mut T) {
    let to = to.as_mut_bytes();
    let length = to.len().min(from.len());
    to[..length].copy_from_slice(&from[..length]);
}
