// SPDX-License-Identifier: MIT OR Apache-2.0

//! Open and name, close and wait.
//!
//! A process's packets name a fence through a slot that the process owns. The control plane fills the slot
//! and then opens it to the process; an engine that finds the process to be the owner finds the slot filled.
//!
//! A queue may begin to wait for the fence while the control plane closes the slot. The engine stores that it
//! waits and then looks at the owner; the control plane takes the owner away and then looks who waits. The
//! full fences of [`FenceCell::wait`](super::fence::FenceCell::wait) and
//! [`FenceCell::evaluate`](super::fence::FenceCell::evaluate) stand between, so either the engine sees that
//! the slot is closed, or the control plane sees that the engine waits.

use super::sync::{AtomicU64, Ordering};

/// No process has this id.
const NOBODY: u64 = 0;

/// The process that owns a slot.
#[derive(Debug)]
pub struct Owner(AtomicU64);

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

impl Owner {
    /// The slot is closed.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(NOBODY))
    }

    /// Control plane, after it filled the slot: opens it to a process; `id` is not 0. Releases the slot's
    /// content to [`Self::is`].
    pub fn open(&self, id: u64) {
        self.0.store(id, Ordering::Release);
    }

    /// Engine: whether the slot is open to a process. Acquires the slot's content. An engine that holds a
    /// queue asks again after [`FenceCell::wait`](super::fence::FenceCell::wait).
    #[must_use]
    #[inline]
    pub fn is(&self, id: u64) -> bool {
        self.0.load(Ordering::Acquire) == id
    }

    /// Control plane: closes the slot. [`FenceCell::evaluate`](super::fence::FenceCell::evaluate) must follow,
    /// and names the engines that hold a queue for the fence.
    ///
    /// Relaxed: an engine that finds the slot closed reads nothing of it.
    pub fn close(&self) {
        self.0.store(NOBODY, Ordering::Relaxed);
    }
}
