// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pre-empt and stop.
//!
//! The control plane takes a queue off the run list ([`Membership::suspend`](super::run_list::Membership))
//! and asks to be told when the engine has left it; the engine says so between two turns. What it is
//! told is the fence that it asked with last, so that a pre-emption is never taken for an earlier one.
//!
//! Source: Windows KMD overview, "Render-related DDIs" (PreemptCommand).

use super::sync::{AtomicU64, Ordering};

/// No pre-emption.
const NONE: u64 = u64::MAX;

/// The pre-emption of a queue. Fences are any numbers but `u64::MAX`.
#[derive(Debug)]
pub struct Preemption {
    asked: AtomicU64,
    stopped: AtomicU64,
}

impl Default for Preemption {
    fn default() -> Self {
        Self::new()
    }
}

impl Preemption {
    /// No pre-emption is asked for.
    #[must_use]
    pub fn new() -> Self {
        Self { asked: AtomicU64::new(NONE), stopped: AtomicU64::new(NONE) }
    }

    /// Control plane, after it took the queue off the run list: asks. The engine must then be called.
    /// Releases the change of the run list to [`Self::stop`].
    pub fn ask(&self, fence: u64) {
        self.asked.store(fence, Ordering::Release);
    }

    /// Engine, once called, between two turns: the queue gets no turn from now on, as its membership
    /// says after this. False when that was told already; else the control plane must be called.
    #[must_use]
    pub fn stop(&self) -> bool {
        let fence = self.asked.swap(NONE, Ordering::Acquire);
        if fence == NONE {
            return false;
        }
        // Releases what the queue's turns did to `report`.
        self.stopped.store(fence, Ordering::Release);
        true
    }

    /// Control plane: the fence that was asked with when the queue stopped, once.
    pub fn report(&self) -> Option<u64> {
        let fence = self.stopped.swap(NONE, Ordering::Acquire);
        (fence != NONE).then_some(fence)
    }
}
