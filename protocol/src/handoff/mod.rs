// SPDX-License-Identifier: MIT OR Apache-2.0

//! The hand-offs between threads and processes whose ordering must hold.
//!
//! Each is one type, in a file of its own, written over borrowed atomics: the code that maps the shared
//! memory hands those out. They live in the lowest crate because both ends of one are in different
//! crates, and together because `tests/handoff` model-checks exactly these types.

pub mod accessed;
pub mod attention;
pub mod doorbell;
pub mod fence;
pub mod fence_log;
pub mod hint;
pub mod owner;
pub mod pending;
pub mod power;
pub mod preemption;
pub mod publication;
pub mod quiescence;
pub mod run_list;
pub mod tlb;
pub mod words;

/// The atomics that the types above are written over: the real ones, or loom's under `cfg(loom)`.
pub mod sync {
    #[cfg(not(loom))]
    pub use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    #[cfg(loom)]
    pub use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}
