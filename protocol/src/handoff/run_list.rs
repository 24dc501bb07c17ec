// SPDX-License-Identifier: MIT OR Apache-2.0

//! On the run list and off it.
//!
//! The control plane takes a queue off its engine's run list and puts it back; the engine checks before each turn.
//! Another hand-off tells that an engine has let go of a queue: the control plane raises its
//! [`Attention`](super::attention::Attention) after the change, and the engine's answer comes after its last turn.
//!
//! Source: user-mode work submission, "Hardware context suspension".

use super::sync::{AtomicU64, Ordering};

const LISTED: u64 = 0;
const SUSPENDED: u64 = 1;
const DESTROYED: u64 = 2;

/// Whether a queue is on its engine's run list. Only the control plane changes it.
#[derive(Debug)]
pub struct Membership(AtomicU64);

impl Default for Membership {
    fn default() -> Self {
        Self::new()
    }
}

impl Membership {
    /// On the list.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(LISTED))
    }

    /// Control plane: takes the queue off the list. The engine must then be called; it has let go of the queue when
    /// it answers.
    pub fn suspend(&self) {
        self.0.store(SUSPENDED, Ordering::Relaxed);
    }

    /// Control plane: puts the queue back. Releases to [`Self::may_run`] what made it able to run. The engine must
    /// then be called to look at the queue: it may have seen the queue's work and skipped it.
    pub fn resume(&self) {
        self.0.store(LISTED, Ordering::Release);
    }

    /// Control plane: takes the queue off the list permanently, otherwise as [`Self::suspend`].
    pub fn destroy(&self) {
        self.0.store(DESTROYED, Ordering::Relaxed);
    }

    /// Engine, before each turn: returns whether the queue may have it. Acquires what preceded [`Self::resume`].
    #[must_use]
    #[inline]
    pub fn may_run(&self) -> bool {
        self.0.load(Ordering::Acquire) == LISTED
    }

    /// Engine, once called: returns whether the queue is permanently off the list.
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == DESTROYED
    }
}
