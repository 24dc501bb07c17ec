// SPDX-License-Identifier: MIT OR Apache-2.0

//! Prefetching cache lines. The lines of a submission come from the processor that wrote them, and each transfer
//! takes about as long as all packets of a null command buffer.

use vm_memory::VolatileSlice;

/// Predicts addresses at equal distances, as a driver walks through its command buffers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stride {
    last: u64,
    next: u64,
}

impl Stride {
    /// Records the address of this access.
    #[inline]
    pub fn note(&mut self, address: u64) {
        self.next = address.wrapping_add(address.wrapping_sub(self.last));
        self.last = address;
    }

    /// The next address, if the distance between the last two repeats.
    #[inline]
    pub fn next(self) -> u64 {
        self.next
    }
}

/// Prefetches the first cache line of a slice. Nothing waits for it.
#[inline]
pub fn prefetch(slice: &VolatileSlice<'_>) {
    prefetch_line(slice.ptr_guard().as_ptr());
}

/// Prefetches the cache line that `at` points into. Nothing waits for it.
#[inline]
pub fn prefetch_line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the one intrinsic is declared unsafe")]
    // SAFETY: a prefetch is a hint, which reads and writes nothing and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(at.cast(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_equally_far_apart_are_foretold_in_either_direction() {
        let mut stride = Stride::default();
        for [first, second, third] in [[0x1000; 3], [0x1000, 0x1040, 0x1080], [0x80, 0x40, 0]] {
            stride.note(first);
            stride.note(second);
            assert_eq!(stride.next(), third);
        }
        stride.note(0);
        stride.note(u64::MAX);
        assert_eq!(stride.next(), u64::MAX - 1);
    }
}
