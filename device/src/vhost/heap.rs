//! What the allocator keeps of a guest's memory.

/// Gives memory that is free in the heap back to the system. A guest may have had a hundred times more
/// objects than the next, and glibc on its own keeps most of what they took.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "no crate wraps malloc_trim")]
    // SAFETY: It takes the allocator's own locks, and touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
