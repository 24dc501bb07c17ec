// SPDX-License-Identifier: MIT OR Apache-2.0

//! What programs may have.

/// What programs may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Programs at once.
    pub programs: usize,
    /// Programs of one user at once.
    pub programs_of_user: usize,
    /// Processes on the device of each program.
    pub processes: usize,
    /// Requests in flight of each program, at least 2.
    pub requests: usize,
    /// Bytes of memory for allocations of each program.
    pub memory: u64,
    /// Doorbells of each program.
    pub doorbells: u32,
    /// Fences of each program.
    pub fences: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            programs: 16,
            programs_of_user: 8,
            processes: 16,
            requests: 8,
            memory: 64 << 20,
            doorbells: 64,
            fences: 256,
        }
    }
}
