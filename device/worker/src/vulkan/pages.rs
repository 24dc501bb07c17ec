// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "memory of a chosen alignment, shared with a device")]

//! Memory of this process that a device works in.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Whole pages, zeroed, at an address that stays. They are read and written as atomics, for a device may change them.
pub struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

impl Pages {
    /// At least `length` bytes, a multiple of `alignment` in address and length. Neither may be 0, and
    /// `alignment` is a power of two of at least 8.
    pub fn new(length: usize, alignment: usize) -> Self {
        assert!(length > 0 && alignment >= align_of::<AtomicU64>());
        let layout = Layout::from_size_align(length.next_multiple_of(alignment), alignment);
        let layout = layout.expect("a power of two, and lengths of a few pages");
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        Self { start: start.unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }

    /// Where they are.
    pub fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        self.layout.size()
    }

    /// All of them, as words of 32 bits.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: zeroed memory of this many bytes that lives as long as `self`, aligned for atomics (`new`
        // asserts it), and only reached through atomics or by a device.
        unsafe {
            slice::from_raw_parts(self.start.as_ptr().cast(), self.length() / size_of::<u32>())
        }
    }

    /// All of them, as words of 64 bits.
    pub fn double_words(&self) -> &[AtomicU64] {
        // SAFETY: as in `words`.
        unsafe {
            slice::from_raw_parts(self.start.as_ptr().cast(), self.length() / size_of::<u64>())
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and what borrowed it is gone.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
