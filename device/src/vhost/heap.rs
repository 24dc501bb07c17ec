// SPDX-License-Identifier: MIT OR Apache-2.0

//! Returns a detached guest's memory from the allocator to the system.

/// Returns free heap memory to the system. Guests differ a hundredfold in their number of objects, and glibc by
/// itself keeps most of a guest's memory.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "no crate wraps malloc_trim")]
    // SAFETY: `malloc_trim` takes the allocator's locks and touches no memory in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
