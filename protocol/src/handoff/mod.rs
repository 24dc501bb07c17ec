// SPDX-License-Identifier: MIT OR Apache-2.0

//! The hand-offs between threads and processes: every protocol that depends on memory ordering.
//!
//! Each hand-off is one type, in a file of its own, written over borrowed atomics, which come from the code that
//! maps the shared memory. They live in the lowest crate because the two ends of a hand-off are in different
//! crates, and together because `tests/handoff` model-checks exactly these types.

pub mod accessed;
pub mod attention;
pub mod doorbell;
pub mod doorbell_line;
pub mod drawing;
pub mod fence;
pub mod fence_log;
pub mod hint;
pub mod owner;
pub mod pending;
pub mod power;
pub mod preemption;
pub mod promise;
pub mod publication;
pub mod quiescence;
pub mod run_list;
pub mod tlb;
pub mod words;

/// The atomics underneath the types above: the real ones, or loom's under `cfg(loom)`.
pub mod sync {
    #[cfg(not(loom))]
    pub use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    #[cfg(loom)]
    pub use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}
