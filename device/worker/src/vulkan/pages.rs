// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "memory of a chosen alignment, shared with a device")]

//! Memory of this process that a device uses.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Zeroed whole pages at a fixed address. Accesses are atomic because a device may change the pages.
pub struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

impl Pages {
    /// Allocates `length` bytes, rounded up to a multiple of `alignment`, at a multiple of `alignment`. `length` must
    /// not be 0, and `alignment` must be a power of two of at least 8.
    pub fn new(length: usize, alignment: usize) -> Self {
        assert!(length > 0 && alignment >= align_of::<AtomicU64>());
        let layout = Layout::from_size_align(length.next_multiple_of(alignment), alignment);
        // No memory has a length that is none of a layout.
        let layout = layout.unwrap_or_else(|_| handle_alloc_error(Layout::new::<AtomicU64>()));
        // SAFETY: the layout has a length other than 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        Self { start: start.unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }

    /// Returns the first address.
    pub fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.layout.size()
    }

    /// Returns the pages as 32-bit words.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: the memory has this length, is zeroed, lives as long as `self`, is aligned for atomics (`new` asserts
        // it), and is accessed only through atomics or by a device.
        unsafe {
            slice::from_raw_parts(self.start.as_ptr().cast(), self.length() / size_of::<u32>())
        }
    }

    /// Returns the pages as 64-bit words.
    pub fn double_words(&self) -> &[AtomicU64] {
        // SAFETY: as in `words`.
        unsafe {
            slice::from_raw_parts(self.start.as_ptr().cast(), self.length() / size_of::<u64>())
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout, and no borrow of it is left.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
