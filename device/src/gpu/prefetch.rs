//! Cache lines that are asked for before they are needed: those of a submission come from the processor
//! that wrote them, and each takes about as long as all of a null command buffer's packets do.

use vm_memory::VolatileSlice;

/// Asks for the first cache line of a slice. Nothing waits for it.
#[inline]
pub fn prefetch(slice: &VolatileSlice<'_>) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the one intrinsic is declared unsafe")]
    // SAFETY: a prefetch is a hint, which reads and writes nothing and faults nowhere.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(slice.ptr_guard().as_ptr().cast(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = slice;
}
